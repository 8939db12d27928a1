/// \file
/// How many random cases a test runs.
#pragma once

#include <algorithm>
#include <concepts>

namespace tracecast::test {

// How the tested libraries were compiled. Not macros, since builds may share the compiled tests (tests/CMakeLists.txt).
extern const bool kSanitized;
extern const bool kOptimized;

/// One of so many kept outputs is compared (tests/data/kept_outputs.txt).
extern const int kKeptOutputs;

/// `count` in a build without sanitizers, a tenth of it (at least one) with them.
/// The release build checks results on all cases. Sanitizers find errors on the paths that the code takes, and the first tenth of
/// the cases takes the same paths; each case costs several times as much there.
/// Use it only where a test's limits hold for a tenth as well, or pass them through it too.
template <std::integral Count>
Count cases(Count count) {
  return kSanitized ? std::max<Count>(1, count / 10) : count;
}

/// The same for loops over lists, nested or not: with sanitizers all cases are left out but the first of every seven. Seven, since
/// lists of 2, 3, 4, 5 or 8 values inside each other then lose none of theirs.
class EverySeventh {
 public:
  [[nodiscard]] bool leaves_out() { return kSanitized && seen_++ % 7 != 0; }

 private:
  int seen_ = 0;
};

}  // namespace tracecast::test
