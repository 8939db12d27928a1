#include "sim/import/pytorch_schedule.hpp"

#include <filesystem>
#include <iterator>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/unit_steps.hpp"

using namespace tracecast;

namespace {

const std::filesystem::path kSamples = measurements_of_others() / "formats" / "pipeline-schedule";

bool no_samples() {
  if (std::filesystem::exists(kSamples)) return false;
  WARN("skipped: no " << kSamples);
  return true;
}

std::string text_of(const std::string& name) { return content_of(kSamples / name); }

std::string without(const std::string& text, char c) {
  std::string result;
  for (char x : text) {
    if (x != c) result += x;
  }
  return result;
}

/// The message of a file that is wrong, "" for one that is right.
std::string judgement(const std::string& text, ScheduleDialect dialect = ScheduleDialect::detect) {
  return error_text(parse_pytorch_schedule(text, "s.csv", dialect).and_then(schedule_of));
}

std::size_t cells(const PytorchSchedule& s, bool idle) {
  std::size_t count = 0;
  for (const auto& row : s.rows) {
    for (const PipelineOp& step : row) count += (step.kind == PipelineOpKind::idle) == idle ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("every PyTorch sample is read as counted, judged, and written back", "[io][schedule][oracle]") {
  if (no_samples()) return;
  struct Expected {
    const char* file;
    std::size_t ranks, widest, actions, idle;
  };
  // Counted by an independent script.
  const Expected table[] = {
      {"dualpipev_2rank_4mb_rederived.csv", 2, 16, 31, 0},
      {"dualpipev_2rank_8mb_rederived.csv", 2, 24, 47, 0},
      {"legacy_zb1p_2rank_2stagep_compute.csv", 2, 49, 96, 2},
      {"pytorch_dualpipev_4rank_10mb.csv", 4, 38, 141, 0},
      {"pytorch_zb1p_2rank_2stagep_comms.csv", 2, 96, 176, 0},
      {"pytorch_zb1p_2rank_2stagep_compute.csv", 2, 49, 96, 2},
      {"torch280_1f1b_pp4_mb8_compute_DEFECT.csv", 4, 25, 64, 24},
      {"torch280_gpipe_pp2_mb4_comms.csv", 2, 17, 34, 0},
      {"torch280_gpipe_pp2_mb4_compute.csv", 2, 11, 16, 4},
      {"torch280_gpipe_pp4_mb10_comms.csv", 4, 61, 204, 0},
      {"torch280_gpipe_pp4_mb10_compute.csv", 4, 29, 80, 24},
      {"torch280_gpipe_pp4_mb8_comms.csv", 4, 49, 164, 0},
      {"torch280_gpipe_pp4_mb8_compute.csv", 4, 25, 64, 24},
      {"torch280_interleaved1f1b_pp2_v2_mb4_comms.csv", 2, 43, 86, 0},
      {"torch280_interleaved1f1b_pp2_v2_mb4_compute.csv", 2, 22, 32, 10},
      {"torch280_interleaved1f1b_pp2_v2_mb8_comms.csv", 2, 83, 166, 0},
      {"torch280_interleaved1f1b_pp2_v2_mb8_compute.csv", 2, 38, 64, 10},
      {"torch280_interleaved1f1b_pp4_v2_mb10_comms.csv", 4, 123, 452, 0},
      {"torch280_interleaved1f1b_pp4_v2_mb10_compute.csv", 4, 54, 160, 44},
      {"torch280_interleaved1f1b_pp4_v2_mb8_comms.csv", 4, 99, 364, 0},
      {"torch280_interleaved1f1b_pp4_v2_mb8_compute.csv", 4, 46, 128, 44},
      {"torch280_interleavedzb_pp2_v2_mb4_comms.csv", 2, 51, 102, 0},
      {"torch280_interleavedzb_pp2_v2_mb4_compute.csv", 2, 25, 48, 2},
      {"torch280_interleavedzb_pp4_v2_mb8_comms.csv", 4, 115, 428, 0},
      {"torch280_interleavedzb_pp4_v2_mb8_compute.csv", 4, 51, 192, 12},
      {"torch280_loopedbfs_pp2_v2_mb4_comms.csv", 2, 43, 86, 0},
      {"torch280_loopedbfs_pp2_v2_mb4_compute.csv", 2, 18, 32, 3},
      {"torch280_loopedbfs_pp4_v2_mb10_comms.csv", 4, 123, 452, 0},
      {"torch280_loopedbfs_pp4_v2_mb10_compute.csv", 4, 46, 160, 18},
      {"torch280_loopedbfs_pp4_v2_mb8_comms.csv", 4, 99, 364, 0},
      {"torch280_loopedbfs_pp4_v2_mb8_compute.csv", 4, 38, 128, 18},
      {"torch280_zbv_pp2_mb4_comms.csv", 2, 43, 86, 0},
      {"torch280_zbv_pp2_mb4_compute.csv", 2, 25, 48, 1},
      {"torch280_zbv_pp4_mb8_comms.csv", 4, 115, 396, 0},
      {"torch280_zbv_pp4_mb8_compute.csv", 4, 51, 192, 6},
      {"torchtitan_custom_schedule.csv", 2, 48, 96, 0},
  };
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSamples)) files += entry.path().extension() == ".csv";
  CHECK(files == std::size(table));
  for (const Expected& expected : table) {
    INFO(expected.file);
    const std::string text = text_of(expected.file);
    const Result<PytorchSchedule> file = parse_pytorch_schedule(text, expected.file);
    REQUIRE(file);
    CHECK(file->rows.size() == expected.ranks);
    std::size_t widest = 0;
    for (const auto& row : file->rows) widest = std::max(widest, row.size());
    CHECK(widest == expected.widest);
    CHECK(cells(*file, false) == expected.actions);
    CHECK(cells(*file, true) == expected.idle);
    CHECK(file->with_communication == (std::string(expected.file).find("_comms") != std::string::npos));
    CHECK(file->was_legacy == std::string(expected.file).starts_with("legacy"));
    if (!file->was_legacy) {
      const bool carriage_returns = text.find('\r') != std::string::npos;
      const std::string end = text.ends_with('\n') ? "" : carriage_returns ? "\r\n" : "\n";
      CHECK(to_pytorch_csv(file->rows, carriage_returns) == text + end);
    }
    const Result<Schedule> schedule = schedule_of(*file);
    const std::string message = error_text(schedule);
    if (std::string(expected.file).find("DEFECT") != std::string::npos) {
      CHECK(message ==
            std::string(expected.file) + ":4: rank 3, column 5 = 3B0: its forward 3F0 does not come before it");
    } else {
      CHECK(message.empty());
    }
  }
}

TEST_CASE("lowering a compute-only file gives its communication twin, cell by cell", "[io][schedule][oracle]") {
  if (no_samples()) return;
  int pairs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSamples)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.find("_compute.csv");
    if (!name.starts_with("torch280") || at == std::string::npos) continue;
    INFO(name);
    const PytorchSchedule file = *read_pytorch_schedule(entry.path());
    const Schedule schedule = *schedule_of(file);
    const PipelineProgram lowered = with_early_receives(schedule, with_parameter_gathering(file.rows));
    const std::string twin = name.substr(0, at) + "_comms.csv";
    CHECK(to_pytorch_csv(lowered) == without(text_of(twin), '\r'));
    ++pairs;
  }
  CHECK(pairs == 14);
}

