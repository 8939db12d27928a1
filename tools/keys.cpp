/// tracecast_keys DOCS: updates the schemas and key tables of the documentation. tools/scripts/refresh-docs runs it.
#include <filesystem>
#include <iostream>

#include "sim/io/files.hpp"
#include "tools/documented_keys.hpp"

int main(int count, char** words) {
  if (count != 2) return 2;
  for (const auto& [path, text] : tracecast::cli::documented_keys(words[1]))
    if (const auto written = tracecast::write_file(std::filesystem::path(words[1]) / path, text); !written) {
      std::cerr << tracecast::to_string(written.error()) << '\n';
      return 2;
    }
}
