#include "tools/short_options.hpp"

#include <fmt/format.h>

namespace tracecast::cli {

std::string key_of(const std::string& setting) { return setting.substr(0, setting.find('=')); }

Result<void> check_given_once(const std::vector<ShortOption>& options, const std::vector<std::string>& settings) {
  for (const ShortOption& option : options)
    for (const std::string& setting : settings)
      if (key_of(setting) == option.key)
        return fail_key(option.option, option.given,
                        fmt::format("contradicts --set {} (allowed: one of them)", setting));
  return {};
}

Error named_by_option(Error error, const std::vector<ShortOption>& options) {
  for (Diagnostic& each : error.diagnostics)
    for (const ShortOption& option : options) {
      const bool own = each.key == option.key;
      if (!own && !each.key.starts_with(option.key + "[")) continue;
      // A part of a list: "global_batch is not an integer".
      const std::string part = own ? "" : each.key.substr(each.key.rfind('.') + 1) + " ";
      each = {"", 0, option.option, option.given, part + each.message};
    }
  return error;
}

}  // namespace tracecast::cli
