#include "tests/graph/small_scenario.hpp"

#include "sim/io/files.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast::test {

Scenario small_scenario(int tp, int pp, int dp) {
  Scenario s;
  s.name = "small";
  s.model.name = "small";
  s.model.num_layers = 8;
  s.model.hidden_size = 1024;
  s.model.num_attention_heads = 16;
  s.model.num_query_groups = 8;
  s.model.head_dim = 64;
  s.model.ffn_hidden_size = 4096;
  s.model.vocab_size = 1024;  // small, so that the output layer does not make the last stage the slowest
  s.parallel.tp = tp;
  s.parallel.pp = pp;
  s.parallel.sequence_parallel = tp > 1;
  s.training.seq_length = 1024;
  s.training.global_batch_size = 8LL * dp;
  const DataPaths data = shipped_data();
  s.cluster = read_topology(data.topologies / "dgx-h100.json").value();
  s.cluster.world_size = tp * pp * dp;
  s.profile = read_profile(data.profiles / "h100.json").value();
  return s;
}

}  // namespace tracecast::test
