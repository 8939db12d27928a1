/// `tracecast scaling`: compute of a model and its tokens, compute-optimal sizes, days on a machine.
#include <array>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"
#include "sim/model/loss.hpp"
#include "sim/model/scaling.hpp"
#include "sim/network/cluster.hpp"
#include "sim/report/text.hpp"
#include "tools/command_rows.hpp"
#include "tools/environment.hpp"
#include "tools/named_files.hpp"
#include "tools/named_values.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

struct ScalingOptions {
  double parameters = 0;
  double tokens = 0;
  double flops = 0;
  std::string rule = "6nd";
  std::vector<std::string> topologies;
  std::vector<int> gpus;
  std::string dtype;
  bool modules = false;
  double days = 0;
  double utilisation = 0;
  std::string model;
  std::string loss;
  bool tables = false;
  bool json = false;
};

/// The compute budget and its source.
struct Question {
  double compute = 0;
  std::string how;
  ComputeRule rule = ComputeRule::six_nd;
  ModelBudget asked;          ///< zero when compute was given; with experts, the parameters that a token passes through
  double all_parameters = 0;  ///< of a model with experts; else 0
  std::optional<LossLaw> law;
  ModelBudget optimal;
  std::vector<DeviceGroup> devices;
  double dies = 1;             ///< devices of a module
  const char* device = "GPU";  ///< what --gpus counts
};

/// The GPU of a machine, or the module that has several of them (MI250X: two dies) if `modules`.
Result<Profile> read_gpu(const std::string& topology, bool modules) {
  const Result<Cluster> cluster = named_topology(topology);
  if (!cluster) return tl::unexpected(cluster.error());
  if (!modules) return named_profile(cluster->gpu);
  Result<Profile> module = named_profile(cluster->gpu + "-module");
  if (!module) return fail_key("--modules", topology, "has GPUs that are whole modules");
  return module;
}

/// The precision asked for, else 16 bit, else the first that the profile has.
Result<double> peak_of(const Profile& profile, const std::string& dtype) {
  std::vector<Precision> wanted = {Precision::bf16, Precision::fp16};
  if (!dtype.empty()) wanted = {values_by_name<Precision>().at(dtype)};
  for (const Precision precision : wanted)
    if (const auto peak = profile.peak_flops.find(precision); peak != profile.peak_flops.end()) return peak->second;
  if (!dtype.empty()) return fail_key("--dtype", dtype, fmt::format("has no peak rate on {}", profile.name));
  if (profile.peak_flops.empty()) return fail_key("--topology", profile.name, "has a GPU without a peak rate");
  return profile.peak_flops.begin()->second;
}

Result<std::vector<DeviceGroup>> read_devices(const ScalingOptions& options) {
  std::vector<DeviceGroup> devices;
  for (std::size_t i = 0; i < options.topologies.size(); ++i) {
    const Result<Profile> profile = read_gpu(options.topologies[i], options.modules);
    if (!profile) return tl::unexpected(profile.error());
    const Result<double> peak = peak_of(*profile, options.dtype);
    if (!peak) return tl::unexpected(peak.error());
    devices.push_back({profile->name, static_cast<double>(options.gpus[i]), *peak});
  }
  return devices;
}

/// GPUs of a module where the topology counts parts of modules; 1 elsewhere.
double dies_of_module(const ScalingOptions& options) {
  if (options.topologies.empty() || options.modules) return 1;
  const Result<Profile> die = read_gpu(options.topologies.front(), false);
  const Result<Profile> module = read_gpu(options.topologies.front(), true);
  const Result<double> of_die = die ? peak_of(*die, options.dtype) : 0.0;
  const Result<double> of_module = module ? peak_of(*module, options.dtype) : 0.0;
  return of_die && of_module && *of_die > 0 && *of_module > 0 ? *of_module / *of_die : 1;
}