TEST_CASE("the unit-cost simulator's step counts", "[io][schedule][oracle]") {
  if (no_samples()) return;
  // Counted by an independent script.
  const std::map<std::string, int> steps{
      {"gpipe_pp2_mb4", 18},
      {"gpipe_pp4_mb10", 68},
      {"gpipe_pp4_mb8", 56},
      {"interleaved1f1b_pp2_v2_mb4", 51},
      {"interleaved1f1b_pp2_v2_mb8", 101},
      {"interleaved1f1b_pp4_v2_mb10", 183},
      {"interleaved1f1b_pp4_v2_mb8", 148},
      {"interleavedzb_pp2_v2_mb4", 57},
      {"interleavedzb_pp4_v2_mb8", 151},
      {"loopedbfs_pp2_v2_mb4", 50},
      {"loopedbfs_pp4_v2_mb10", 178},
      {"loopedbfs_pp4_v2_mb8", 144},
      {"zbv_pp2_mb4", 46},
      {"zbv_pp4_mb8", 133},
  };
  for (const auto& [name, expected] : steps) {
    INFO(name);
    const PytorchSchedule file = *read_pytorch_schedule(kSamples / ("torch280_" + name + "_compute.csv"));
    const Schedule schedule = *schedule_of(file);
    CHECK(unit_steps(schedule, with_early_receives(schedule, file.rows)) == expected);
  }
}

