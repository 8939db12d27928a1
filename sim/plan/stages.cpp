#include "sim/plan/stages.hpp"

#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/plan/plan_check.hpp"

namespace tracecast {
namespace {

std::string layers_name(const Model& model) {
  return model.encoder_layers > 0 ? "model.encoder_layers + num_layers" : "model.num_layers";
}

/// Numbers the layers through and marks the ends of the model.
std::vector<Stage> number_layers(const std::vector<int>& layers) {
  std::vector<Stage> stages;
  stages.reserve(layers.size());
  int first = 0;
  for (const int count : layers) {
    stages.push_back({first, count, false, false});
    first += count;
  }
  stages.front().embedding = true;
  stages.back().head = true;
  return stages;
}

Result<std::vector<Stage>> stages_of_layout(const Model& model, const Parallel& parallel) {
  const std::vector<int>& layout = parallel.pp_layout;
  const std::int64_t stages = std::int64_t{parallel.pp} * parallel.vpp;
  const std::string value = fmt::format("[{}]", fmt::join(layout, ", "));
  const auto fault = [&](std::string message) { return fail_key("parallel.pp_layout", value, std::move(message)); };
  if (static_cast<std::int64_t>(layout.size()) != stages) {
    return fault(
        fmt::format("has {} entries, not one for each of the pp x vpp = {} virtual stages", layout.size(), stages));
  }
  for (std::size_t i = 0; i < layout.size(); ++i)
    if (layout[i] < 0)
      return fault(fmt::format("gives {} layers to virtual stage {} (allowed: at least 0)", layout[i], i));
  const std::int64_t sum = std::accumulate(layout.begin(), layout.end(), std::int64_t{0});
  if (sum != model.layers()) {
    return fault(fmt::format("sums to {} layers, not {} = {}", sum, layers_name(model), model.layers()));
  }
  return number_layers(layout);
}

/// Names the degree that is to blame: vpp when pp alone would divide, pp otherwise.
tl::unexpected<Error> does_not_divide(const Model& model, const Parallel& parallel, int extra, int items) {
  const bool vpp = parallel.vpp > 1 && items % parallel.pp == 0;
  const std::string counted = extra == 2                       ? " + embedding + loss"
                              : extra == 0                     ? ""
                              : parallel.account_for_embedding ? " + embedding"
                                                               : " + loss";
  const std::string whole = fmt::format("{}{} = {}", layers_name(model), counted, items);
  const std::string advice = extra == 2 ? "give parallel.pp_layout"
                                        : "give parallel.pp_layout, or set account_for_embedding and account_for_loss";
  if (vpp) {
    return fail_key("parallel.vpp", fmt::to_string(parallel.vpp),
                    fmt::format("does not divide the {} layers of a pipeline rank, {} / pp {} (allowed: {}; or {})",
                                items / parallel.pp, whole, parallel.pp, divisors(items / parallel.pp), advice));
  }
  return fail_key("parallel.pp", fmt::to_string(parallel.pp),
                  fmt::format("does not divide {} (allowed: {}; or {})", whole, divisors(items), advice));
}

tl::unexpected<Error> too_few(const Model& model, std::int64_t stages, int items) {
  return fail_key("parallel.pp", "",
                  fmt::format("pp x vpp = {} virtual stages are more than {} = {} can fill (at most {})", stages,
                              layers_name(model), model.layers(), items));
}

}  // namespace

Result<std::vector<Stage>> cut_stages(const Model& model, const Parallel& parallel) {
  if (!parallel.pp_layout.empty()) return stages_of_layout(model, parallel);
  const std::int64_t stages = std::int64_t{parallel.pp} * parallel.vpp;
  const int extra = (parallel.account_for_embedding ? 1 : 0) + (parallel.account_for_loss ? 1 : 0);
  const int items = model.layers() + extra;
  if (stages > items) return too_few(model, stages, items);
  if (items % stages != 0 && extra < 2) return does_not_divide(model, parallel, extra, items);
  const int per_stage = items / static_cast<int>(stages);
  std::vector<int> layers(static_cast<std::size_t>(stages), per_stage);
  for (int i = 0; i < items % stages; ++i) ++layers[static_cast<std::size_t>(i)];
  if (parallel.account_for_embedding) --layers.front();
  if (parallel.account_for_loss) --layers.back();
  return number_layers(layers);
}

}  // namespace tracecast