/// A published law, or a JSON file with its coefficients: {"form": "additive", "irreducible": 1.7, …}.
Result<LossLaw> read_law(const std::string& name) {
  if (name == "chinchilla") return chinchilla_law();
  if (name == "kaplan") return kaplan_law();
  if (!name.ends_with(".json")) return fail_key("--loss", name, "is neither chinchilla nor kaplan nor a .json file");
  const Result<JsonDocument> document = read_json(name);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  ObjectReader reader(document->root, document->file, "", errors);
  LossLaw law{.name = name};
  reader.get("form", law.form, {{"additive", LossForm::additive}, {"nested", LossForm::nested}});
  if (law.form == LossForm::additive) reader.get("irreducible", law.irreducible);
  for (const auto& [key, value] : {std::pair{"parameters", &law.parameters}, std::pair{"tokens", &law.tokens},
                                   std::pair{"alpha", &law.alpha}, std::pair{"beta", &law.beta}}) {
    reader.get(key, *value);
    if (*value <= 0) reader.error(key, "must be above 0");
  }
  reader.finish();
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return law;
}

Result<Question> read_question(ScalingOptions options) {
  Question question;
  if (!options.model.empty()) {
    if (options.parameters > 0)
      return fail_key("--model", options.model, "has parameters; --parameters is one too many");
    const Result<Model> model = data_paths().and_then([&](const DataPaths& data) {
      return find_file(options.model, data.scenarios / "models", "model").and_then([](const auto& path) {
        return of_this_project(read_model(path), path, "a model");
      });
    });
    if (!model) return tl::unexpected(model.error());
    // A token's compute follows from the parameters that it passes through.
    options.parameters = static_cast<double>(active_parameters(*model));
    if (model->moe) question.all_parameters = static_cast<double>(parameter_count(*model).total());
  }
  if (!options.loss.empty()) {
    Result<LossLaw> law = read_law(options.loss);
    if (!law) return tl::unexpected(law.error());
    question.law = std::move(*law);
  }
  const bool sizes = options.parameters > 0;
  if (sizes == (options.flops > 0) || (!sizes && options.tokens > 0))
    return fail("give --parameters or --model (and --tokens), or --flops; see `tracecast scaling --help`");
  if (sizes) {
    if (options.rule == "5.7nd") question.rule = ComputeRule::fitted_5_7_nd;
    question.asked = {options.parameters,
                      options.tokens > 0 ? options.tokens : kChinchillaTokensPerParameter * options.parameters};
    question.compute = compute_of(question.asked.parameters, question.asked.tokens, question.rule);
    question.how = to_string(question.rule);
  } else {
    question.compute = options.flops;
    question.how = "given";
  }
  question.optimal = compute_optimal(question.compute, question.rule);
  if (options.topologies.empty()) return question;
  if (options.gpus.size() != options.topologies.size())
    return fail_key("--topology", fmt::format("{}", fmt::join(options.topologies, ",")),
                    options.gpus.empty() ? "needs --gpus" : "needs as many numbers of --gpus");
  if ((options.days > 0) == (options.utilisation > 0)) return fail("a machine needs either --days or --utilisation");
  Result<std::vector<DeviceGroup>> devices = read_devices(options);
  if (!devices) return tl::unexpected(devices.error());
  question.devices = std::move(*devices);
  question.dies = dies_of_module(options);
  if (options.modules) question.device = "module";
  return question;
}

double peak_of_all(const Question& question) {
  double peak = 0;
  for (const DeviceGroup& group : question.devices) peak += group.count * group.peak_flops;
  return peak;
}

double days_of(const Question& question, const ScalingOptions& options) {
  if (options.days > 0) return options.days;
  return days_at(question.compute, 1, options.utilisation * peak_of_all(question));
}

/// A line of its own below a share of the peak that no training reaches or stays below.
std::string warning(double utilisation) {
  return plausible(utilisation) ? "" : "\n  warning      training sustains 10 to 60 % of the peak";
}

