#include "kernels/cuda/rendezvous.hpp"

#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "tracer/rank_variables.hpp"

namespace tracecast::cuda {
namespace {

Result<int> variable(const Environment& environment, const char* name, int otherwise) {
  const char* const text = environment(name);
  if (text == nullptr) return otherwise;
  const std::optional<int> value = parse_number<int>(text);
  if (!value || *value < 0) return fail(fmt::format("{} = {}: not a number of ranks", name, text));
  return *value;
}

Result<JobRank> job_rank_of(const Environment& environment, const RankVariables& launcher) {
  const Result<int> rank = variable(environment, launcher.rank, 0);
  const Result<int> ranks = variable(environment, launcher.ranks, 1);
  for (const Result<int>* each : {&rank, &ranks})
    if (!*each) return tl::unexpected(each->error());
  const Result<int> local = variable(environment, launcher.local_rank, *rank);
  if (!local) return tl::unexpected(local.error());
  if (*rank >= *ranks)
    return fail(fmt::format("{} = {}: must be below {} = {}", launcher.rank, *rank, launcher.ranks, *ranks));
  return JobRank{*rank, *ranks, *local};
}

std::filesystem::path place(const std::filesystem::path& folder, const std::string& name, int rank) {
  return folder / fmt::format("{}.{}", name, rank);
}

}  // namespace

Result<JobRank> job_rank_from(const Environment& environment, int expected) {
  if (expected == 1) return JobRank{};
  Result<JobRank> self = JobRank{};
  for (const RankVariables& launcher : kMpiLaunchers)
    if (environment(launcher.rank) != nullptr && environment(launcher.ranks) != nullptr) {
      self = job_rank_of(environment, launcher);
      break;
    }
  if (self && expected > 1 && self->ranks != expected)
    return fail(fmt::format("{} ranks were started, and the launcher's variables say {}", expected, self->ranks));
  return self;
}

Result<void> Rendezvous::publish(const std::string& name, const std::string& bytes) const {
  const std::filesystem::path path = place(folder_, name, self_.rank);
  std::filesystem::path partial = path;
  partial += ".partial";
  std::ofstream file(partial, std::ios::binary);
  file << bytes;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(partial, path, error);
  if (!file || error) return fail(fmt::format("{}: cannot be written", path.string()));
  return {};
}

Result<std::string> Rendezvous::fetch(const std::string& name, int rank, std::chrono::milliseconds timeout) const {
  const std::filesystem::path path = place(folder_, name, rank);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!std::filesystem::exists(path)) {
    if (std::chrono::steady_clock::now() > deadline)
      return fail(fmt::format("{}: rank {} did not arrive within {} s", path.string(), rank,
                              std::chrono::duration_cast<std::chrono::seconds>(timeout).count()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

Result<std::vector<std::string>> Rendezvous::gather_at_root(const std::string& name, const std::string& own) const {
  std::vector<std::string> all{own};
  if (self_.ranks == 1) return all;
  if (self_.rank != 0) {
    if (const Result<void> published = publish(name, own); !published) return tl::unexpected(published.error());
    return std::vector<std::string>{};
  }
  for (int rank = 1; rank < self_.ranks; ++rank) {
    Result<std::string> theirs = fetch(name, rank);
    if (!theirs) return tl::unexpected(theirs.error());
    all.push_back(std::move(*theirs));
  }
  return all;
}

}  // namespace tracecast::cuda
