#include "sim/report/bandwidth_svg.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;
using namespace tracecast::literals;

TEST_CASE("bandwidth curve: sizes on the axis have the largest binary unit that they fill", "[report]") {
  std::vector<BandwidthPoint> points;
  for (const Bytes size : {512_B, 1_KiB, 512_KiB, 1_MiB, 512_MiB, 1_GiB, 4_GiB}) points.push_back({size, 1e9, 0, ""});
  const std::string svg = bandwidth_svg("curve", points);
  INFO(svg);
  for (const char* label : {">512 B<", ">1 KiB<", ">512 KiB<", ">1 MiB<", ">512 MiB<", ">1 GiB<", ">4 GiB<"})
    CHECK(svg.find(label) != std::string::npos);
}