/// The machine, and the rate that it has to sustain for so many days.
std::string machine_lines(const Question& question, double days) {
  const SustainedRate rate = sustained_rate(question.compute, days, question.devices);
  std::string text;
  for (const DeviceGroup& group : question.devices)
    text += fmt::format("  {:<11}  {:g} x {}, peak {:.4g} TFLOP/s each\n", text.empty() ? "machine" : "", group.count,
                        group.device, group.peak_flops * 1e-12);
  text +=
      fmt::format("  days         {:.4g}\n  rate         {:.4g} TFLOP/s per {}, {:.1f} % of the peak{}\n", days,
                  rate.flops_per_device * 1e-12, question.device, 100 * rate.utilisation, warning(rate.utilisation));
  if (question.dies > 1)
    text += fmt::format("  modules      these are dies, {:g} to a module; as modules (--modules): {:.1f} %\n",
                        question.dies, 100 * rate.utilisation / question.dies);
  if (question.devices.size() > 1) {
    const double equal = equal_work_peak(question.devices);
    text += fmt::format("  together     {:.4g} of {:.4g} PFLOP/s, if each GPU's batch is in proportion to its peak\n",
                        rate.flops * 1e-15, peak_of_all(question) * 1e-15);
    text += fmt::format("  equal work   all wait for the slowest GPU: {:.4g} PFLOP/s count, of which {:.1f} %{}\n",
                        equal * 1e-15, 100 * rate.flops / equal, warning(rate.flops / equal));
  }
  return text;
}

/// " active of 671 B": with experts, what a token passes through counts.
std::string active_of(const Question& question) {
  return question.all_parameters > 0 ? fmt::format(" active of {:.4g} B", question.all_parameters * 1e-9) : "";
}

/// "70 B", "15 T".
std::string amount(double count) {
  return count >= 1e12 ? fmt::format("{:.4g} T", count * 1e-12) : fmt::format("{:.4g} B", count * 1e-9);
}

std::string page(const Question& question, const ScalingOptions& options) {
  std::string text = fmt::format("  compute      {:.4g} FLOPs ({})\n", question.compute, question.how);
  if (question.asked.parameters > 0)
    text += fmt::format("  sizes        {} parameters{}, {} tokens{}\n", amount(question.asked.parameters),
                        active_of(question), amount(question.asked.tokens),
                        options.tokens > 0 ? "" : " (20 per parameter)");
  if (question.asked.parameters > 0)
    text += fmt::format("  ratio        {:.4g} tokens per parameter (compute-optimal: {:g})\n",
                        question.asked.tokens / question.asked.parameters, kChinchillaTokensPerParameter);
  text += fmt::format("  optimal      {} parameters and {} tokens take the same compute{}\n",
                      amount(question.optimal.parameters), amount(question.optimal.tokens),
                      question.law ? " (rule of thumb: 20 tokens per parameter)" : "");
  if (question.law) {
    const ModelBudget least = least_loss(*question.law, question.compute, question.rule);
    if (question.asked.parameters > 0)
      text += fmt::format("  loss         {:.4f} by {}\n", loss_of(*question.law, question.asked), question.law->name);
    text += fmt::format("  least loss   {:.4f} by {}: {} parameters, {} tokens{}\n", loss_of(*question.law, least),
                        question.law->name, amount(least.parameters), amount(least.tokens),
                        question.law->name == "chinchilla" ? " (the fit of approach 3)" : "");
  }
  if (!question.devices.empty()) text += machine_lines(question, days_of(question, options));
  if (options.utilisation > 0)
    text += "  note         the MFU of `predict` counts attention as well: entered here it gives too few days\n";
  return text;
}

/// Lines of a label and a text, wrapped to the terminal.
std::string wrapped(const std::string& lines, const TextStyle& style) {
  constexpr std::size_t kLabel = 15;
  std::string text;
  std::istringstream source(lines);
  for (std::string line; std::getline(source, line);)
    text += columns(line) <= style.width ? line + "\n" : paragraph(line.substr(0, kLabel), line.substr(kLabel), style);
  return text;
}

using Json = nlohmann::ordered_json;

Json sizes_json(const ModelBudget& budget) { return {{"parameters", budget.parameters}, {"tokens", budget.tokens}}; }

Json loss_json(const Question& question) {
  const ModelBudget least = least_loss(*question.law, question.compute, question.rule);
  Json json{{"law", question.law->name}};
  if (question.asked.parameters > 0) json["asked"] = loss_of(*question.law, question.asked);
  json["least"] = loss_of(*question.law, least);
  json.update(sizes_json(least));
  return json;
}

