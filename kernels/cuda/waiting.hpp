/// \file
/// Waits for work of a GPU that may wait for other ranks: a rank that has ended, or an error of the transport, becomes a sentence
/// and not a wait without end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "kernels/cuda/check.hpp"

namespace tracecast::cuda {

enum class WorkState : std::uint8_t { running, done };

/// How long a step may take before its ranks are taken as lost. The longest executed steps last some seconds.
inline constexpr std::chrono::seconds kPatience{300};

/// Calls `state` until it returns done; it throws if the work failed. In between, now and then, calls `check`, which throws if the
/// connection to another rank is broken.
/// Throws DeviceError after `patience`.
template <class State, class Check>
void wait_for(State state, Check check, std::chrono::nanoseconds patience = kPatience) {
  constexpr int kPollsPerCheck = 4096;
  const auto begin = std::chrono::steady_clock::now();
  for (int polls = 1; state() == WorkState::running; ++polls) {
    if (polls % kPollsPerCheck != 0) continue;
    check();
    if (std::chrono::steady_clock::now() - begin > patience)
      throw DeviceError("the GPU's work did not end within " +
                        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) +
                        " s: another rank has ended, or ranks wait for each other");
  }
}

}  // namespace tracecast::cuda
