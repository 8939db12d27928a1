#include "tools/accuracy/row_library.hpp"

#include <cctype>
#include <set>

#include "sim/import/importers.hpp"

namespace tracecast::accuracy {

Result<RowLibrary> RowLibrary::open(const DataPaths& data) {
  Result<std::vector<Stack>> stacks = read_stacks(data.scenarios / "stacks");
  if (!stacks) return tl::unexpected(stacks.error());
  RowLibrary library;
  library.data_ = data;
  library.stacks_ = std::move(*stacks);
  return library;
}

Result<Cluster> RowLibrary::topology(const std::string& name) const {
  const std::lock_guard lock(cache_->mutex);
  const auto found = cache_->topologies.find(name);
  if (found != cache_->topologies.end()) return found->second;
  return cache_->topologies.emplace(name, read_topology(data_.topologies / (name + ".json"))).first->second;
}

Result<Profile> RowLibrary::profile(const std::string& name) const {
  const std::lock_guard lock(cache_->mutex);
  const auto found = cache_->profiles.find(name);
  if (found != cache_->profiles.end()) return found->second;
  const std::filesystem::path file =
      name.ends_with(".json") ? std::filesystem::path(name) : data_.profiles / (name + ".json");
  return cache_->profiles.emplace(name, read_profile(file)).first->second;
}

std::optional<Model> RowLibrary::model(const std::string& name) const {
  std::string file;
  for (const char letter : name) file += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  std::error_code code;
  const std::filesystem::path path = data_.scenarios / "models" / (file + ".json");
  if (name.empty() || name.find('/') != std::string::npos || !std::filesystem::exists(path, code)) return std::nullopt;
  Result<Model> model = read_model(path);
  return model ? std::optional(std::move(*model)) : std::nullopt;
}

RowLibrary RowLibrary::with_stacks(const std::function<void(Stack&)>& change) const {
  RowLibrary other = *this;
  for (Stack& stack : other.stacks_) change(stack);
  return other;
}

Result<CsvTable> read_run_table(const DataPaths& data, const std::string& name) {
  std::error_code code;
  const std::filesystem::path shipped = data.scenarios / "runs" / (name + ".csv");
  const bool is_shipped = !std::filesystem::exists(name, code) && std::filesystem::exists(shipped, code);
  Result<CsvTable> table = CsvTable::read(is_shipped ? shipped : std::filesystem::path(name));
  if (!table || !table->has("id"))
    if (const auto foreign = fault_of_foreign(name, "a table of runs")) return fail(*foreign);
  std::set<std::string> ids;
  for (std::size_t row = 0; table && table->has("id") && row < table->rows(); ++row)
    if (const std::string id = table->text(row, "id"); !id.empty() && !ids.insert(id).second)
      return fail({name, 0, "id", id, "occurs in two rows"});
  return table;
}

}  // namespace tracecast::accuracy
