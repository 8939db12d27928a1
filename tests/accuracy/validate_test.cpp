#include "tools/accuracy/validate.hpp"

#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/forecast/evidence.hpp"
#include "tests/support/files.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/memory_page.hpp"
#include "tools/accuracy/rows/row_machine.hpp"
#include "tools/accuracy/validation_report.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

/// A row with a made-up forecast.
RowForecast row(const std::string& source, double predicted, double measured, double deviation = 0.1) {
  RowForecast r;
  r.source = source;
  r.predicted_s = predicted;
  r.measured_s = measured;
  r.band = band_around(predicted, 1.6449 * deviation);
  return r;
}

std::vector<const RowForecast*> pointers(const std::vector<RowForecast>& rows) { return scored(rows); }

CsvTable korthikanti() { return CsvTable::read(source_dir() / "scenarios/runs/korthikanti.csv").value(); }

/// Its two runs on one node, which take the least time to forecast. No field holds a line break.
CsvTable korthikanti_22b() {
  std::ifstream file(source_dir() / "scenarios/runs/korthikanti.csv");
  std::string text;
  for (std::string line; std::getline(file, line);)
    if (text.empty() || line.starts_with("korthikanti-22b")) text += line + "\n";
  return CsvTable::parse(text, "22b").value();
}

/// Some rows of a table; none of its fields holds a quote.
CsvTable rows_where(const CsvTable& table, const std::function<bool(std::size_t)>& chosen) {
  const auto line = [&](auto text) {
    std::string fields;
    for (const std::string& column : table.header()) fields += (fields.empty() ? "\"" : ",\"") + text(column) + "\"";
    return fields + "\n";
  };
  std::string text = line([](const std::string& column) { return column; });
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (chosen(row)) text += line([&](const std::string& column) { return table.text(row, column); });
  return CsvTable::parse(text, "chosen rows").value();
}

}  // namespace

TEST_CASE("the measure: median per source, mean over sources, small sources pooled", "[oracle][accuracy]") {
  const std::vector<RowForecast> rows{row("a", 1.10, 1), row("a", 1.20, 1), row("a", 0.70, 1),   // median 0.2
                                      row("b", 1.05, 1), row("c", 0.85, 1), row("c", 1.25, 1)};  // pool: 0.15
  const Measure m = measure(pointers(rows));
  CHECK(m.sources == 2);
  CHECK(m.mean_of_medians == Approx((0.2 + 0.15) / 2));
  // a, its median of +10 % taken off: 0, 1.2/1.1 - 1, 1 - 0.7/1.1; the middle one counts.
  REQUIRE(m.scatter);
  CHECK(*m.scatter == Approx(1.2 / 1.1 - 1));
  const std::vector<RowForecast> two{row("a", 0.869, 1), row("a", 0.85, 1)};
  CHECK_FALSE(measure(pointers(two)).scatter);  // no source has three rows
}

TEST_CASE("summary: mean, median, worst, bias, coverage", "[oracle][accuracy]") {
  const std::vector<RowForecast> rows{row("a", 1.3, 1), row("a", 1.02, 1), row("a", 0.95, 1)};
  const ErrorSummary s = summarise(pointers(rows));
  CHECK(s.mean == Approx((0.3 + 0.02 + 0.05) / 3));
  CHECK(s.median == Approx(0.05));
  CHECK(s.worst == Approx(0.3));
  CHECK(s.bias == Approx(0.02));
  CHECK(s.within_10 == Approx(2.0 / 3));
  CHECK(s.coverage == Approx(2.0 / 3));  // exp(1.6449 x 0.1) = 1.179: 1.3 lies outside
}

TEST_CASE("every row of a shipped table is forecast, with the same result for any number of threads", "[accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const CsvTable table = korthikanti();
  const std::vector<RowForecast> three = validate(table, library, {.threads = 3}).value();
  REQUIRE(three.size() == 8);
  for (const RowForecast& row : three) {
    CAPTURE(row.id, row.skipped);
    CHECK(row.scored());
    CHECK(std::abs(row.error()) < 0.2);
    CHECK(row.band.p5_s < row.predicted_s);
    CHECK(row.fits);
  }
  const std::vector<RowForecast> one = validate(korthikanti_22b(), library, {.threads = 1}).value();
  REQUIRE(one.size() == 2);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i].predicted_s == three[i].predicted_s);
}

