/// \file
/// Operators that several tests are about.
#pragma once

#include "sim/model/operators.hpp"

namespace tracecast::test {

/// Of Llama-3 70B: one sequence of 8192 over 8 of 64 heads (tp 8), one key/value head.
inline AttentionShape llama70b_attention(bool causal) {
  return {.batch = 1,
          .q_len = 8192,
          .kv_len = 8192,
          .heads = 8,
          .kv_heads = 1,
          .qk_dim = 128,
          .v_dim = 128,
          .causal = causal,
          .window = 0};
}

}  // namespace tracecast::test
