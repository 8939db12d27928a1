#include "sim/io/output_folder.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace tracecast {
namespace fs = std::filesystem;

OutputFolder::OutputFolder(fs::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  for (fs::path at = folder_; !at.empty() && !fs::exists(at, ignored); at = at.parent_path()) created_ = at;
  fs::create_directories(folder_, ignored);
}

OutputFolder::~OutputFolder() {
  files_.clear();
  // Only folders that are empty now: another program may have written into them.
  std::error_code code;
  for (fs::path at = folder_; !created_.empty() && fs::remove(at, code) && at != created_; at = at.parent_path()) {
  }
}

AtomicFile& OutputFolder::file(const std::string& name) { return files_.emplace_back(folder_ / name); }

void OutputFolder::write(const std::string& name, std::string_view content) {
  AtomicFile& written = file(name);
  written.write(content);
  (void)written.finish();  // closed at once: a folder may get more files than a process may have open
}

bool OutputFolder::replaces(const fs::path& target) const {
  const auto place = [](const fs::path& path) { return fs::weakly_canonical(path); };
  return std::ranges::any_of(files_, [&](const AtomicFile& file) { return place(file.target()) == place(target); });
}

Result<void> OutputFolder::finish() {
  std::error_code ignored;
  if (!fs::is_directory(folder_, ignored))
    return fail({folder_.string(), 0, "", "", "is not a folder and cannot be created"});
  for (AtomicFile& file : files_)
    if (const Result<void> written = file.finish(); !written) return written;
  return {};
}

Result<void> OutputFolder::commit() {
  if (Result<void> finished = finish(); !finished) return finished;
  for (AtomicFile& file : files_)
    if (const Result<void> renamed = file.commit(); !renamed) return renamed;
  created_.clear();
  return {};
}

}  // namespace tracecast
