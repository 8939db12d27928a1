#include "sim/plan/packing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <catch2/catch.hpp>

#include "sim/plan/plan.hpp"
#include "tests/support/models.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

std::int64_t tokens_of(const std::vector<std::int32_t>& pack) {
  return std::accumulate(pack.begin(), pack.end(), std::int64_t{0});
}

Documents lognormal(Packing packing) {
  Documents documents;
  documents.law = LengthLaw::lognormal;
  documents.mean = 600;
  documents.sigma = 1.2;
  documents.packing = packing;
  return documents;
}

std::string mistake(const Documents& documents, bool flash_attention = true) {
  const Training training{
      .seq_length = 4096, .global_batch_size = 8, .flash_attention = flash_attention, .documents = documents};
  return error_text(make_plan(llama3_8b(), {}, training, 8));
}

}  // namespace

TEST_CASE("packing: three of 300 tokens fill a sequence of 1,000", "[oracle][plan][packing]") {
  Documents documents;
  documents.mean = 300;
  documents.buffer = 10;
  documents.steps = 2;
  documents.packing = GENERATE(Packing::first_fit, Packing::best_fit);
  // Ten documents make 3 + 3 + 3 + 1; two buffers make the eight sequences of two steps.
  const PackedSteps packed = pack_steps(documents, 1000, 4, 1);
  REQUIRE(packed.packs.size() == 8);
  CHECK(packed.useful == 2 * 10 * 300);
  CHECK(std::ranges::count(packed.packs, std::vector<std::int32_t>{300, 300, 300}) == 6);
  CHECK(std::ranges::count(packed.packs, std::vector<std::int32_t>{300}) == 2);
  CHECK(packed.dropped == 0);
  CHECK(packed.varies);
}

TEST_CASE("packing: concatenated documents go on in the next sequence", "[oracle][plan][packing]") {
  Documents documents;
  documents.mean = 300;
  documents.steps = 1;
  const PackedSteps packed = pack_steps(documents, 1000, 3, 1);
  // 300 300 300 100 | 200 300 300 200 | 100 300 300 300
  CHECK(packed.packs[0] == std::vector<std::int32_t>{300, 300, 300, 100});
  CHECK(packed.packs[1] == std::vector<std::int32_t>{300, 300, 200, 200});
  CHECK(packed.packs[2] == std::vector<std::int32_t>{300, 300, 300, 100});
  CHECK(packed.useful == packed.tokens());
}

TEST_CASE("packing: a sequence for each document drops what is longer", "[oracle][plan][packing]") {
  Documents documents;
  documents.mean = 1500;
  documents.longest = 2000;
  documents.packing = Packing::none;
  documents.steps = 1;
  const PackedSteps packed = pack_steps(documents, 1000, 4, 1);
  CHECK(packed.useful == 4 * 1000);
  CHECK(packed.dropped == 4 * 500);
  CHECK_FALSE(packed.varies);
}

TEST_CASE("packing: no sequence is too long, and at most one of a buffer is half empty", "[property][plan][packing]") {
  Documents documents = lognormal(GENERATE(Packing::first_fit, Packing::best_fit));
  documents.buffer = 5000;
  documents.steps = 1;
  documents.seed = GENERATE(1, 2, 3);
  const PackedSteps packed = pack_steps(documents, 4096, 64, 1);
  int half_empty = 0;
  for (const auto& pack : packed.packs) {
    CHECK(tokens_of(pack) <= 4096);
    half_empty += 2 * tokens_of(pack) <= 4096 ? 1 : 0;
  }
  CHECK(half_empty <= 1);
  CHECK(packed.useful == std::accumulate(packed.packs.begin(), packed.packs.end(), std::int64_t{0},
                                         [](std::int64_t sum, const auto& pack) { return sum + tokens_of(pack); }));
}

TEST_CASE("packing: lengths have the law's mean, and the seed decides them", "[property][plan][packing]") {
  Documents documents = lognormal(Packing::concatenate);
  documents.sigma = 0.5;
  documents.longest = 100'000;
  documents.steps = 4;
  const PackedSteps packed = pack_steps(documents, 1 << 17, 32, 1);
  // 28,000 documents, of which 128 are cut: the mean has a standard error of 0.32 %.
  CHECK(static_cast<double>(packed.useful) / static_cast<double>(packed.documents()) == Approx(600).epsilon(0.015));
  CHECK(pack_steps(documents, 1 << 17, 32, 1).packs == packed.packs);
  documents.seed = 2;
  CHECK(pack_steps(documents, 1 << 17, 32, 1).packs != packed.packs);
}

