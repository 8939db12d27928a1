#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/cost/power_limit.hpp"
#include "sim/cost/rated_precision.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"
#include "sim/io/length_file.hpp"
#include "sim/io/nearest_profiles.hpp"
#include "sim/io/overrides.hpp"
#include "sim/io/perturbation_fields.hpp"
#include "sim/io/scenario_document.hpp"
#include "sim/io/scenario_fields.hpp"
#include "sim/io/scenario_overrides.hpp"
#include "sim/io/stack.hpp"
#include "sim/network/rack_use.hpp"
#include "sim/network/sites.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/plan/training_checks.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

constexpr double kMostTokens = 1e15;  ///< as training.train_tokens

/// Reads one scenario: the document's groups, and the files that it refers to.
class ScenarioReader {
 public:
  ScenarioReader(const JsonDocument& document, const DataPaths& data, TopologyReader read_machine,
                 std::vector<Diagnostic>& errors)
      : folder_(fs::path(document.file).parent_path()), data_(&data), read_machine_(read_machine), errors_(&errors) {
    scenario_.name = fs::path(document.file).stem().string();
    scenario_.locations[""] = {document.file, 0, ""};
    remember_places(document.root, document.file, "");
    ObjectReader root(document.root, document.file, "", errors);
    if (is_model(document.root))
      errors.push_back(
          {document.file, 0, "", "",
           fmt::format("describes a model, not a scenario (a scenario with it: --set model={})", document.file)});
    else
      read(document.root, root);
  }
  Scenario& scenario() { return scenario_; }

 private:
  static bool is_model(const JsonNode& root) {
    const auto has = [&](const char* key) { return root.find(key) != nullptr; };
    return has("num_layers") && has("hidden_size") && !has("model") && !has("training") && !has("cluster");
  }

  void read(const JsonNode& node, ObjectReader& root) {
    read_fields(root, scenario_);
    if (root.get_node("model") != nullptr) read_model_of(root);
    begin_with_stack(root);
    if (std::optional<ObjectReader> parallel = root.get_object("parallel")) {
      read_fields(*parallel, scenario_.parallel);
      check_layout(*parallel);
      parallel->finish();
    }
    if (std::optional<ObjectReader> training = root.get_object("training")) read_training(*training);
    if (std::optional<ObjectReader> cluster = root.get_object("cluster")) read_cluster(*cluster);
    if (stack_) {
      drop_unfit_settings(scenario_);
      note_what_is_against_stack();
    }
    derive_degrees(scenario_);
    fill_shard_group();
    choose_racks(root);
    if (std::optional<ObjectReader> perturb = root.get_object("perturb")) read_perturb(*perturb);
    name_groups_of_keys(node, root);
    root.finish();
    if (errors_->empty()) prepare_profiles();
    if (!scenario_.locations.contains("training.fp8_transpose"))
      scenario_.training.fp8_transpose = !multiplies_fp8_either_way(scenario_.profile);
    check_attention_kernel(scenario_, *errors_);
    check_fp8_attention(scenario_, *errors_);
    drop_measurement(scenario_);
  }

  template <class Group>
  static bool has_key(std::string_view key) {
    return std::ranges::any_of(fields_of<Group>(), [key](const auto& field) { return field.key == key; });
  }

  /// Of a key that belongs to a group: "tp" is parallel.tp.
  void name_groups_of_keys(const JsonNode& node, ObjectReader& root) {
    for (const JsonMember& each : node.members) {
      const char* const group = has_key<Scenario>(each.key)      ? nullptr
                                : has_key<Parallel>(each.key)    ? "parallel"
                                : has_key<Training>(each.key)    ? "training"
                                : has_key<ClusterKeys>(each.key) ? "cluster"
                                                                 : nullptr;
      if (group == nullptr) continue;
      root.error(each.key, fmt::format("unknown key (did you mean '{}.{}'?)", group, each.key));
      errors_->back().value.clear();  // the error is in the key
      root.ignore(each.key);
    }
  }

  /// Keys of the scenario take precedence over the values of its stack.
  void begin_with_stack(ObjectReader& root) {
    std::string name;
    if (!root.get("stack", name) || name.empty()) return;
    scenario_.stack = name;
    const std::optional<fs::path> file = find(root, "stack", name, data_->scenarios / "stacks", "stack");
    if (!file) return;
    stack_.emplace();
    take(read_stack(*file), *stack_);
    scenario_.parallel = stack_->parallel;
    scenario_.training = stack_->training;
  }

