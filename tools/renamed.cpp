#include "tools/renamed.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace tracecast::cli {

void note_new_name(const char* old_name, const char* new_name) {
  fmt::print(stderr, "{} is now called {}\n", old_name, new_name);
}

void note_now_default(const char* option) { fmt::print(stderr, "{} is the default now\n", option); }

std::string new_network_name(const std::string& name) {
  if (name != "analytic") return name;
  note_new_name("--network analytic", "--network isolated");
  return "isolated";
}

}  // namespace tracecast::cli
