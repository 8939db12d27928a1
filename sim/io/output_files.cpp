#include "sim/io/output_files.hpp"

namespace tracecast {

void OutputFiles::write(const std::filesystem::path& path, std::string_view content) {
  files_.emplace_back(path).write(content);
}

Result<void> OutputFiles::commit() {
  for (const AtomicFile& each : files_)
    if (folder_ && folder_->replaces(each.target()))
      return fail({each.target().string(), 0, "", "", "is a file of the output folder, too: give another name"});
  if (folder_)
    if (Result<void> finished = folder_->finish(); !finished) return finished;
  for (AtomicFile& each : files_)
    if (Result<void> finished = each.finish(); !finished) return finished;
  if (folder_)
    if (Result<void> renamed = folder_->commit(); !renamed) return renamed;
  for (AtomicFile& each : files_)
    if (Result<void> renamed = each.commit(); !renamed) return renamed;
  return {};
}

}  // namespace tracecast
