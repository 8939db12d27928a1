#include "tests/tracer/recorded_ranks.hpp"

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"

namespace tracecast::test {

Scenario scenario_of(int ranks, const std::vector<std::string>& more) {
  const std::filesystem::path root = source_dir();
  std::vector<std::string> settings{"cluster.world_size=" + std::to_string(ranks),
                                    "training.global_batch_size=" + std::to_string(ranks / 8)};
  settings.insert(settings.end(), more.begin(), more.end());
  return value_of(read_scenario(root / "scenarios/teaching/tensor-parallel.json",
                                {root / "scenarios", root / "topologies", root / "kernels/profiles"}, settings));
}

ForecastRun unfolded_forecast(const Scenario& scenario) { return value_of(forecast(scenario, {.unfold = true})); }

const char* kernel_name(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::gemm:
      return "nvjet_sm90_tst_128x256_64x4_bf16";
    case OperatorKind::grouped_gemm:
      return "cutlass_grouped_gemm_bf16";
    case OperatorKind::permute:
      return "permute_with_mask_map_kernel";
    case OperatorKind::softmax:
      return "scaled_softmax_kernel";
    case OperatorKind::attention:
      return "cudnn_generated_fort_native_sdpa_sm90_flash_fprop";
    case OperatorKind::norm:
      return "rms_norm_kernel";
    case OperatorKind::activation:
      return "silu_and_mul_kernel";
    case OperatorKind::rope:
      return "rope_kernel";
    case OperatorKind::embedding:
      return "embedding_kernel";
    case OperatorKind::cross_entropy:
      return "cross_entropy_kernel";
    case OperatorKind::optimizer:
      return "multi_tensor_apply_kernel<AdamFunctor>";
    case OperatorKind::cast:
      return "cast_kernel";
    case OperatorKind::copy:
      return "copy_kernel";
    default:
      return "vectorized_elementwise_kernel";
  }
}

void for_each_operator(const StepGraph& graph, const Rank& rank,
                       const std::function<void(const CostedOperator& each)>& kernel) {
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(rank.program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops)
      if (op.type == OpType::compute && op.payload >= 0) kernel(graph.operators[static_cast<std::size_t>(op.payload)]);
}

}  // namespace tracecast::test
