#include "tools/accuracy/fit/attention_kernels.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/accuracy/fit/shipped_peak.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tools/accuracy/fit/fit.hpp"
#include "tools/accuracy/kernel_tables.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

TEST_CASE("fit: a backward pass that was never measured is less certain than the one that it follows",
          "[accuracy][fit]") {
  const std::vector<MeasuredKernel> kernels =
      read_kernels(CsvTable::read(source_dir() / "scenarios/runs/kernels.csv").value()).value();
  const AttentionTables tables{.shipped = &kernels, .peak = shipped_peak};
  const auto aotriton = [](const AttentionModel& model) { return model.kernel == "aotriton"; };
  const std::vector<AttentionModel> measured = attention_models("CDNA4", tables);
  const auto followed = std::ranges::find_if(measured, aotriton);
  REQUIRE(followed != measured.end());
  int following = 0;
  for (const AttentionModel& model : attention_models("CDNA3", tables)) {
    if (!aotriton(model)) continue;
    CHECK(model.fit.residual >= followed->fit.residual + kTransferResidual);
    ++following;
  }
  CHECK(following > 0);
}
