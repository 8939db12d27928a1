#include "sim/validation/measured_tables.hpp"

#include <catch2/catch.hpp>

#include "sim/cost/costs.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

namespace {

const std::filesystem::path kRoot = source_dir();
const DataPaths kData{kRoot / "scenarios", kRoot / "topologies", kRoot / "kernels/profiles"};

}  // namespace

TEST_CASE("operators of a table: isolated, so without the in-training factor", "[validation]") {
  const RowLibrary library = RowLibrary::open(kData).value();
  const CsvTable table = CsvTable::parse(
                             "profile,op,m,n,k,precision,seq,heads,head_dim,time_us\n"
                             "h100,gemm,8192,8192,8192,bf16,,,,1400\n"
                             "h100,attention,,,,bf16,4096,32,128,500\n",
                             "k.csv")
                             .value();
  const std::vector<MeasuredSample> samples = validate_kernels(table, library).value();
  REQUIRE(samples.size() == 2);
  const Profile h100 = library.profile("h100").value();
  Operator op;
  op.kind = OperatorKind::gemm;
  op.precision = Precision::bf16;
  op.shape = GemmShape{8192, 8192, 8192, 1, false};
  CHECK(samples[0].predicted_s == Approx(seconds(Costs(h100).of(op).duration) / h100.in_training.gemm).epsilon(1e-6));
  CHECK(samples[0].error() == Approx(samples[0].predicted_s / 1400e-6 - 1));
  const std::vector<SampleErrors> errors = sample_errors(samples, false);
  REQUIRE(errors.size() == 3);
  CHECK(errors[0].group == "all");
  CHECK(errors[0].samples == 2);
}

TEST_CASE("collectives of a table: errors are of those above 1 MiB", "[validation]") {
  const CsvTable table = CsvTable::parse(
                             "topology,collective,ranks,bytes,time_us\n"
                             "dgx-h100,all_reduce,8,536870912,2111\n"
                             "dgx-h100,all_reduce,8,1024,15\n",
                             "c.csv")
                             .value();
  const std::vector<MeasuredSample> samples = validate_collectives(table, RowLibrary::open(kData).value()).value();
  const std::vector<SampleErrors> large = sample_errors(samples, true);
  REQUIRE_FALSE(large.empty());
  CHECK(large[0].samples == 1);
  CHECK(large[0].mean < 0.15);  // 445 GB/s of bus bandwidth (CALIBRATION.md 6)
  CHECK(sample_errors(samples, false)[0].samples == 2);
}

TEST_CASE("mistakes in tables of measurements are told with line and column", "[error][validation]") {
  const RowLibrary library = RowLibrary::open(kData).value();
  const auto kernels = [&](const char* text) {
    return to_string(validate_kernels(CsvTable::parse(text, "k.csv").value(), library).error());
  };
  CHECK(kernels("profile,op,m,n,k,time_us\nh100,gemm,0,1,1,5\n") ==
        "k.csv:2: m = 0: is not a whole number of at least 1");
  CHECK(kernels("profile,op,m,n,k,time_us\nh100,gem,1,1,1,5\n") ==
        "k.csv:2: op = gem: is unknown (allowed: gemm attention)");
  CHECK(kernels("profile,op,m,n,k,time_us\nnone,gemm,1,1,1,5\n") ==
        "k.csv:2: profile = none: is no profile that can be read");
  const CsvTable table =
      CsvTable::parse("topology,collective,ranks,bytes,time_us\ndgx-h100,all_reduce,8,0,1\n", "c.csv").value();
  CHECK(to_string(validate_collectives(table, library).error()) ==
        "c.csv:2: bytes = 0: is not a whole number of at least 1");
}
