// The fuzzer's corpus, and mutations of it, through every reader: the part of fuzzing that every test run repeats.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/fuzz/exercise_readers.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

/// Every file of the corpus and every broken file, in the order of their names.
std::vector<std::string> corpus() {
  std::vector<fs::path> files;
  for (const char* folder : {"tests/fuzz/corpus", "tests/data/broken"})
    for (const auto& entry : fs::directory_iterator(source_dir() / folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  for (const fs::path& file : files) texts.push_back(content_of(file));
  return texts;
}

/// Draws below `limit`; std::uniform_int_distribution differs between libraries.
std::size_t draw(std::mt19937_64& random, std::size_t limit) { return limit == 0 ? 0 : random() % limit; }

/// One to four small damages: a byte changed, cut out or doubled, a word of JSON put in, the end lost, two texts spliced.
std::string mutated(std::string text, const std::vector<std::string>& texts, std::mt19937_64& random) {
  static const std::vector<std::string> kWords{"null", "true", "-1", "0",      "1e308",      "9223372036854775807",
                                               "\"\"", "[]",   "{}", "\"x\":", ",",          "}",
                                               "[[",   "\xFF", "\n", "1.5",    "2147483648", "\"80 GB\""};
  for (std::size_t rounds = 1 + draw(random, 4); rounds > 0; --rounds) {
    const std::size_t at = draw(random, text.size());
    const std::size_t length = std::min<std::size_t>(1 + draw(random, 16), text.size() - at);
    switch (draw(random, 6)) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(draw(random, 256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.insert(at, kWords[draw(random, kWords.size())]);
        break;
      case 4:
        text.resize(at);
        break;
      default: {
        const std::string& other = texts[draw(random, texts.size())];
        text = text.substr(0, at) + other.substr(std::min(at, other.size()));
      }
    }
  }
  return text;
}

}  // namespace

TEST_CASE("fuzz: the readers survive the corpus and seeded damage to it", "[io][fuzz]") {
  const std::vector<std::string> texts = corpus();
  REQUIRE(texts.size() >= 25);
  for (const std::string& text : texts) exercise_readers(text);
  constexpr std::uint64_t kSeed = 20'231'226;
  const int kMutations = test::kSanitized ? 4'000 : 10'000;  // with sanitizers tools/fuzz goes on from here
  CAPTURE(kSeed);
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < kMutations; ++i) exercise_readers(mutated(texts[draw(random, texts.size())], texts, random));
  SUCCEED("no reader broke a promise");
}
