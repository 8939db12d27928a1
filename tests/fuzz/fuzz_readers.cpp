// libFuzzer's entry, which tools/fuzz builds and runs. TRACECAST_FUZZ_READER=kineto gives all the time to one reader.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/exercise_readers.hpp"

namespace {

/// Of the environment; "" for all readers. A name that is none ends the program with the list of them.
const std::string& chosen_reader() {
  static const std::string chosen = [] {
    const char* const name = std::getenv("TRACECAST_FUZZ_READER");
    const std::string wanted = name == nullptr ? "" : name;
    const auto known = tracecast::exercised_readers();
    if (wanted.empty() || std::find(known.begin(), known.end(), wanted) != known.end()) return wanted;
    std::fprintf(stderr, "TRACECAST_FUZZ_READER = %s: unknown reader (allowed:", wanted.c_str());
    for (const std::string& each : known) std::fprintf(stderr, " %s", each.c_str());
    std::fprintf(stderr, ")\n");
    std::exit(2);
  }();
  return chosen;
}

}  // namespace

/// Before libFuzzer begins: an exit later counts as a finding.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  chosen_reader();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tracecast::exercise_readers({reinterpret_cast<const char*>(data), size}, chosen_reader());
  return 0;
}