TEST_CASE("step counts of our own orders", "[schedule][oracle]") {
  // Sizes without a sample, by PyTorch 2.8.0's rules: pp4 n4 GPipe, pp2 n8 interleaved zero bubble.
  const auto steps = [](const std::string& name, int ranks, int microbatches) {
    const Schedule schedule = *make_schedule(name, {.ranks = ranks, .microbatches = microbatches});
    return *unit_steps(schedule, with_early_receives(schedule, program_of(schedule)));
  };
  CHECK(steps("gpipe", 4, 4) == 32);
  CHECK(steps("interleaved-zb", 2, 8) == 113);
  CHECK(steps("interleaved-1f1b", 4, 10) == 183);
}

TEST_CASE("our orders are PyTorch's", "[io][schedule][oracle]") {
  if (no_samples()) return;
  struct Twin {
    const char* schedule;
    ScheduleRequest request;
    const char* file;
  };
  const Twin twins[] = {
      {"GPipe", {.ranks = 4, .microbatches = 10}, "torch280_gpipe_pp4_mb10_compute.csv"},
      {"Interleaved1F1B",
       {.ranks = 4, .microbatches = 10, .chunks = 2},
       "torch280_interleaved1f1b_pp4_v2_mb10_compute.csv"},
      {"Interleaved1F1B",
       {.ranks = 4, .microbatches = 8, .chunks = 2},
       "torch280_interleaved1f1b_pp4_v2_mb8_compute.csv"},
      {"InterleavedZeroBubble",
       {.ranks = 4, .microbatches = 8, .chunks = 2},
       "torch280_interleavedzb_pp4_v2_mb8_compute.csv"},
      {"InterleavedZeroBubble", {.ranks = 2, .microbatches = 8, .chunks = 2}, "pytorch_zb1p_2rank_2stagep_compute.csv"},
      {"LoopedBFS", {.ranks = 4, .microbatches = 10, .chunks = 2}, "torch280_loopedbfs_pp4_v2_mb10_compute.csv"},
      {"ZBVZeroBubble", {.ranks = 4, .microbatches = 8}, "torch280_zbv_pp4_mb8_compute.csv"},
      {"ZBVZeroBubble", {.ranks = 2, .microbatches = 4}, "torch280_zbv_pp2_mb4_compute.csv"},
      {"DualPipeV", {.ranks = 4, .microbatches = 10}, "pytorch_dualpipev_4rank_10mb.csv"},
      {"DualPipeV", {.ranks = 2, .microbatches = 4}, "dualpipev_2rank_4mb_rederived.csv"},
  };
  for (const Twin& twin : twins) {
    INFO(twin.file);
    PytorchSchedule file = *read_pytorch_schedule(kSamples / twin.file);
    for (auto& row : file.rows) std::erase(row, PipelineOp{});
    CHECK(*to_pytorch_csv(*make_schedule(twin.schedule, twin.request)) == to_pytorch_csv(file.rows));
  }
}