TEST_CASE("factors and changes reach the forecasts", "[accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const CsvTable table = korthikanti_22b();
  const FactorsOf slow = [](const RowScenario&) {
    CostScales factors = unit_scales();
    factors[static_cast<std::size_t>(CostParameter::gemm)] = 1.2;
    return factors;
  };
  const std::vector<std::vector<RowForecast>> both = validate_each(table, library, {{}, slow});
  const std::vector<RowForecast>& base = both[0];
  const std::vector<RowForecast>& slower = both[1];
  REQUIRE(base.size() == 2);
  const std::vector<RowForecast> compiled =
      validate(table, library, {.change = [](RowScenario& r) { r.scenario.training.recompute = Recompute::none; }})
          .value();
  for (std::size_t i = 0; i < base.size(); ++i) {
    CHECK(slower[i].predicted_s > 1.05 * base[i].predicted_s);
    CHECK(compiled[i].predicted_s < base[i].predicted_s);
  }
}

TEST_CASE("with factors of one a run has the forecast that it has without factors, on shared links", "[accuracy]") {
  const CsvTable table = CsvTable::parse(
                             "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,framework,tp,pp,zero_stage,"
                             "micro_batch,precision,"
                             "recompute,step_time_s\n"
                             "32,4096,32,512,64,A100,64,NeMo,2,4,1,1,bf16,none,1\n",
                             "t.csv")
                             .value();
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const FactorsOf ones = [](const RowScenario&) { return unit_scales(); };
  ValidateOptions slow_network;
  slow_network.change = [](RowScenario& row) { row.scenario.cluster.node.nic_rate.bytes_per_second /= 32; };
  const auto both = validate_each(table, library, {{}, ones}, slow_network);
  REQUIRE(both[0][0].scored());
  CHECK(both[1][0].predicted_s == both[0][0].predicted_s);
  CHECK(both[1][0].kernel_spread == both[0][0].kernel_spread);
  ValidateOptions isolated = slow_network;
  isolated.forecast.network = NetworkKind::isolated;
  CHECK(validate(table, library, isolated).value()[0].predicted_s < both[0][0].predicted_s);  // links matter
}

TEST_CASE("a band takes in what a slower host would do to a step that computes just ahead of it", "[accuracy]") {
  const CsvTable table =
      CsvTable::parse(
          "layers,hidden,heads,gated_mlp,seq_len,global_batch_seqs,gpu,gpu_count,framework,tp,micro_batch,precision,"
          "recompute,step_time_s\n"
          "8,12288,96,0,2048,16,A100,8,Megatron-DeepSpeed,8,4,fp16,full,1\n"  // kernels of milliseconds
          "12,2048,16,0,1024,16,A100,2,Megatron-DeepSpeed,2,2,fp16,full,1\n"  // of about the 80 us of a launch
          "12,512,8,0,512,16,A100,2,Megatron-DeepSpeed,2,1,fp16,full,1\n",    // far below
          "t.csv")
          .value();
  const FactorsOf slower_host = [](const RowScenario&) {
    CostScales factors = unit_scales();
    factors[static_cast<std::size_t>(CostParameter::host)] = std::exp(kHostSpread);
    return factors;
  };
  const auto both = validate_each(table, RowLibrary::open(shipped_data()).value(), {{}, slower_host});
  std::vector<double> reaches, derivatives, host_shares;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const RowForecast& row = both[0][i];
    REQUIRE(row.scored());
    reaches.push_back(std::log(both[1][i].predicted_s / row.predicted_s) / 1.6449);
    derivatives.push_back(row.sensitivities.run_deviation());
    host_shares.push_back(row.sensitivities.path_s[static_cast<std::size_t>(CostParameter::host)] / row.predicted_s);
    CAPTURE(i, host_shares[i]);
    CHECK(row.kernel_spread == Approx(std::max(reaches[i], derivatives[i])));
  }
  CHECK(reaches[0] < 0.1 * derivatives[0]);
  CHECK(host_shares[1] < 0.1);
  CHECK(reaches[1] > 1.5 * derivatives[1]);
  CHECK(host_shares[2] > 0.8);
}

TEST_CASE("where no barrier ends a step, a step lasts as long as its busiest rank", "[accuracy]") {
  const std::string header =
      "layers,hidden,heads,ffn_hidden,vocab,seq_len,global_batch_seqs,gpu,gpu_count,framework,source,pp,schedule,"
      "micro_batch,precision,step_time_s,gated_mlp\n";
  const std::string model = "30,2304,24,9216,32000,1024,24,A100,8,Megatron-LM fork,";
  const CsvTable table =
      CsvTable::parse(header + model + "Zero Bubble,8,zb_2p,1,fp16,1,0\n" + model + "Other,8,zb_2p,1,fp16,1,0\n" +
                          model + "Zero Bubble,8,1f1b,1,fp16,1,0\n" + model + "Other,8,1f1b,1,fp16,1,0\n",
                      "t.csv")
          .value();
  const std::vector<RowForecast> rows = validate(table, RowLibrary::open(shipped_data()).value()).value();
  // ZB-H2's ranks begin and end one after the other, up to seven forwards of 24 x 3 apart; 1F1B's first rank begins and
  // ends all, so that only what follows the gradients' norm is left out.
  CHECK(rows[0].predicted_s < 0.97 * rows[1].predicted_s);
  CHECK(rows[0].predicted_s > (1 - 7.0 / 79 - 0.01) * rows[1].predicted_s);
  CHECK(rows[2].predicted_s == Approx(rows[3].predicted_s).epsilon(0.02));
  CHECK(rows[0].sensitivities.step_s == rows[0].predicted_s);
}

