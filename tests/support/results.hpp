/// \file
/// Results that a test needs to succeed, and what the others say.
#pragma once

#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "sim/base/result.hpp"

namespace tracecast {

/// Fails the test with the text of the error.
template <class T>
T value_of(Result<T> result) {
  if (!result) FAIL(to_string(result.error()));
  return std::move(*result);
}

/// What is wrong, as it is printed; "" where nothing is.
template <class T>
std::string error_text(const Result<T>& result) {
  return result ? "" : to_string(result.error());
}

}  // namespace tracecast
