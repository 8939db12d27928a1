#include "sim/import/launchers/megatron_experts.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

/// An all-gather, Megatron-LM's default, is not modelled.
void import_dispatcher(RunImport& run, bool bridge) {
  constexpr std::pair<Name, Name> kDispatchers[] = {
      {"alltoall", "alltoall"}, {"flex", "deepep"}, {"allgather", "alltoall"}, {"alltoall_seq", "alltoall"}};
  constexpr Name kDispatcher = "moe-token-dispatcher-type";
  const std::optional<Name> dispatcher = run.choice<Name>(kDispatcher, kDispatchers);
  const bool hybrid = run.word("moe-flex-dispatcher-backend") == "hybridep";
  if (dispatcher)
    run.put("parallel.moe_dispatcher", hybrid && *dispatcher == "deepep" ? "hybridep" : *dispatcher, kDispatcher);
  const bool deepspeed = run.says("deepspeed", "true");  // its experts exchange by an all-to-all
  const bool gathers = dispatcher ? run.says(kDispatcher, "\"allgather\"") : !bridge && !deepspeed;
  const std::int64_t ep = run.given_count("parallel.ep", 1);
  if (gathers && ep > 1)
    run.assume(fmt::format(
        "{} = allgather{}: not modelled; taken as alltoall, which sends {} copies of a token in place "
        "of {}",
        kDispatcher, dispatcher ? "" : ", Megatron-LM's default", run.given_count("model.moe.topk", 2), ep));
  run.flag("moe-enable-deepep");
}

/// Without grouped multiplications each local expert has kernels of its own.
void import_grouped_experts(RunImport& run, bool bridge) {
  constexpr Name kGrouped = "moe-grouped-gemm";
  const bool grouped = run.flag(kGrouped).value_or(bridge);
  const std::int64_t local =
      run.given_count("model.moe.experts", 0) / std::max<std::int64_t>(1, run.given_count("parallel.ep", 1));
  if (!grouped && local > 1)
    run.assume(
        fmt::format("{} is off: not modelled; the {} experts of a rank are multiplied in one kernel here, and one "
                    "after the other in the run",
                    kGrouped, local));
}

}  // namespace

bool has_megatron_experts(const RunImport& run) {
  const JsonNode* const experts = run.given("model.moe");
  return experts != nullptr && experts->kind == JsonNode::Kind::object;
}

void import_megatron_experts(RunImport& run, bool bridge) {
  if (!has_megatron_experts(run)) return run.pass_over("moe-");
  import_dispatcher(run, bridge);
  import_grouped_experts(run, bridge);
  constexpr Name kFactor = "moe-expert-capacity-factor";
  if (const auto factor = run.number(kFactor); factor && *factor > 0)
    run.put("training.expert_capacity_factor", JsonNode(*run.find(kFactor)), kFactor);
  constexpr Name kPadding = "moe-pad-expert-input-to-capacity";
  if (run.flag(kPadding).value_or(false))
    run.put("training.expert_capacity_padding", JsonNode(*run.find(kPadding)), kPadding);
}

}  // namespace tracecast