Json machine_json(const Question& question, double days) {
  const SustainedRate rate = sustained_rate(question.compute, days, question.devices);
  Json parts = Json::array();
  double gpus = 0;
  std::string names;
  for (const DeviceGroup& group : question.devices) {
    gpus += group.count;
    names += (names.empty() ? "" : " + ") + group.device;
    parts.push_back({{"gpu", group.device}, {"gpus", group.count}, {"peak_flops_per_s", group.peak_flops}});
  }
  const double equal = equal_work_peak(question.devices);
  return {{"gpu", names},
          {"gpus", gpus},
          {"days", days},
          {"flops_per_s", rate.flops},
          {"flops_per_s_per_gpu", rate.flops_per_device},
          {"utilisation", rate.utilisation},
          {"plausible", plausible(rate.utilisation)},
          {"dies_per_module", question.dies},
          {"equal_work", {{"peak_flops_per_s", equal}, {"utilisation", rate.flops / equal}}},
          {"parts", std::move(parts)}};
}

std::string json_answer(const Question& question, const ScalingOptions& options) {
  Json json{{"flops", question.compute}, {"rule", question.how}, {"optimal", sizes_json(question.optimal)}};
  if (question.asked.parameters > 0) json["asked"] = sizes_json(question.asked);
  if (question.all_parameters > 0) json["all_parameters"] = question.all_parameters;
  if (question.law) json["loss"] = loss_json(question);
  if (!question.devices.empty()) json["machine"] = machine_json(question, days_of(question, options));
  return json.dump(2) + "\n";
}

constexpr std::array<double, 2> kClaimedFlops = {3e24, 3e25};  ///< the lecture's estimate for GPT-4, and ten times that

double devices_of(const MachineClaim& claim) {
  double devices = 0;
  for (const DeviceGroup& group : claim.devices) devices += group.count;
  return devices;
}

/// The two tables of the lecture, with values derived from its numbers.
std::string tables(const TextStyle& style) {
  std::string text =
      fmt::format("{:<13} {:>8} {:>8} {:>6} {:>10} {:>10}\n", "model", "N (B)", "D (B)", "D/N", "5.7ND", "6ND");
  for (const auto& [name, budget] : published_budgets())
    text += fmt::format("{:<13} {:>8g} {:>8g} {:>6.2f} {:>10.3e} {:>10.3e}\n", name, budget.parameters * 1e-9,
                        budget.tokens * 1e-9, budget.tokens / budget.parameters,
                        compute_of(budget.parameters, budget.tokens, ComputeRule::fitted_5_7_nd),
                        compute_of(budget.parameters, budget.tokens, ComputeRule::six_nd));
  text += "N: parameters; D: tokens; both in billions (B); 5.7ND, 6ND: FLOPs by this rule\n";
  text += fmt::format("\n{:<13} {:>7} {:>4} {:>20} {:>20}\n", "machine", "devices", "days", "3e24 FLOPs", "3e25 FLOPs");
  std::string notes;
  for (const MachineClaim& claim : machine_claims()) {
    std::string line = fmt::format("{:<13} {:>7g} {:>4g}", claim.machine, devices_of(claim), claim.days);
    for (const double compute : kClaimedFlops) {
      const SustainedRate rate = sustained_rate(compute, claim.days, claim.devices);
      line += fmt::format(" {:>5.3g} TFLOP/s {:>4.1f} %{}", rate.flops_per_device * 1e-12, 100 * rate.utilisation,
                          plausible(rate.utilisation) ? " " : "!");
    }
    text += without_trailing_blanks(line) + "\n";
    if (!claim.note.empty()) notes += paragraph(pad_right(claim.machine, 14), claim.note, style);
  }
  return text +
         paragraph("", "each GPU or module: the rate that it needs for these FLOPs, and its share of the peak", style) +
         "! outside the 10 to 60 % of the peak that training sustains\n" + notes;
}