  /// Resets settings of the stack that need tensor parallelism or experts, where there are none. Those of the scenario stay, and are
  /// errors of its plan.
  static void drop_unfit_settings(Scenario& scenario) {
    const auto is_of_stack = [&](const char* key) { return !scenario.locations.contains(key); };
    Parallel& p = scenario.parallel;
    if (p.tp == 1 && is_of_stack("parallel.sequence_parallel")) p.sequence_parallel = false;
    // Userbuffers need sequence parallelism.
    const bool overlaps =
        (p.tp == 1 || p.sequence_parallel) && recipes_overlap_tensor_ranks(scenario.model, scenario.training);
    if (!overlaps && is_of_stack("parallel.tp_comm_overlap")) p.tp_comm_overlap = false;
    const bool unless_told = rules_of(p).overlaps_unless_told.value_or(false);
    if (unless_told && is_of_stack("parallel.overlap_grad_reduce")) p.overlap_grad_reduce = true;
    if (unless_told && is_of_stack("parallel.overlap_param_gather")) p.overlap_param_gather = true;
    if (!takes_ddp_bucket_size(p) && is_of_stack("parallel.ddp_bucket_size")) p.ddp_bucket_size = 0;
    if (scenario.model.moe) return;
    if (is_of_stack("parallel.moe_dispatcher")) p.moe_dispatcher = Parallel{}.moe_dispatcher;
    if (is_of_stack("training.moe_dispatch_dtype"))
      scenario.training.moe_dispatch_dtype = Training{}.moe_dispatch_dtype;
    if (is_of_stack("training.expert_capacity_factor")) scenario.training.expert_capacity_factor = 0;
    if (is_of_stack("training.expert_capacity_padding")) scenario.training.expert_capacity_padding = false;
    if (is_of_stack("training.padded_experts")) scenario.training.padded_experts = false;
    if (is_of_stack("training.separate_expert_casts")) scenario.training.separate_expert_casts = false;
  }

  /// What the scenario would have of its stack alone is compared with what it has.
  void note_what_is_against_stack() {
    Scenario bare;
    bare.model = scenario_.model;
    bare.parallel = stack_->parallel;
    bare.parallel.tp = scenario_.parallel.tp;
    bare.training = stack_->training;
    bare.training.dtype = scenario_.training.dtype;
    drop_unfit_precision(*stack_, bare.training);
    drop_unfit_settings(bare);
    note_what_is_against_stack("parallel.", bare.parallel, scenario_.parallel);
    note_what_is_against_stack("training.", bare.training, scenario_.training);
  }

  template <class Group>
  void note_what_is_against_stack(const std::string& group, const Group& of_stack, const Group& own) {
    const JsonNode defaults = write_fields(Group{}, true);
    const JsonNode by_stack = write_fields(of_stack, true);
    const JsonNode set = write_fields(own, true);
    const auto text = [](const JsonNode& fields, const std::string& key) {
      const JsonNode* const value = fields.find(key);
      return value == nullptr ? std::string() : value->setting_text();
    };
    for (const JsonMember& each : defaults.members) {
      const std::string usual = each.value.setting_text();
      if (text(set, each.key) == usual && text(by_stack, each.key) != usual)
        scenario_.against_stack.insert(group + each.key);
    }
  }

  void read_model_of(ObjectReader& root) {
    const JsonNode& node = *root.get_node("model");
    if (node.kind == JsonNode::Kind::string) {
      if (const std::optional<fs::path> file = find(root, "model", node.string, data_->scenarios / "models", "model"))
        take(read_model(*file), scenario_.model);
    } else if (node.kind != JsonNode::Kind::object) {
      root.error("model", "is not the name of a model, an object or {\"hf_config\": path}");
    } else if (node.find("hf_config") != nullptr) {
      ObjectReader reference = *root.get_object("model");
      std::string name;
      if (reference.get("hf_config", name))
        if (const std::optional<fs::path> file = find(reference, "hf_config", name, folder_, "model"))
          take(read_model(*file), scenario_.model);
      reference.finish();
    } else if (std::optional<Model> model = read_model(node, root.file(), "model", *errors_)) {
      scenario_.model = std::move(*model);
      if (scenario_.model.name.empty()) scenario_.model.name = scenario_.name;
    }
  }

  void check_layout(ObjectReader& parallel) const {
    for (const int layers : scenario_.parallel.pp_layout) {
      if (layers >= 0) continue;
      parallel.error("pp_layout", fmt::format("has a stage of {} layers", layers));
      return;
    }
  }

