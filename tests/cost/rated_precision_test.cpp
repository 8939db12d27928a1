#include "sim/cost/rated_precision.hpp"

#include <catch2/catch.hpp>

#include "tests/support/shipped.hpp"

using namespace tracecast;

TEST_CASE("rated precision: one without GPU support uses the rate of another and says so", "[cost][precision]") {
  Profile v100;
  v100.gpu = "V100";
  v100.peak_flops = {{Precision::fp32, 15.7e12}, {Precision::fp16, 125e12}};
  CHECK(rate_text(v100, Precision::bf16) ==
        "V100 has no arithmetic in bf16: the rate of fp16 is taken, in times and in MFU");
  CHECK(rate_text(v100, Precision::fp16).empty());
  Profile h100 = v100;
  h100.peak_flops = {{Precision::bf16, 989e12}, {Precision::fp8, 1979e12}};
  CHECK(rate_text(h100, Precision::fp8_block).empty());  // runs on fp8's tensor cores
  CHECK(rated_as(h100, Precision::nvfp4) == Precision::bf16);
}

TEST_CASE("rated precision: only hardware with scales of small blocks has arithmetic in mxfp8", "[cost][precision]") {
  const auto text = [](const char* profile, Precision precision) {
    return rate_text(shipped_profile(profile), precision);
  };
  for (const char* gpu : {"h100", "h200", "mi300x", "mi325x"}) {
    CAPTURE(gpu);
    CHECK(text(gpu, Precision::mxfp8).find("has no arithmetic in mxfp8: the rate of fp8 is taken") !=
          std::string::npos);
    CHECK(text(gpu, Precision::fp8_block).empty());
  }
  for (const char* gpu : {"b200", "gb300", "mi355x"}) CHECK(text(gpu, Precision::mxfp8).empty());
}