std::string tables_json() {
  Json models = Json::array();
  for (const auto& [name, budget] : published_budgets())
    models.push_back({{"model", name},
                      {"parameters", budget.parameters},
                      {"tokens", budget.tokens},
                      {"flops_5.7nd", compute_of(budget.parameters, budget.tokens, ComputeRule::fitted_5_7_nd)},
                      {"flops_6nd", compute_of(budget.parameters, budget.tokens, ComputeRule::six_nd)}});
  Json machines = Json::array();
  for (const MachineClaim& claim : machine_claims())
    for (const double compute : kClaimedFlops) {
      const SustainedRate rate = sustained_rate(compute, claim.days, claim.devices);
      machines.push_back({{"machine", claim.machine},
                          {"devices", devices_of(claim)},
                          {"days", claim.days},
                          {"flops", compute},
                          {"flops_per_s_per_device", rate.flops_per_device},
                          {"utilisation", rate.utilisation},
                          {"plausible", plausible(rate.utilisation)},
                          {"note", claim.note}});
    }
  return Json{{"models", std::move(models)}, {"machines", std::move(machines)}}.dump(2) + "\n";
}

Result<ExitCode> scaling(const ScalingOptions& options, const Context& context) {
  if (options.tables) {
    fmt::print("{}", options.json ? tables_json() : tables(context.style));
    return ExitCode::done;
  }
  const Result<Question> question = read_question(options);
  if (!question) return tl::unexpected(question.error());
  fmt::print("{}", options.json ? json_answer(*question, options) : wrapped(page(*question, options), context.style));
  return ExitCode::done;
}

Run add_scaling_options(CLI::App& app) {
  auto options = std::make_shared<ScalingOptions>();
  constexpr double kMaxBudget = 1e30;
  app.add_option("--parameters", options->parameters, "parameters of the model: 70B, 175e9")
      ->transform(count_up_to(kMaxBudget));
  app.add_option("--model", options->model, "a model file or the name of a shipped one, instead of --parameters")
      ->type_name("MODEL");
  app.add_option("--tokens", options->tokens, "tokens of the training: 15T, 300e9; default: 20 per parameter")
      ->type_name("TOKENS")
      ->transform(count_up_to(kMaxBudget));
  CLI::Option* flops = app.add_option("--flops", options->flops, "total FLOPs, instead of both");
  flops->check(in_range(1.0, kMaxBudget));
  app.add_option("--rule", options->rule, "rule for FLOPs from parameters and tokens")
      ->excludes(flops)
      ->check(one_of({"6nd", "5.7nd"}))
      ->capture_default_str();
  CLI::Option* topology =
      app.add_option("--topology", options->topologies,
                     "a machine, for days or the rate; several: abci-a,abci-v. The peaks of their GPUs count")
          ->type_name("LIST")
          ->delimiter(',');
  app.add_option("--gpus", options->gpus, "number of GPUs of that machine, or of each")
      ->needs(topology)
      ->delimiter(',')
      ->check(in_range(1, kMostGpus));
  app.add_option("--dtype", options->dtype, "the precision whose peak counts; default: 16 bit")
      ->needs(topology)
      ->check(one_of(names_of(values_by_name<Precision>())));
  app.add_flag("--modules", options->modules, "--gpus counts modules, where the machine's GPUs are dies (MI250X)")
      ->needs(topology);
  app.add_option("--days", options->days, "days of training; prints the required rate")
      ->needs(topology)
      ->check(in_range(1e-6, 1e9));
  app.add_option("--utilisation", options->utilisation, "share of the peak; prints the number of days")
      ->needs(topology)
      ->check(in_range(1e-6, 1.0));
  app.add_option("--loss", options->loss,
                 "also the loss by a scaling law: chinchilla, kaplan, or a JSON file with coefficients of your own")
      ->type_name("LAW");
  CLI::Option* tables =
      app.add_flag("--tables", options->tables, "tables of published models and machines, with derived numbers");
  for (CLI::Option* each : app.get_options())
    if (each != tables && each != app.get_help_ptr()) tables->excludes(each);
  app.add_flag("--json", options->json, "print one JSON object");
  return [options](const Context& context) { return scaling(*options, context); };
}

}  // namespace

const Command kScalingCommand{"scaling", "compute of a model and its tokens, compute-optimal sizes, days on a machine",
                              "scaling --parameters 175e9 --tokens 300e9 --topology dgx-a100 --gpus 1024 --days 34",
                              add_scaling_options};

}  // namespace tracecast::cli