TEST_CASE("a schedule comes back from its CSV", "[io][schedule][property]") {
  for (const ScheduleVariant& variant : schedule_variants()) {
    const Schedule schedule = *make_schedule(std::string(variant.name), {.ranks = 4, .microbatches = 8});
    if (schedule.replicas > 1) {
      CHECK(to_string(to_pytorch_csv(schedule).error()) ==
            "schedule = " + schedule.name + ": holds two copies of the model; PyTorch's format has one rank per stage");
      continue;
    }
    if (!schedule.flush) {  // read back, it would be 1f1b
      CHECK(to_string(to_pytorch_csv(schedule).error()) ==
            "schedule = " + schedule.name +
                ": has no flush; PyTorch's format has one step, which fills and drains the pipeline");
      continue;
    }
    const Schedule back = *parse_pytorch_schedule(*to_pytorch_csv(schedule), "s.csv").and_then(schedule_of);
    CHECK(back.actions == schedule.actions);
    CHECK(back.stage_of == schedule.stage_of);
    for (const PipelineProgram& program :
         {with_early_receives(schedule, program_of(schedule)),
          with_receives_at_use(schedule, with_parameter_gathering(program_of(schedule)))}) {
      const Result<PytorchSchedule> file = parse_pytorch_schedule(to_pytorch_csv(program, true), "s.csv");
      REQUIRE(file);
      CHECK(file->rows == program);
      CHECK(schedule_of(*file)->actions == schedule.actions);
    }
  }
}

TEST_CASE("damaged schedule files are refused or read, never worse", "[io][schedule][property]") {
  const Schedule schedule = *make_schedule("zb-v", {.ranks = 2, .microbatches = 3});
  const std::string whole = to_pytorch_csv(with_early_receives(schedule, program_of(schedule)));
  constexpr std::uint64_t kSeed = 20260405;
  RandomStream random(kSeed, 0, 0);
  const std::string letters = "0123456789FBIW_,;()\r\n SENDRECVUHOLAP\"-\xff";
  int read = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = whole;
    for (std::uint64_t damage = 0; damage <= random.below(3); ++damage) {
      const auto at = static_cast<std::size_t>(random.below(text.size()));
      const char letter = letters[static_cast<std::size_t>(random.below(letters.size()))];
      switch (random.below(3)) {
        case 0:
          text[at] = letter;
          break;
        case 1:
          text.erase(at, 1 + static_cast<std::size_t>(random.below(20)));
          break;
        default:
          text.insert(at, 1, letter);
          break;
      }
      if (text.empty()) break;
    }
    const auto result = parse_pytorch_schedule(text, "s.csv").and_then(schedule_of);
    if (result) {
      ++read;
      REQUIRE(check(*result));
    } else {
      REQUIRE(result.error().diagnostics.size() == 1);
      REQUIRE_FALSE(result.error().diagnostics.front().message.empty());
    }
  }
  CHECK(read > 0);
  CHECK(read < 3000);
}

TEST_CASE("the old dialect is recognised, asked for, or refused", "[io][schedule]") {
  CHECK(parse_pytorch_schedule("0F0,0B0,0W0", "s")->was_legacy);
  CHECK(parse_pytorch_schedule("0F0,0B0,0W0", "s")->rows[0][1].kind == PipelineOpKind::backward_input);
  CHECK(parse_pytorch_schedule("0F0,0BW0", "s")->rows[0][1].kind == PipelineOpKind::backward);
  CHECK_FALSE(parse_pytorch_schedule("0F0,0B0", "s")->was_legacy);
  CHECK(parse_pytorch_schedule("0F0,0B0", "s", ScheduleDialect::legacy)->rows[0][1].kind ==
        PipelineOpKind::backward_input);
  CHECK(judgement("0F0,0B0,0W0", ScheduleDialect::current) ==
        "s.csv:1: rank 0, column 3 = 0W0: repeats a full backward; a micro-batch has B, or I and W");
  CHECK(judgement("0F0,0BW0", ScheduleDialect::current) ==
        "s.csv:1: rank 0, column 2 = BW: is of the old dialect (B for input gradients)");
}

