#include "sim/io/files.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "sim/io/atomic_file.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

/// All *.json below `folder`, sorted. Skips the folder models/, which holds models and not scenarios.
std::vector<fs::path> data_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->is_directory(code) && it->path().filename() == "models") it.disable_recursion_pending();
    if (it->is_regular_file(code) && it->path().extension() == ".json") files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// " (did you mean 'a'?)": the nearest name, else the names that contain the word, else all names if they are few, else
/// the folder.
std::string hint(const std::string& name, const std::vector<std::string>& names, const fs::path& folder) {
  constexpr std::size_t kFew = 12;
  const std::string nearest = nearest_match(name, names);
  if (!nearest.empty()) return fmt::format(" (did you mean '{}'?)", nearest);
  std::vector<std::string> containing;
  for (const std::string& candidate : names)
    if (!name.empty() && candidate.find(name) != std::string::npos) containing.push_back(candidate);
  if (!containing.empty() && containing.size() <= kFew)
    return fmt::format(" (did you mean '{}'?)", fmt::join(containing, "' or '"));
  if (names.empty()) return "";
  if (names.size() <= kFew) return fmt::format(" (allowed: {}, or a path)", fmt::join(names, " "));
  return fmt::format(" (shipped ones are in {})", folder.string());
}

Result<fs::path> find_by_name(const std::string& name, const fs::path& folder, std::string_view what) {
  std::vector<fs::path> found;
  std::vector<std::string> names;
  for (const fs::path& file : data_files(folder)) {
    names.push_back(file.stem().string());
    if (names.back() == name) found.push_back(file);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return fail(fmt::format("unknown {} '{}'{}", what, name, hint(name, names, folder)));
  std::string paths;
  for (const fs::path& file : found) paths += (paths.empty() ? "" : ", ") + file.string();
  return fail(fmt::format("more than one {} has the name '{}' (give the path: {})", what, name, paths));
}

Diagnostic about(const fs::path& path, std::string message) { return {path.string(), 0, "", "", std::move(message)}; }

}  // namespace

Result<fs::path> find_file(const std::string& name, const fs::path& folder, std::string_view what) {
  std::error_code code;
  if (fs::is_regular_file(name, code)) return fs::path(name);
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".json");
  if (!is_path) return find_by_name(name, folder, what);
  for (const std::string& below : {name, name + ".json"})  // "published/llama3-405b-16k" below the folder
    if (const fs::path file = folder / below; fs::is_regular_file(file, code)) return file;
  return fail(about(name, fs::is_directory(name, code) ? "is a folder, not a file" : "does not exist"));
}

Result<void> write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  return file.commit();
}

}  // namespace tracecast
