#include "sim/validation/ablation.hpp"

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

const DataPaths kData = shipped_data();

/// Three small runs of one source: tensor parallel, pipelined and recomputed, data parallel.
CsvTable table() {
  return CsvTable::parse(
             "source,layers,hidden,heads,gated_mlp,seq_len,global_batch_seqs,gpu,gpu_count,tp,pp,micro_batch,recompute,"
             "framework,zero_stage,step_time_s\n"
             "a,8,4096,32,0,2048,16,A100,8,8,1,1,none,Megatron-LM,0,1\n"
             "a,8,4096,32,0,2048,16,A100,8,2,4,1,full,Megatron-LM,0,1\n"
             "a,8,4096,32,0,2048,16,A100,16,1,1,1,none,Composer,1,1\n",
             "t.csv")
      .value();
}

}  // namespace

TEST_CASE("ablation: every effect moves forecasts the way it must", "[validation]") {
  const std::vector<Ablation> lines = ablate(table(), RowLibrary::open(kData).value(), {}).value();
  REQUIRE(lines.size() == effects().size());
  std::set<std::string> names;
  for (const Ablation& line : lines) {
    const std::string name = line.effect->name;
    CAPTURE(name, line.shift, line.largest_shift);
    CHECK(names.insert(name).second);
    if (name == "none") CHECK(line.shift == 0);
    if (name == "overlap" || name == "slowdown") CHECK(line.shift >= 0);
    if (name == "slowdown") CHECK(line.largest_shift > 0);
    if (name == "contention") CHECK(line.shift > -1e-9);
    if (name == "roofline") CHECK(line.shift < -0.1);
    for (const char* faster : {"waves", "host", "protocols", "training"})
      if (name == faster) CHECK(line.shift < 0);
  }
  const std::string page = ablation_page(lines);
  CHECK(page.find("| roofline | peak rates") != std::string::npos);
}