  /// Before `perturb`, which numbers the NICs and GPUs of the nodes in use.
  void choose_racks(ObjectReader& root) {
    const JsonNode* perturb = root.get_node("perturb");
    const bool missing_gpus = perturb != nullptr && perturb->find("missing_gpus") != nullptr;
    if (errors_->empty() && !(missing_gpus && scenario_.gpus_per_rack == 0))
      use_racks(scenario_.cluster, scenario_.parallel, scenario_.gpus_per_rack);
    divide_into_sites(root, missing_gpus);
  }

  void fill_shard_group() {
    Parallel& p = scenario_.parallel;
    if (p.shard_group == 0)
      p.shard_group = shard_group_of_host(p, scenario_.cluster.node.gpus_per_host, scenario_.cluster.world_size);
  }

  void read_training(ObjectReader& training) {
    read_fields(training, scenario_.training);
    for (const auto& [key, old_name] : training.old_names())
      scenario_.notes.push_back(fmt::format("training.{} is now called training.{}", old_name, key));
    if (stack_) drop_unfit_precision(*stack_, scenario_.training);
    count_epochs(training);
    if (const std::string less = less_than_a_step(scenario_.training, scenario_.training.train_tokens); !less.empty())
      training.error("train_tokens", less);
    read_lengths(training);
    training.finish();
  }

  /// The file of lengths becomes the histogram.
  void read_lengths(ObjectReader& training) {
    if (!scenario_.training.documents || scenario_.training.documents->file.empty()) return;
    Documents& documents = *scenario_.training.documents;
    ObjectReader reader = *training.get_object("documents");
    if (!documents.histogram.empty()) return reader.error("file", "is given besides a histogram");
    std::error_code code;
    const fs::path beside = folder_ / documents.file;
    const fs::path file = fs::exists(beside, code) ? beside : fs::path(documents.file);
    if (!fs::exists(file, code)) return reader.error("file", "does not exist");
    take(read_length_histogram(file), documents.histogram);
    documents.law = LengthLaw::histogram;
    documents.file.clear();
  }

  /// A data set and its epochs are a number of tokens. A file that this program wrote has both.
  void count_epochs(ObjectReader& training) {
    Training& t = scenario_.training;
    if (t.dataset_samples == 0) return;
    const auto tokens =
        static_cast<double>(t.dataset_samples) * static_cast<double>(t.epochs) * static_cast<double>(t.seq_length);
    if (tokens > kMostTokens) {
      training.error("epochs", fmt::format("make {:.3g} tokens (allowed: at most {:.0e})", tokens, kMostTokens));
    } else if (t.train_tokens != 0 && static_cast<double>(t.train_tokens) != tokens) {
      training.error("train_tokens", fmt::format("contradicts dataset_samples x epochs x seq_length = {:.0f}", tokens));
    } else {
      t.train_tokens = t.dataset_samples * t.epochs * t.seq_length;
    }
  }

  void read_cluster(ObjectReader& reader) {
    Cluster& cluster = scenario_.cluster;
    if (const JsonNode* name = reader.get_node("topology"); name != nullptr && name->kind == JsonNode::Kind::string)
      if (const std::optional<fs::path> file = find(reader, "topology", name->string, data_->topologies, "topology")) {
        take(read_machine_ != nullptr ? read_machine_(*file, &scenario_.notes) : read_topology(*file), cluster);
        scenario_.topology_file = *file;
      }
    ClusterKeys keys;
    read_fields(reader, keys);
    if (std::string profile; reader.get("profile", profile) && profile.empty())
      reader.error("profile",
                   "is empty (allowed: the name or path of a profile; without the key, that of the topology)");
    scenario_.topology = keys.topology;
    scenario_.profile_name = keys.profile;
    scenario_.gpus_per_rack = keys.gpus_per_rack.value_or(0);
    cluster.world_size = keys.world_size;
    cluster.backend = keys.backend;
    cluster.routing = keys.routing;
    cluster.routing_seed = keys.routing_seed.value_or(cluster.routing_seed);
    if (keys.routing_seed && keys.routing != RoutingPolicy::ecmp)
      reader.error("routing_seed", "needs cluster.routing = ecmp");
    read_sites(reader, keys);
    check_size(reader, keys.gpus_per_rack.has_value());
    if (!keys.profile.empty()) {
      if (const auto file = find(reader, "profile", keys.profile, data_->profiles, "profile"))
        take(read_profile(*file), scenario_.profile);
      if (std::string note = limit_pcie(cluster.node, scenario_.profile); !note.empty())
        scenario_.notes.push_back(std::move(note));
    } else if (!cluster.gpu.empty()) {
      if (const Result<fs::path> file = find_file(cluster.gpu, data_->profiles, "profile"))
        take(read_profile(*file), scenario_.profile);
      else
        reader.error("topology", without_profile(cluster.gpu));
    }
    has_gpu_spread_ = keys.gpu_spread.has_value();
    scenario_.gpu_spread = keys.gpu_spread.value_or(0);
    scenario_.power_limit = keys.power_limit;
    read_rack_power(reader, keys);
    reader.finish();
  }

