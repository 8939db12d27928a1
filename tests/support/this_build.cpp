#include "sim/base/sanitized.hpp"
#include "tests/support/cases.hpp"

namespace tracecast::test {

#ifdef TRACECAST_SANITIZED
const bool kSanitized = true;
const int kKeptOutputs = 10;
#else
const bool kSanitized = false;
const int kKeptOutputs = 1;
#endif
#ifdef NDEBUG
const bool kOptimized = true;
#else
const bool kOptimized = false;
#endif

}  // namespace tracecast::test
