/// The table of schedules, and its lookup.
#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

/// More actions than this are a typing error (a step seldom has more than 10^6).
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
  const std::string near = nearest_match(plain(name), candidates);
  const std::string hint = near.empty() ? "" : "did you mean '" + near + "'? ";
  return fail_key("schedule", name, "unknown schedule (" + hint + "allowed: " + allowed + ")");
}

}  // namespace

std::span<const ScheduleVariant> schedule_variants() {
  static const std::array kVariants{
#define SCHEDULE(file, row) row,
#include "sim/schedule/variants/variants.def"
#undef SCHEDULE
  };
  return kVariants;
}

bool reads_group_size(const ScheduleVariant& variant) {
  return variant.make == kInterleaved1f1b.make || variant.make == kInterleavedZb.make;
}

bool reads_memory_limit(const ScheduleVariant& variant) { return variant.make == kZbAuto.make; }

const ScheduleVariant* find_schedule(const std::string& name) {
  const std::string wanted = plain(name);
  const auto variants = schedule_variants();
  const auto found = std::ranges::find_if(variants, [&](const ScheduleVariant& v) { return is_called(v, wanted); });
  return found == variants.end() ? nullptr : &*found;
}

Result<Schedule> make_schedule(const std::string& name, const ScheduleRequest& request) {
  const ScheduleVariant* variant = find_schedule(name);
  if (variant == nullptr) return unknown_schedule(name);
  ScheduleRequest filled = request;
  if (filled.chunks == 0) filled.chunks = variant->default_chunks;
  if (filled.ranks < 1) return fail_key("stages", filled.ranks, "must be at least 1");
  if (filled.microbatches < 1) return fail_key("microbatches", filled.microbatches, "must be at least 1");
  if (filled.chunks < 1) return fail_key("virtual", filled.chunks, "must be at least 1");
  if (std::int64_t{filled.ranks} * filled.chunks > kMaxChunkForwards / filled.microbatches) {
    return fail_key("microbatches", filled.microbatches,
                    fmt::format("stages x virtual x microbatches exceeds {}", kMaxChunkForwards));
  }
  if (!variant->any_chunks && filled.chunks != variant->default_chunks) {
    return fail_key("virtual", filled.chunks,
                    fmt::format("{0} has {1} chunk{2} per rank (allowed: {1})", variant->name, variant->default_chunks,
                                plural(variant->default_chunks)));
  }
  Result<Schedule> schedule = variant->make(filled);
  if (schedule) schedule->name = variant->name;
  return schedule;
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