  /// What a rack may draw decides what its GPUs may draw.
  void read_rack_power(ObjectReader& reader, const ClusterKeys& keys) {
    if (!keys.rack_watts && !keys.rack_hosts) return;
    const NodeSpec& node = scenario_.cluster.node;
    if (!keys.rack_watts) return reader.error("rack_hosts", "needs cluster.rack_watts");
    if (!keys.rack_hosts) return reader.error("rack_watts", "needs cluster.rack_hosts");
    if (keys.power_limit != 1) return reader.error("rack_watts", "also sets power_limit (give one of the two)");
    if (node.gpu_watts == 0 || node.host_watts == 0)
      return reader.error(
          "rack_watts", fmt::format("needs node.gpu_watts and node.host_watts of the topology {}", scenario_.topology));
    scenario_.rack_watts = *keys.rack_watts;
    scenario_.rack_hosts = *keys.rack_hosts;
    const RackPower rack{*keys.rack_watts, *keys.rack_hosts, node.gpus_per_host, node.gpu_watts, node.host_watts};
    const double limit = limit_in_rack(rack);
    if (limit < kLeastPowerLimit)
      return reader.error("rack_watts",
                          fmt::format("leaves each GPU {:.3g} % of its {:g} W (allowed: at least {:.0f} W, which "
                                      "leave {:.0f} %)",
                                      100 * std::max(0.0, limit), node.gpu_watts, watts_for(rack, kLeastPowerLimit),
                                      100 * kLeastPowerLimit));
    scenario_.power_limit = std::min(1.0, limit);
  }

  static std::string without_profile(const std::string& gpu) {
    const std::string nearest = nearest_profiles(gpu);
    return fmt::format(
        "has GPUs without a profile, '{}': give cluster.profile ({}), or a file: a copy with the peaks of its data "
        "sheet, or "
        "what tracecast profile records on it (docs/adding.md#a-gpu)",
        gpu, nearest.empty() ? "tracecast list gpus" : "nearest: " + nearest);
  }

  /// Their tier is added when the racks are known (choose_racks).
  void read_sites(ObjectReader& reader, const ClusterKeys& keys) {
    const bool links = keys.wan_rate && keys.wan_latency;
    const int sites = keys.sites.value_or(1);
    if (sites > 1 && !links)
      reader.error("sites", "needs cluster.wan_rate and cluster.wan_latency, the links between the sites");
    if (!keys.sites && keys.wan_rate) reader.error("wan_rate", "needs cluster.sites");
    if (!keys.sites && keys.wan_latency) reader.error("wan_latency", "needs cluster.sites");
    if (sites == 1 || !links) return;
    scenario_.cluster.sites = {sites, *keys.wan_rate, *keys.wan_latency};
    scenario_.cluster.max_nodes *= sites;  // each has a machine of its own
  }

  void divide_into_sites(ObjectReader& root, bool missing_gpus) {
    const Sites sites = scenario_.cluster.sites;
    if (sites.count == 1 || !errors_->empty()) return;
    ObjectReader cluster = *root.get_object("cluster");
    if (missing_gpus) return cluster.error("sites", "needs whole nodes (without perturb.missing_gpus)");
    if (const std::string error = sites_error(scenario_.cluster, sites); !error.empty())
      return cluster.error("sites", error);
    use_sites(scenario_.cluster, sites);
  }

  void check_size(ObjectReader& reader, bool has_gpus_per_rack) {
    const Cluster& cluster = scenario_.cluster;
    const std::int64_t most = static_cast<std::int64_t>(cluster.max_nodes) * cluster.node.gpus;
    if (most > 0 && cluster.world_size > most)
      reader.error("world_size", fmt::format("is more than {} has (allowed: 1 to {})", scenario_.topology, most));
    if (errors_->empty())
      for (const ImpossibleValue& each : impossible_values(cluster)) reader.error("world_size", each.message);
    if (!has_gpus_per_rack) return;
    const std::string error =
        gpus_per_rack_error(cluster.node, cluster.max_nodes, cluster.world_size, scenario_.gpus_per_rack);
    if (!error.empty()) reader.error("gpus_per_rack", error);
  }

