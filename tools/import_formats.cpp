#include "tools/import_formats.hpp"

#include <fmt/format.h>

#include "sim/io/files.hpp"

namespace tracecast::cli {

Result<ExitCode> deliver(const ImportOptions& options, const std::string& text, const std::string& summary) {
  if (options.output.empty()) {
    fmt::print("{}", text);
    return ExitCode::done;
  }
  if (const Result<void> ok = write_file(options.output, text); !ok) return tl::unexpected(ok.error());
  fmt::print("{}", summary);
  return ExitCode::done;
}

}  // namespace tracecast::cli
