#include "tools/option_error.hpp"

#include <utility>

namespace tracecast::cli {

tl::unexpected<Error> fail_key(std::string option, std::string value, std::string message) {
  return fail(Diagnostic{"", 0, std::move(option), std::move(value), std::move(message)});
}

}  // namespace tracecast::cli
