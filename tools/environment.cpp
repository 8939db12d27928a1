#include "tools/environment.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sim/base/hash.hpp"
#include "sim/io/read_file.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread is started
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

/// A locale that is set and is not UTF-8 cannot show block characters; none at all (a bare container) mostly
/// can.
bool locale_allows_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = variable(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string_view::npos || value.find("utf8") != std::string_view::npos;
  }
  return true;
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::max<int>(60, size.ws_col);
}

/// The data below `root`, laid out as in the source tree or as installed (profiles at the top).
std::optional<DataPaths> data_below(const fs::path& root) {
  std::error_code ignored;
  if (!fs::is_directory(root / "scenarios", ignored) || !fs::is_directory(root / "topologies", ignored)) return {};
  for (const char* profiles : {"profiles", "kernels/profiles"}) {
    if (fs::is_directory(root / profiles, ignored)) {
      return DataPaths{.scenarios = root / "scenarios", .topologies = root / "topologies", .profiles = root / profiles};
    }
  }
  return {};
}

}  // namespace

TextStyle style_of_stdout() {
  const bool forced = !variable("FORCE_COLOR").empty() && variable("FORCE_COLOR") != "0";
  const bool terminal = isatty(STDOUT_FILENO) != 0 && variable("TERM") != "dumb";
  if (!terminal) return {.colour = forced && variable("NO_COLOR").empty()};
  return {.width = terminal_width(), .unicode = locale_allows_unicode(), .colour = variable("NO_COLOR").empty()};
}

bool stderr_is_terminal() { return isatty(STDERR_FILENO) != 0; }

Result<DataPaths> data_paths() {
  if (const std::string_view asked = variable("TRACECAST_DATA"); !asked.empty()) {
    if (std::optional<DataPaths> found = data_below(fs::path(asked))) return *found;
    return fail(fmt::format("TRACECAST_DATA = {}: holds no scenarios, topologies and profiles", asked));
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path().parent_path() / "share" / "tracecast";
  for (const fs::path& root : {installed, fs::path(TRACECAST_SOURCE_DIR)}) {
    if (std::optional<DataPaths> found = data_below(root)) return *found;
  }
  return fail(
      fmt::format("found no scenarios, topologies and profiles in {} or {}; set TRACECAST_DATA to their directory",
                  installed.string(), TRACECAST_SOURCE_DIR));
}

std::string program_fingerprint() {
  const Result<std::string> program = read_file("/proc/self/exe");
  return program ? fmt::format("{:016x}", fnv_1a(*program)) : "";
}

namespace {

long peak_of_children_kib() {
  rusage children{};
  getrusage(RUSAGE_CHILDREN, &children);
  return children.ru_maxrss;
}

/// Of the processes that the shell script waited for before it became this program: the compilers of a first run.
const long peak_before_start_kib = peak_of_children_kib();

}  // namespace

double peak_rss_mib() {
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  const long children = peak_of_children_kib();
  const long peak = children > peak_before_start_kib ? std::max(own.ru_maxrss, children) : own.ru_maxrss;
  return static_cast<double>(peak) / 1024;  // Linux counts KiB
}

}  // namespace tracecast::cli
