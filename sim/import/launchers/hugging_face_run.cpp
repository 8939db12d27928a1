/// A model's config.json as the beginning of a scenario.
#include <array>

#include "sim/import/launchers/launcher_formats.hpp"
#include "sim/io/hugging_face.hpp"

namespace tracecast {

void import_hugging_face(RunImport& run) {
  if (!is_hugging_face(run.theirs()))
    return run.errors.push_back(
        {run.file(), 0, "model_type", "", "is missing: this is no config.json of Hugging Face"});
  const std::optional<Model> model = read_hugging_face(run.theirs(), run.file(), "", run.errors);
  if (model) run.put("model", parse_json(to_json(*model), run.file())->root);
  constexpr std::array<std::string_view, 1> kEverything{""};
  run.pass_over(kEverything);
}

}  // namespace tracecast