TEST_CASE("what is wrong with a schedule file", "[io][schedule]") {
  const std::string no_action =
      ": unknown action (allowed: stage, then F B I W SEND_F RECV_F SEND_B RECV_B and micro-batch, or UNSHARD RESHARD "
      "REDUCE_GRAD; (0F1;3B0)OVERLAP_F_B)";
  CHECK(judgement("") == "s.csv: has no rows");
  CHECK(judgement("0F0, 0X0") == "s.csv:1: rank 0, column 2 = 0X0" + no_action);
  CHECK(judgement("0F0x,0B0") == "s.csv:1: rank 0, column 1 = 0F0x" + no_action);
  CHECK(judgement("0F-1,0B0") == "s.csv:1: rank 0, column 1 = 0F-1" + no_action);
  CHECK(judgement("0F99999999") == "s.csv:1: rank 0, column 1 = 0F99999999" + no_action);
  CHECK(judgement("0UNSHARD3") == "s.csv:1: rank 0, column 1 = 0UNSHARD3" + no_action);
  CHECK(judgement("(0F0;0W0)OVERLAP_F_B") == "s.csv:1: rank 0, column 1 = (0F0;0W0)OVERLAP_F_B" + no_action);
  CHECK(judgement("0F0,0B0\n0F0,0B0") == "s.csv:2: rank 1, column 1 = 0F0: stage 0 is on rank 0 already");
  CHECK(judgement("0F0,0B0\n2F0,2B0") == "s.csv: stage 1 is on no rank");
  CHECK(judgement("0F0,2F0,2B0,0B0\n1F0,1B0") == "s.csv: rank 1 holds 1 stages and rank 0 holds 2");
  CHECK(judgement("0F0,0B0,0F0") == "s.csv:1: rank 0, column 3 = 0F0: is in column 1 already");
  CHECK(judgement("0F0,0I0,0B0,0W0") ==
        "s.csv:1: rank 0, column 3 = 0B0: repeats an input gradient; a micro-batch has B, or I and W");
  CHECK(judgement("0F0,0W0,0I0") == "s.csv:1: rank 0, column 2 = 0W0: its input gradient 0I0 does not come before it");
  CHECK(judgement("0F0,0F1,0B0") == "s.csv:1: rank 0: 0B1 is missing (micro-batches are 0..1)");
  CHECK(judgement("0F1,0B1") == "s.csv:1: rank 0: 0F0 is missing (micro-batches are 0..1)");
  CHECK(judgement("0F0,0I0") == "s.csv:1: rank 0: 0W0 is missing (micro-batches are 0..0)");
  CHECK(judgement("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1") ==
        "s.csv: deadlock: rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F1 for 0F1 of rank 0");
}

TEST_CASE("what is wrong with the communication of a schedule file", "[io][schedule]") {
  const std::string rank1 = "\n1RECV_F0,1F0,1B0,1SEND_B0";
  CHECK(judgement("0F0,0SEND_F0,0RECV_B0,0B0" + rank1).empty());
  CHECK(judgement("0F0,0SEND_F0,,0RECV_B0,0B0" + rank1) ==
        "s.csv:1: rank 0, column 3: is empty, in a file with communication, where columns are no time slots");
  CHECK(judgement("0F0,0RECV_B0,0B0" + rank1) == "s.csv:1: rank 0: 0SEND_F0 is missing (micro-batches are 0..0)");
  CHECK(judgement("0F0,0SEND_F0,0B0" + rank1) == "s.csv:1: rank 0: 0RECV_B0 is missing (micro-batches are 0..0)");
  CHECK(judgement("0SEND_F0,0F0,0RECV_B0,0B0" + rank1) ==
        "s.csv:1: rank 0, column 1 = 0SEND_F0: comes before what it sends");
  CHECK(judgement("0F0,0SEND_F0,0B0,0RECV_B0" + rank1) ==
        "s.csv:1: rank 0, column 4 = 0RECV_B0: comes after the step that needs it");
  CHECK(judgement("0F0,0SEND_F0,0RECV_F0,0RECV_B0,0B0" + rank1) ==
        "s.csv:1: rank 0, column 3 = 0RECV_F0: no other rank is at the other end");
  CHECK(judgement("0F0,0SEND_F0,0SEND_F1,0RECV_B0,0B0" + rank1) ==
        "s.csv:1: rank 0, column 3 = 0SEND_F1: no other rank is at the other end");
  CHECK(judgement("0F0,1SEND_B0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0") ==
        "s.csv:1: rank 0, column 2 = 1SEND_B0: stage 1 is on another rank");
}
