#include "tools/accuracy/ablation.hpp"

#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

/// Four small runs, each of a source of its own: tensor parallel; pipelined and recomputed; data parallel; pipelined and sharded, where
/// messages and gathers share NICs.
CsvTable table() {
  return CsvTable::parse(
             "source,layers,hidden,heads,gated_mlp,seq_len,global_batch_seqs,gpu,gpu_count,tp,pp,micro_batch,recompute,"
             "framework,zero_stage,step_time_s\n"
             "a,8,4096,32,0,2048,16,A100,8,8,1,1,none,Megatron-LM,0,1\n"
             "b,8,4096,32,0,2048,16,A100,8,2,4,1,full,Megatron-LM,0,1\n"
             "c,8,4096,32,0,2048,16,A100,16,1,1,1,none,Composer,1,1\n"
             "d,8,4096,32,0,2048,64,A100,32,1,2,1,none,Composer,3,1\n",
             "t.csv")
      .value();
}

}  // namespace

TEST_CASE("ablation: every effect moves forecasts in the right direction", "[accuracy]") {
  const std::vector<Ablation> lines = ablate(table(), RowLibrary::open(shipped_data()).value(), {}).value();
  REQUIRE(lines.size() == effects().size());
  std::set<std::string> names;
  for (const Ablation& line : lines) {
    const std::string name = line.effect->name;
    CAPTURE(name, line.shift, line.largest_shift);
    CHECK(names.insert(name).second);
    CHECK((line.largest_shift > 0) - (line.largest_shift < 0) == line.effect->sign);
  }
  const std::string page = ablation_page(lines);
  CHECK(page.find("| roofline | peak rates") != std::string::npos);
  CHECK(page.find("\n4 rows, 4 of them dense.\n") != std::string::npos);
}

TEST_CASE("the page of effects names every one, and is of the forecasts that the page of accuracies is of",
          "[accuracy][docs]") {
  const auto page = [](const char* name) { return content_of(source_dir() / "docs/validation" / name); };
  const std::string text = page("ablation.md");
  for (const LeftOut& effect : effects())
    CHECK(text.find(std::string("| ") + effect.name + " | " + effect.left_out + " |") != std::string::npos);
  // As shipped: behind two cells, a count of rows and one of sources, in the page of accuracies.
  const auto cell = [](const std::string& table, const std::string& line, int skip) {
    std::size_t at = table.find(line);
    REQUIRE(at != std::string::npos);
    for (at += line.size(); skip > 0; --skip) at = table.find('|', at) + 1;
    return std::stod(table.substr(at));
  };
  const std::string whole = "\n| none | the whole model |", accuracy = page("accuracy.md");
  CHECK(cell(text, whole, 0) == cell(accuracy, "\n| dense |", 2));
  CHECK(cell(text, whole, 3) == cell(accuracy, "\n| all |", 2));
}

TEST_CASE("the page of rules says what forecasts do without each, and what its evidence is", "[accuracy][docs]") {
  const std::string text = content_of(source_dir() / "docs/validation/accuracy-rules.md");
  for (const LeftOut& rule : rules()) {
    const std::string evidence = *rule.evidence == '\0' ? "none" : rule.evidence;
    CAPTURE(rule.name);
    CHECK(text.find(std::string("\n| ") + rule.name + " | " + rule.left_out + " | " + evidence + " |") !=
          std::string::npos);
  }
}

TEST_CASE("the page of effects has the errors of the whole model as it is", "[accuracy][docs]") {
  const std::string text = content_of(source_dir() / "docs/validation/ablation.md");
  const std::vector<LeftOut> whole = {effects().front()};
  const std::string page = ablation_page(ablate(read_run_table(shipped_data(), "published").value(),
                                                RowLibrary::open(shipped_data()).value(), {.threads = 2}, whole)
                                             .value());
  // To make the page again: `tracecast validate published --ablation`.
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    if (!line.empty()) CHECK(text.find(line + "\n") != std::string::npos);
  }
}

TEST_CASE("a rule about a GPU's clock takes all that its constant multiplied back", "[accuracy]") {
  const auto factors = [](const char* profile, const char* rule = "") {
    RowScenario row;
    row.scenario.profile = shipped_profile(profile);
    for (const LeftOut& each : rules())
      if (std::string(each.name) == rule) each.change(row);
    return row.scenario.profile.in_training;
  };
  const auto same = [](double a, double b) { return std::abs(a / b - 1) < 1e-3; };
  for (const char* gpu : {"h100-96gb-500w", "h100-pcie"}) {
    CAPTURE(gpu);
    const InTraining without = factors(gpu, "board-power"), h100 = factors("h100");
    CHECK(same(without.gemm, h100.gemm));
    CHECK(same(without.gemm_fp8, h100.gemm_fp8));
    CHECK(same(without.gemm_fp8_block, h100.gemm_fp8_block));
    CHECK(same(without.attention, h100.attention));
    CHECK_FALSE(same(factors(gpu).gemm_fp8, h100.gemm_fp8));
  }
  for (const auto& [gpu, other] : {std::pair{"b300", "b200"}, std::pair{"gb300", "gb200"}}) {
    CAPTURE(gpu);
    // B300's fp8 is limited by its peak.
    for (const auto factor :
         {&InTraining::gemm, &InTraining::gemm_fp8_block, &InTraining::gemm_fp4, &InTraining::attention}) {
      CHECK(same(factors(gpu, "board-power").*factor, factors(other).*factor));
      CHECK(factors(gpu).*factor < 0.97 * factors(other).*factor);
    }
  }
}
