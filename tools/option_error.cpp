#include "tools/option_error.hpp"

#include <system_error>
#include <utility>

namespace tracecast::cli {

tl::unexpected<Error> fail_key(std::string option, std::string value, std::string message) {
  return fail(Diagnostic{"", 0, std::move(option), std::move(value), std::move(message)});
}

Result<void> make_folder(const std::filesystem::path& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (std::filesystem::is_directory(folder, code)) return {};
  return fail_key("--out", folder.string(), "is not a folder and cannot be created");
}

}  // namespace tracecast::cli