TEST_CASE("reported memory: allocated, reserved, or the whole device; a sample is not a peak", "[accuracy]") {
  const auto forecast = [](const std::string& framework, const std::string& kind) {
    const CsvTable table = CsvTable::parse(
                               "layers,hidden,heads,ffn_hidden,vocab,seq_len,global_batch_seqs,gpu,gpu_count,framework,"
                               "zero_stage,recompute,flash_attention,step_time_s,micro_batch,mem_gb_reported,mem_kind\n"
                               "4,4096,32,11008,32000,4096,64,H100,8," +
                                   framework + ",3,full,1,1,4,20," + kind + "\n",
                               "t.csv")
                               .value();
    return validate(table, RowLibrary::open(shipped_data()).value()).value().front();
  };
  const RowForecast allocated = forecast("Composer/FSDP", "peak GB");
  CHECK(allocated.measured_memory_gib == Approx(20e9 / (1LL << 30)));
  CHECK(allocated.memory_error() == Approx(allocated.comparable_memory_gib / allocated.measured_memory_gib - 1));
  // Context, communicators and fragmentation are seen by the driver only.
  CHECK(allocated.comparable_memory_gib < allocated.predicted_memory_gib - 1.5);
  const RowForecast device = forecast("Composer/FSDP", "max GPU memory GiB");
  CHECK(device.measured_memory_gib == 20);
  CHECK(device.comparable_memory_gib == device.predicted_memory_gib);
  const RowForecast tensors = forecast("PyTorch FSDP", "peak GiB");
  const RowForecast held = forecast("torchtitan", "peak GiB");  // the same with blocks that the allocator keeps
  CHECK(held.comparable_memory_gib > tensors.comparable_memory_gib);
  const RowForecast sampled = forecast("torchtitan", "GiB sampled at iteration 100");
  CHECK(sampled.measured_memory_gib == 0);
  CHECK(summarise_memory({sampled}).rows == 0);
  CHECK(summarise_memory({held}).rows == 1);
}

TEST_CASE("peak memory of published runs: errors per source, who fits, and the page that says so", "[accuracy][docs]") {
  const std::filesystem::path runs = source_dir() / "scenarios/runs/published.csv";
  const CsvTable table = CsvTable::read(runs).value();
  // The rows that report a peak, those that ran out of memory, and two that fit because of their recipes' optimizers.
  const std::set<std::string> by_recipe{"dgxc-dbfdc513", "nemo2407-a26d705b"};
  const CsvTable printed = rows_where(table, [&](std::size_t row) {
    return !table.text(row, "mem_gb_reported").empty() || table.text(row, "outcome") == "oom" ||
           by_recipe.contains(table.text(row, "id"));
  });
  const std::vector<RowForecast> rows =
      validate(printed, RowLibrary::open(shipped_data()).value(), {.threads = 2}).value();
  struct Bound {
    const char* source;
    int rows;
    double mean;
  };
  for (const Bound& bound :
       {Bound{"BLOOM 176B chronicles (bigscience repo)", 42, 0.05},
        Bound{"Zero Bubble ICLR24 (arXiv 2401.10241)", 36, 0.04}, Bound{"torchtitan benchmarks", 12, 0.04},
        Bound{"torchao float8/mxfp8 training benchmarks", 1, 0.08}, Bound{"", 91, 0.045}}) {
    CAPTURE(bound.source);
    const MemorySummary m = summarise_memory(rows, bound.source);
    CHECK(m.rows == bound.rows);
    CHECK(m.mean < bound.mean);
    CHECK(m.completed_fit == m.completed);
  }
  CHECK(summarise_memory(rows).out_of_memory == 4);
  CHECK(summarise_memory(rows).out_of_memory_seen == 3);
  // docs/validation/memory.md is written from the same forecasts.
  const std::string page = content_of(source_dir() / "docs/validation/memory.md");
  std::istringstream lines(memory_page(printed, rows));
  int runs_listed = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| bloom-") && !line.starts_with("| zerobubble-") && !line.starts_with("| torchtitan-"))
      continue;
    ++runs_listed;
    INFO(line);
    CHECK(page.find(line + "\n") != std::string::npos);
  }
  CHECK(runs_listed >= 94);
  // The page of accuracies says the same of all rows.
  const std::string other = content_of(source_dir() / "docs/validation/accuracy.md");
  const std::size_t sentence = page.find(" completed runs are forecast to fit");
  REQUIRE(sentence != std::string::npos);
  const std::size_t begin = page.rfind('\n', sentence) + 1;
  CHECK(other.find(page.substr(begin, page.find(',', sentence) - begin)) != std::string::npos);
}

