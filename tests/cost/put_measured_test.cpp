#include "sim/cost/put_measured.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("a measurement takes the place of one of the same, and of no other", "[cost]") {
  Profile profile;
  const MeasuredCollective call{
      .collective = Collective::all_reduce, .ranks = 4, .size = {16'384}, .seconds = 1e-5, .samples = 1};
  MeasuredCollective between = call;
  between.nodes = 2;
  MeasuredCollective again = call;
  again.seconds = 2e-5;
  for (const MeasuredCollective& each : {call, between, again}) put_measured(profile, each);
  CHECK(profile.measured_collectives == std::vector{between, again});

  const MeasuredOperator fc1{{.name = "fc1", .shape = GemmShape{1, 2, 3}}, 1e-3, 0, 1};
  MeasuredOperator backward = fc1;
  backward.op.pass = Pass::wgrad;
  MeasuredOperator renamed = fc1;
  renamed.op.name = "fc2";
  renamed.seconds = 2e-3;
  for (const MeasuredOperator& each : {fc1, backward, renamed}) put_measured(profile, each);
  CHECK(profile.measured == std::vector{backward, renamed});
}
