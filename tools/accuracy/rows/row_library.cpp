#include "tools/accuracy/rows/row_library.hpp"

#include <set>

#include "sim/import/importers.hpp"
#include "tools/accuracy/rows/cell_words.hpp"
#include "tools/accuracy/rows/model_names.hpp"

namespace tracecast::accuracy {
Result<RowLibrary> RowLibrary::open(const DataPaths& data) {
  Result<std::vector<Stack>> stacks = read_stacks(data.scenarios / "stacks");
  if (!stacks) return tl::unexpected(stacks.error());
  RowLibrary library;
  library.data_ = data;
  library.stacks_ = std::move(*stacks);
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(data.scenarios / "models", code))
    library.models_.emplace(letters_and_digits(entry.path().stem().string()), entry.path());
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
  const auto file = models_.find(letters_and_digits(shipped_name(name)));
  if (file == models_.end()) return std::nullopt;
  const std::lock_guard lock(cache_->mutex);
  const auto found = cache_->models.find(file->second);
  if (found != cache_->models.end()) return found->second;
  Result<Model> model = read_model(file->second);
  return cache_->models.emplace(file->second, model ? std::optional(std::move(*model)) : std::nullopt).first->second;
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
  if (!is_shipped && !std::filesystem::exists(name, code))
    return fail({name, 0, "", "", "does not exist (allowed: a CSV file, or a name that `tracecast list runs` shows)"});
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