  /// For every GPU of the job. Where ranks have individual speeds, the slowest is already one of them.
  void prepare_profiles() {
    Scenario& s = scenario_;
    if (!has_gpu_spread_) s.gpu_spread = s.perturbation.speed_spread > 0 ? 0 : kGpuSpread;
    const auto prepare = [&](Profile& profile) {
      prepare_profile(profile, stack_ ? &*stack_ : nullptr, s.model.moe.has_value(), std::max(1, s.cluster.world_size),
                      s.gpu_spread);
      if (stack_) set_host_precision(*stack_, s.model, s.training.dtype, profile);
      profile.clock = clock_at_power(s.power_limit);
    };
    prepare(s.profile);
    for (Perturbation::OtherGpus& other : s.perturbation.gpus) prepare(other.profile);
  }

  void read_perturb(ObjectReader& perturb) {
    read_perturbation(perturb, scenario_,
                      [this](ObjectReader& reader, const std::string& key, const std::string& name, Profile& profile) {
                        const std::optional<fs::path> file = find(reader, key, name, data_->profiles, "profile");
                        const std::size_t before = errors_->size();
                        if (file) take(read_profile(*file), profile);
                        return file && errors_->size() == before;
                      });
  }

  /// The file that `name` under `key` means: a path relative to the scenario, or a name in `folder`.
  std::optional<fs::path> find(ObjectReader& reader, const std::string& key, const std::string& name,
                               const fs::path& folder, std::string_view what) const {
    std::error_code code;
    const bool is_path = name.find('/') != std::string::npos || fs::path(name).has_extension();
    if (is_path && fs::is_regular_file(folder_ / name, code)) return folder_ / name;
    if (Result<fs::path> file = find_file(name, folder, what))
      return *file;
    else
      reader.error(key, file.error().diagnostics.front().message);
    return std::nullopt;
  }

  /// Moves the value into `target`, or its errors into the common list.
  template <class T>
  void take(Result<T> result, T& target) {
    if (result) {
      target = std::move(*result);
    } else {
      errors_->insert(errors_->end(), result.error().diagnostics.begin(), result.error().diagnostics.end());
    }
  }

  void remember_places(const JsonNode& node, const std::string& file, const std::string& path) {
    for (const auto& [name, value] : node.members) {
      const std::string key = path.empty() ? name : path + "." + name;
      const bool overridden = value.line == kOverrideLine;
      scenario_.locations[key] = {overridden ? kOverrides : file, overridden ? 0 : value.line, value.text()};
      remember_places(value, file, key);
    }
  }

  fs::path folder_;
  const DataPaths* data_;
  TopologyReader read_machine_;
  std::vector<Diagnostic>* errors_;
  std::optional<Stack> stack_;
  bool has_gpu_spread_ = false;
  Scenario scenario_;
};

void set_lines(JsonNode& node, int line) {
  node.line = line;
  for (JsonNode& item : node.items) set_lines(item, line);
  for (JsonMember& member : node.members) set_lines(member.value, line);
}

/// Replaces the name of a shipped model by its keys if overrides change some of them: "model.num_layers=100".
void write_out_model(JsonNode& root, const DataPaths& data, const std::vector<std::string>& overrides) {
  const auto below_model = [](const std::string& text) { return text.starts_with("model."); };
  const JsonNode* model = root.find("model");
  if (model == nullptr || model->kind != JsonNode::Kind::string || std::ranges::none_of(overrides, below_model)) return;
  const Result<fs::path> file = find_file(model->string, data.scenarios / "models", "model");
  if (!file) return;  // the reader of the scenario reports this
  Result<JsonDocument> document = read_json(*file);
  if (!document || document->root.kind != JsonNode::Kind::object) return;
  JsonNode name = *model;
  JsonNode& written = member_of(root, "model");
  written = std::move(document->root);
  if (written.find("name") == nullptr) written.members.push_back({"name", name});
  set_lines(written, name.line);
}

}  // namespace

Result<Scenario> read_scenario(const JsonDocument& document, const DataPaths& data, TopologyReader read_machine) {
  std::vector<Diagnostic> errors;
  ScenarioReader reader(document, data, read_machine, errors);
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return std::move(reader.scenario());
}

Result<Scenario> read_scenario(const fs::path& path, const DataPaths& data, const std::vector<std::string>& overrides) {
  return read_scenario(path, data, overrides, nullptr);
}

Result<Scenario> read_scenario(const fs::path& path, const DataPaths& data, const std::vector<std::string>& overrides,
                               TopologyReader read_machine) {
  Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  write_out_model(document->root, data, overrides);
  apply_overrides(document->root, overrides, errors);
  ScenarioReader reader(*document, data, read_machine, errors);
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return std::move(reader.scenario());
}

}  // namespace tracecast
