#include "tests/support/paths.hpp"

namespace tracecast {

std::filesystem::path source_dir() { return TRACECAST_SOURCE_DIR; }

}  // namespace tracecast
