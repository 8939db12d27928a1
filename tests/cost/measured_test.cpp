#include "sim/cost/measured.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "sim/cost/plausible.hpp"

using namespace tracecast;

namespace {

Operator gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {OperatorKind::gemm, Pass::forward, Precision::bf16, "fc1", GemmShape{m, n, k}};
}

double one_second(const Operator&) { return 1; }

}  // namespace

TEST_CASE("measured: the exact shape is found under any name, nothing else is", "[cost]") {
  const MeasuredTable table({{gemm(8, 16, 32), 2, 0.01, 10}}, one_second);
  Operator op = gemm(8, 16, 32);
  op.name = "another name";
  REQUIRE(table.exact(op) != nullptr);
  CHECK(table.exact(op)->seconds == 2);
  CHECK(table.exact(gemm(8, 16, 33)) == nullptr);
  op.pass = Pass::dgrad;
  CHECK(table.exact(op) == nullptr);
  op = gemm(8, 16, 32);
  op.precision = Precision::fp8;
  CHECK(table.exact(op) == nullptr);
}

TEST_CASE("measured: a shape halfway between two measured ones takes the mean of their ratios", "[oracle][cost]") {
  // In logarithms 2048 is halfway between 1024 and 4096; ratios 1.2 and 1.3 give the geometric mean.
  const MeasuredTable table({{gemm(1024, 4096, 4096), 1.2, 0.02, 10}, {gemm(4096, 4096, 4096), 1.3, 0.04, 10}},
                            one_second);
  const auto correction = table.around(gemm(2048, 4096, 4096));
  REQUIRE(correction);
  CHECK(std::exp(correction->log_ratio) == Approx(std::sqrt(1.2 * 1.3)));
  CHECK(correction->distance == Approx(1));
  CHECK(correction->spread == Approx(0.03));
}

TEST_CASE("measured: neighbours beyond a factor of four say nothing", "[cost]") {
  const MeasuredTable table({{gemm(1024, 4096, 4096), 1.2, 0.02, 10}}, one_second);
  CHECK(table.around(gemm(4 * 1024, 4096, 4096)));
  CHECK_FALSE(table.around(gemm(4 * 1024 + 1, 4096, 4096)));
  Operator accumulating = gemm(1024, 4096, 4096);
  std::get<GemmShape>(accumulating.shape).accumulate_fp32 = true;
  CHECK_FALSE(table.around(accumulating));
}

TEST_CASE("plausible: names of a card and of a module, or of two memories, are not the same GPU", "[cost]") {
  const std::string module = "NVIDIA H100 80GB HBM3";
  CHECK(may_be_same_gpu(module, "H100 SXM 80 GB"));
  CHECK(may_be_same_gpu("H100", "H100 SXM 80 GB"));
  CHECK(may_be_same_gpu("NVIDIA H100 PCIe", "H100 PCIe 80 GB"));
  CHECK(may_be_same_gpu("NVIDIA H200", "H200 SXM 141 GB"));
  CHECK(may_be_same_gpu("NVIDIA GH200 480GB", "GH200 (its GPU) 96 GB"));
  CHECK(may_be_same_gpu("NVIDIA Graphics Device 141 GB", "H200 SXM 141 GB"));  // 141 is not the name of a model
  CHECK_FALSE(may_be_same_gpu("NVIDIA H100 PCIe", "H100 SXM 80 GB"));
  CHECK_FALSE(may_be_same_gpu(module, "H100 PCIe 80 GB"));
  CHECK_FALSE(may_be_same_gpu("NVIDIA H100 NVL", "H100 SXM 80 GB"));
  CHECK_FALSE(may_be_same_gpu("NVIDIA A100 80GB PCIe", "A100 SXM 80 GB"));
  CHECK_FALSE(may_be_same_gpu("NVIDIA A100-SXM4-40GB", "A100 SXM 80 GB"));
  CHECK_FALSE(may_be_same_gpu("Tesla V100-PCIE-32GB", "V100 SXM2 32 GB"));
}