TEST_CASE("rows out of scope and rows that lack something are listed with the reason", "[accuracy]") {
  const CsvTable table = CsvTable::parse(
                             "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,step_time_s,row_class\n"
                             "4,1024,16,1024,8,A100,8,0.1,partial\n"
                             "4,1024,16,1024,8,A100,8,,full\n"
                             "4,1024,,1024,8,A100,8,0.1,full\n"
                             "4,1024,16,1024,8,Abacus,8,0.1,full\n"
                             "4,1024,16,1024,8,A100,8,0.1,full\n"
                             "4,1024,16,1024,8,A100,8,fast,full\n",
                             "t.csv")
                             .value();
  const std::vector<RowForecast> rows = validate(table, RowLibrary::open(shipped_data()).value()).value();
  CHECK(rows[0].skipped == "row_class = partial: context only");
  CHECK(rows[1].predicted_s == rows[4].predicted_s);  // nothing to score it by
  CHECK_FALSE(rows[1].scored());
  CHECK(rows[2].skipped == "heads: is not reported");
  CHECK(rows[3].skipped == "gpu: unknown GPU (allowed: " + known_gpus() + ")");
  CHECK(rows[4].scored());
  CHECK(rows[5].skipped == "step_time_s: must be a positive number");
  const std::string page = validation_page(table, rows, "", {.width = 80});
  CHECK(page.find("heads: is not reported (line 4)") != std::string::npos);
}

TEST_CASE("a table with a misspelt column is an error, one with columns of its own is not", "[error][accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const std::string columns = "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,";
  const auto sentence = [&](const std::string& more) {
    const CsvTable table = CsvTable::parse(columns + more + "\n", "t.csv").value();
    return error_text(validate(table, library));
  };
  CHECK(sentence("seq_paralel") == "t.csv:1: seq_paralel: unknown column (did you mean 'seq_parallel'?)");
  CHECK(sentence("mirco_batch") == "t.csv:1: mirco_batch: unknown column (did you mean 'micro_batch'?)");
  CHECK(sentence("vocabs") == "t.csv:1: vocabs: unknown column (did you mean 'vocab'?)");
  for (const char* own : {"mfu_pct_reported", "step_time_kind", "nodes", "precisions,precision"})
    CHECK(sentence(own).empty());
}

TEST_CASE("a table without the columns of runs is an error", "[error][accuracy]") {
  const CsvTable table = CsvTable::parse("layers,hidden\n4,1024\n", "t.csv").value();
  CHECK(to_string(validate(table, RowLibrary::open(shipped_data()).value()).error()) ==
        "t.csv:1: heads: not a column of the table; runs cannot be forecast without it");
}

TEST_CASE("page, JSON and pictures of a validation", "[report][accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const CsvTable table = korthikanti();
  const std::vector<RowForecast> rows = validate(table, library).value();
  const std::string text = validation_json(table, rows, "recompute");
  CHECK(schema_violations(source_dir() / "docs/schema/validation.schema.json", text) == std::vector<std::string>{});
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["rows"].size() == 8);
  CHECK(json["groups"]["full"]["rows"] == 4);
  CHECK(json["summary"]["rows"] == 8);
  double path = 0;
  for (const auto& [kind, s] : json["rows"][0]["critical_path_s"].items()) path += s.get<double>();
  CHECK(path == Approx(json["rows"][0]["predicted_step_time_s"].get<double>()));
  const std::string page = validation_page(table, rows, "recompute", {.width = 100, .unicode = true});
  for (const char* words : {"korthikanti-175b-full", "selective_attention", "Memory", "measure"})
    CHECK(page.find(words) != std::string::npos);
  CHECK(page.find("\n  percent                        rows measure   mean  worst   bias inside +-band\n  all  ") !=
        std::string::npos);
  CHECK(page.find("forecast measured error %  90 % band, s") != std::string::npos);
  CHECK(page.find("no row reports a peak; 8 of 8 completed runs") != std::string::npos);
  const std::string svg = scatter_svg(rows);
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("nan") == std::string::npos);
  const std::string html = validation_html(table, rows, "", {"tracecast validate t.csv --html a.html", "tracecast 1"});
  for (const char* words : {R"("kind":"validate")", R"("command":"tracecast validate t.csv --html a.html")",
                            "korthikanti-175b-full", "</html>"})
    CHECK(html.find(words) != std::string::npos);
}