TEST_CASE("packing: a histogram is drawn by its weights", "[property][plan][packing]") {
  Documents documents;
  documents.law = LengthLaw::histogram;
  documents.histogram = {{"64", 3}, {"256", 1}};
  documents.packing = Packing::none;
  documents.steps = 1;
  const PackedSteps packed = pack_steps(documents, 256, 10'000, 1);
  CHECK(packed.lengths.size() == 2);
  CHECK(packed.lengths.at(64) == Approx(7500).margin(4 * std::sqrt(10'000 * 0.75 * 0.25)));
}

TEST_CASE("packing: with context parallelism every document is divided by itself", "[plan][packing]") {
  const PackedSteps packed = pack_steps(lognormal(GENERATE(Packing::concatenate, Packing::best_fit)), 4096, 16, 8);
  REQUIRE_FALSE(packed.lengths.empty());
  for (const auto& [length, count] : packed.lengths) CHECK(length % 8 == 0);
}

TEST_CASE("packing: bins span as few ranks as their longest document needs", "[property][plan][packing]") {
  Documents documents = lognormal(Packing::dynamic_cp);
  documents.buffer = 300;
  documents.steps = 3;
  documents.seed = GENERATE(1, 2, 3);
  const int cp = GENERATE(1, 4, 8);
  constexpr int kSequences = 12;
  constexpr std::int64_t kSequence = 4096;
  const int ranks = 2 * cp;
  const int microbatches = kSequences * cp / ranks;
  const PackedSteps packed = pack_bins(documents, kSequence, kSequences, cp, ranks);
  REQUIRE(packed.bins.size() == static_cast<std::size_t>(3 * kSequences * cp));
  CHECK(packed.tokens() == 3 * kSequences * kSequence);
  std::vector<int> found(packed.packs.size());
  for (int step = 0; step < 3; ++step)
    for (int microbatch = 0; microbatch < microbatches; ++microbatch)
      for (int rank = 0; rank < ranks;) {
        const std::int32_t bin = packed.bin(step, rank * microbatches + microbatch);
        const int size = packed.ranks_of(bin);
        CHECK(rank % size == 0);
        for (int i = 0; i < size; ++i) CHECK(packed.bin(step, (rank + i) * microbatches + microbatch) == bin);
        ++found[static_cast<std::size_t>(bin)];
        rank += size;
      }
  CHECK(std::ranges::count(found, 1) == std::ssize(found));
  std::int64_t useful = 0;
  for (std::size_t bin = 0; bin < packed.packs.size(); ++bin) {
    const std::vector<std::int32_t>& pack = packed.packs[bin];
    const std::int64_t room = kSequence / cp * packed.bin_ranks[bin];
    CHECK(tokens_of(pack) <= room);
    CHECK((packed.bin_ranks[bin] == 1 || 2 * pack.front() > room));
    for (const std::int32_t length : pack) CHECK((cp == 1 || length % (2 * cp) == 0));
    useful += tokens_of(pack);
  }
  CHECK(packed.useful == useful);
  CHECK(useful > packed.tokens() * 8 / 10);
  CHECK(useful <= packed.tokens());
}

TEST_CASE("packing: ranks of bins have about equal work", "[property][plan][packing]") {
  // 64 micro-batches of 8 ranks. Dealt at random, the fullest would have a few percent more work than the mean.
  Documents documents = lognormal(Packing::best_fit);
  documents.steps = 1;
  const PackedSteps packed = pack_bins(documents, 4096, 512, 1, 8);
  std::vector<double> work(8);
  for (int rank = 0; rank < 8; ++rank)
    for (int microbatch = 0; microbatch < 64; ++microbatch)
      for (const double length : packed.packs[static_cast<std::size_t>(packed.bin(0, rank * 64 + microbatch))])
        work[static_cast<std::size_t>(rank)] += length * length;
  const double sum = std::accumulate(work.begin(), work.end(), 0.0);
  CHECK(*std::ranges::max_element(work) < 1.002 * sum / 8);
}

TEST_CASE("packing: what no bin fits into stays empty", "[oracle][plan][packing]") {
  // Only documents of 3,000 tokens: each takes a whole sequence of 4,096 on two ranks.
  Documents documents;
  documents.mean = 3000;
  documents.packing = Packing::best_fit;
  documents.steps = 2;
  const PackedSteps packed = pack_bins(documents, 4096, 4, 2, 2);
  CHECK(packed.bin_ranks == std::vector<std::int32_t>(8, 2));
  CHECK(packed.useful == 8 * 3000);
}

TEST_CASE("documents: what dynamic context parallelism is not for", "[error][plan][packing]") {
  const auto mistake_of = [](const Documents& documents, int cp, std::int64_t micro_batch) {
    const Training training{
        .seq_length = 3 * 4096, .micro_batch_size = micro_batch, .global_batch_size = 16, .documents = documents};
    const Parallel parallel{.cp = cp};
    return error_text(make_plan(llama3_8b(), parallel, training, 12));
  };
  Documents documents = lognormal(Packing::dynamic_cp);
  CHECK(mistake_of(documents, 12, 1) ==
        "parallel.cp = 12: is not for documents.packing = dynamic_cp (allowed: 1 2 4 8 16 32)");
  documents.mask = false;
  const std::string text = mistake_of(documents, 12, 2);
  CHECK(text.find("training.documents.mask = false: is not for packing = dynamic_cp (allowed: true)") !=
        std::string::npos);
  CHECK(text.find("training.micro_batch_size = 2: is not for documents.packing = dynamic_cp, whose micro-batches are "
                  "parts of one sequence (allowed: 1)") != std::string::npos);
}

TEST_CASE("documents: every mistake has its sentence", "[error][plan][packing]") {
  Documents documents;
  CHECK(mistake(documents) == "training.documents.mean = 0: must be at least 1 (or give a file, or law histogram)");
  documents.mean = 500;
  CHECK(mistake(documents).empty());
  CHECK(mistake(documents, false) ==
        "training.documents.mask = true: needs flash_attention: unfused scores are of whole sequences");
  documents.shortest = 5000;
  CHECK(mistake(documents) == "training.documents.shortest = 5000: is above the longest document, 4096 tokens");
  documents.shortest = 1;
  documents.histogram = {{"512", 1}};
  CHECK(mistake(documents) == "training.documents.histogram: needs training.documents.law = histogram");
  documents.law = LengthLaw::histogram;
  CHECK(mistake(documents) ==
        "training.documents.mean = 500: does not belong to the law histogram (allowed: fixed lognormal)");
  documents.mean = 0;
  documents.histogram = {{"5k", 1}};
  CHECK(mistake(documents) ==
        "training.documents.histogram.5k = 1: is not a length in tokens (allowed: 1 to 999999999)");
  documents.histogram = {{"512", 0}};
  CHECK(mistake(documents) == "training.documents.histogram: has no weight above 0");
}
