#include "tests/support/paths.hpp"

namespace tracecast {

const char* tracecast_binary() { return TRACECAST_BINARY; }

}  // namespace tracecast
