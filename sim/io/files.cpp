#include "sim/io/files.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/words.hpp"
#include "sim/io/atomic_file.hpp"
#include "sim/io/data_files.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

bool is_other_kind(const fs::path& folder) {
  constexpr std::array kFolders{"models", "stacks", "failures", "economics"};
  return std::ranges::find(kFolders, folder.filename().string()) != kFolders.end();
}

/// " (did you mean 'a'?)": the nearest name, else the names that contain the words, else all names if they are few, else
/// the command that lists them. `paths`: whether a path would do as well.
std::string hint(const std::string& name, const std::vector<std::string>& names, bool paths) {
  constexpr std::size_t kFew = 12;
  std::vector<std::string> containing = names_with(name, names);
  containing.erase(std::unique(containing.begin(), containing.end()), containing.end());
  if (containing.size() == 1) return fmt::format(" (did you mean '{}'?)", containing.front());
  if (!containing.empty()) return fmt::format(" (with it in their names: {})", fmt::join(containing, " "));
  const std::string nearest = nearest_match(name, names);
  if (!nearest.empty()) return fmt::format(" (did you mean '{}'?)", nearest);
  if (names.empty()) return "";
  if (names.size() <= kFew) return fmt::format(" (allowed: {}{})", fmt::join(names, " "), paths ? ", or a path" : "");
  return fmt::format(" ({}one of the {} that `tracecast list` shows)", paths ? "a path, or " : "", names.size());
}

Result<fs::path> find_by_name(const std::string& name, const fs::path& folder, std::string_view what, bool paths) {
  std::vector<fs::path> found;
  std::vector<std::string> names;
  for (const fs::path& file : data_files(folder)) {
    names.push_back(file.stem().string());
    if (names.back() == name) found.push_back(file);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return fail(fmt::format("unknown {} '{}'{}", what, name, hint(name, names, paths)));
  std::string all;
  for (const fs::path& file : found) all += (all.empty() ? "" : ", ") + file.string();
  return fail(fmt::format("more than one {} has the name '{}' (give the path: {})", what, name, all));
}

Diagnostic about(const fs::path& path, std::string message) { return {path.string(), 0, "", "", std::move(message)}; }

}  // namespace

std::vector<fs::path> data_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->is_directory(code) && is_other_kind(it->path())) it.disable_recursion_pending();
    if (it->is_regular_file(code) && it->path().extension() == ".json") files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> names_with(const std::string& words, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  const std::string wanted = lower_case(words);
  const std::vector<std::string_view> parts = split_words(wanted);
  const auto has_all = [&](const std::string& name) {
    const std::string lower = lower_case(name);
    return std::ranges::all_of(parts, [&](std::string_view part) { return lower.find(part) != std::string::npos; });
  };
  if (!parts.empty()) std::ranges::copy_if(names, std::back_inserter(found), has_all);
  return found;
}

Result<fs::path> find_file(const std::string& name, const fs::path& folder, std::string_view what) {
  std::error_code code;
  if (fs::is_regular_file(name, code)) return fs::path(name);
  if (name == "-" || (fs::exists(name, code) && fs::is_other(name, code)) || fs::is_fifo(name, code) ||
      fs::is_character_file(name, code))
    return fail(fmt::format("{}: is not a file; files are read more than once, so a pipe cannot be given", name));
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".json");
  if (!is_path) return find_by_name(name, folder, what, true);
  for (const std::string& below : {name, name + ".json"})  // "published/llama3-405b-16k" below the folder
    if (const fs::path file = folder / below; fs::is_regular_file(file, code)) return file;
  return fail(about(name, fs::is_directory(name, code) ? "is a folder, not a file" : "does not exist"));
}

Result<fs::path> find_named(const std::string& name, const fs::path& folder, std::string_view what) {
  return find_by_name(name, folder, what, false);
}

Result<void> write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  return file.commit();
}

}  // namespace tracecast
