/// The table of schedules, and lookup in it.
#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "sim/schedule/schedule.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

using Names = std::string_view;
constexpr std::array kGpipe{Names{"ScheduleGPipe"}};
constexpr std::array k1f1b{Names{"Schedule1F1B"}, Names{"dapple"}, Names{"pipedream-flush"}, Names{"TrainSchedule"}};
constexpr std::array kPipedream2bw{Names{"2bw"}};
constexpr std::array kInterleaved{Names{"Interleaved1F1B"}, Names{"ScheduleInterleaved1F1B"}, Names{"interleaved"}};
constexpr std::array kLoopedBfs{Names{"LoopedBFS"}, Names{"ScheduleLoopedBFS"}, Names{"bfs"}};
constexpr std::array kZbH1{Names{"ZB1P"}};
constexpr std::array kInterleavedZb{Names{"InterleavedZeroBubble"}, Names{"ScheduleInterleavedZeroBubble"}};
constexpr std::array kZbV{Names{"ZBVZeroBubble"}, Names{"ScheduleZBVZeroBubble"}, Names{"zbv"}};
constexpr std::array kZb2p{Names{"ZB2P"}};
constexpr std::array kDualpipev{Names{"ScheduleDualPipeV"}};

constexpr std::array kVariants{
    ScheduleVariant{"gpipe", kGpipe, "all forwards, then all backwards", 1, make_gpipe},
    ScheduleVariant{
        "pipedream", {}, "1F1B that never flushes; a weight version per micro-batch in flight", 1, make_pipedream},
    ScheduleVariant{"pipedream-2bw", kPipedream2bw, "1F1B that never flushes; two weight versions", 1,
                    make_pipedream_2bw},
    ScheduleVariant{"1f1b", k1f1b, "one forward, one backward in turn; keeps at most P micro-batches", 1, make_1f1b},
    ScheduleVariant{"interleaved-1f1b", kInterleaved, "1F1B over V chunks per rank: a bubble V times shorter", 2,
                    make_interleaved_1f1b},
    ScheduleVariant{"looped-bfs", kLoopedBfs, "V chunks per rank, each for all micro-batches in turn", 2,
                    make_looped_bfs},
    ScheduleVariant{"chimera", {}, "two copies of the model against each other", 1, make_chimera},
    ScheduleVariant{"zb-h1", kZbH1, "1F1B with weight gradients in its bubble, at 1F1B's memory", 1, make_zb_h1},
    ScheduleVariant{"zb-h2", {}, "zero bubble within each rank's span, at twice 1F1B's memory", 1, make_zb_h2},
    ScheduleVariant{"zb-v", kZbV, "zero bubble with two chunks in a V, at 1F1B's memory", 2, make_zb_v},
    ScheduleVariant{"interleaved-zb", kInterleavedZb, "interleaved 1F1B with weight gradients in its bubble", 2,
                    make_interleaved_zb},
    ScheduleVariant{"zb-auto", {}, "searched for the given times and memory limit", 1, make_zb_auto, true},
    ScheduleVariant{"zb-auto-1p", {}, "searched, within P micro-batches of memory as 1F1B", 1, make_zb_auto_1p, true},
    ScheduleVariant{"zb-auto-2p", kZb2p, "searched, within 2P micro-batches of memory", 1, make_zb_auto_2p, true},
    ScheduleVariant{
        "v-half", {}, "two chunks in a V: half of 1F1B's memory for half of its bubble", 2, make_v_half, true},
    ScheduleVariant{
        "v-min", {}, "two chunks in a V: a third of 1F1B's memory for two thirds of its bubble", 2, make_v_min, true},
    ScheduleVariant{
        "dualpipe", {}, "two copies against each other, forwards overlapped with backwards", 1, make_dualpipe},
    ScheduleVariant{"dualpipev", kDualpipev, "DualPipe with one copy of the model in a V", 2, make_dualpipev},
    ScheduleVariant{"hanayo", {}, "waves: V/2 times there and back over the ranks", 2, make_hanayo, true},
};

/// More actions than this are a typing mistake, not a schedule (a step has seldom more than 10^6).
constexpr std::int64_t kMaxChunkForwards = 1 << 26;

/// Lower case, '_' and ' ' as '-'.
std::string plain(std::string_view name) {
  std::string result;
  for (char c : name) {
    const bool blank = c == '_' || c == ' ';
    result += blank ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

bool is_called(const ScheduleVariant& variant, const std::string& name) {
  if (name == variant.name) return true;
  return std::any_of(variant.aliases.begin(), variant.aliases.end(),
                     [&](std::string_view a) { return plain(a) == name; });
}

tl::unexpected<Error> unknown_schedule(const std::string& name) {
  std::string allowed;
  std::vector<std::string> candidates;
  for (const ScheduleVariant& variant : schedule_variants()) {
    allowed += (allowed.empty() ? "" : " ") + std::string(variant.name);
    candidates.emplace_back(variant.name);
    for (std::string_view alias : variant.aliases) candidates.push_back(plain(alias));
  }
  const std::string near = closest(plain(name), candidates);
  const std::string hint = near.empty() ? "" : "did you mean '" + near + "'? ";
  return fail({.file = {},
               .line = 0,
               .key = "schedule",
               .value = name,
               .message = "unknown schedule (" + hint + "allowed: " + allowed + ")"});
}

}  // namespace

std::span<const ScheduleVariant> schedule_variants() { return kVariants; }

const ScheduleVariant* find_schedule(const std::string& name) {
  const std::string wanted = plain(name);
  const auto variant =
      std::find_if(kVariants.begin(), kVariants.end(), [&](const ScheduleVariant& v) { return is_called(v, wanted); });
  return variant == kVariants.end() ? nullptr : &*variant;
}

Result<Schedule> make_schedule(const std::string& name, const ScheduleRequest& request) {
  const ScheduleVariant* variant = find_schedule(name);
  if (variant == nullptr) return unknown_schedule(name);
  ScheduleRequest filled = request;
  if (filled.chunks == 0) filled.chunks = variant->default_chunks;
  if (filled.ranks < 1) return refuse("stages", filled.ranks, "must be at least 1");
  if (filled.microbatches < 1) return refuse("microbatches", filled.microbatches, "must be at least 1");
  if (filled.chunks < 1) return refuse("virtual", filled.chunks, "must be at least 1");
  if (std::int64_t{filled.ranks} * filled.chunks > kMaxChunkForwards / filled.microbatches) {
    return refuse("microbatches", filled.microbatches,
                  fmt::format("stages x virtual x microbatches exceeds {}", kMaxChunkForwards));
  }
  return variant->make(filled);
}

std::string to_string(const Schedule& schedule, int rank, const Action& action) {
  const auto part = [&](const char* kind, int chunk, int microbatch) {
    return fmt::format("{}{}{}", schedule.stage_of[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)],
                       kind, microbatch);
  };
  switch (action.kind) {
    case ActionKind::forward:
      return part("F", action.chunk, action.microbatch);
    case ActionKind::backward:
      return part("B", action.chunk, action.microbatch);
    case ActionKind::backward_input:
      return part("I", action.chunk, action.microbatch);
    case ActionKind::backward_weight:
      return part("W", action.chunk, action.microbatch);
    case ActionKind::forward_backward:
      break;
  }
  return fmt::format("({};{})OVERLAP_F_B", part("F", action.chunk, action.microbatch),
                     part("B", action.chunk2, action.microbatch2));
}

}  // namespace tracecast
