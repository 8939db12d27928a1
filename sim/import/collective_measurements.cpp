#include "sim/import/collective_measurements.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/cost/plausible.hpp"
#include "sim/cost/put_measured.hpp"
#include "sim/import/gpu_facts.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {
namespace {

/// Bytes per second that a GPU of this model can send to the others of its node; 0: not known.
double link_rate(const std::string& gpu) {
  const bool card = lower_case(gpu).find("pcie") != std::string::npos;  // its bridge has fewer links than a module
  const std::string model = lower_case(gpu_model(gpu));
  auto known = std::ranges::find(kGpuFacts, card ? model + "-pcie" : model, &GpuFacts::name);
  if (known == std::end(kGpuFacts)) known = std::ranges::find(kGpuFacts, model, &GpuFacts::name);
  return known == std::end(kGpuFacts) ? 0 : static_cast<double>(known->link.bytes_per_second) * known->links;
}

/// A switch that reduces (NVLS) lets an all-reduce send and receive its buffer once; every other transfer passes the links as
/// often as its bus bandwidth counts.
std::optional<std::string> above_links(const MeasuredCollective& measured, double links) {
  const double seconds = measured.seconds;
  const double algbw = static_cast<double>(measured.size.count) / seconds;
  const double busbw = bus_bandwidth(measured.collective, measured.ranks, measured.size, from_seconds(seconds));
  const double sent = measured.collective == Collective::all_reduce ? algbw : busbw;
  if (links == 0 || sent <= 1.02 * links) return std::nullopt;
  return fmt::format("takes {:.3f} us, which sends {:.1f} GB/s from each GPU (allowed: up to {:.0f}, its links)",
                     seconds * 1e6, sent * 1e-9, links * 1e-9);
}

}  // namespace

std::string to_csv(const CollectiveMeasurements& measurements, const std::string& topology) {
  const std::string machine = topology.empty() ? "" : topology + ",";
  std::string text = topology.empty() ? "" : "topology,";
  text += "collective,ranks,nodes,bytes,time_us,busbw_gb_s,spread,samples\n";
  for (const MeasuredCall& call : measurements.calls) {
    const MeasuredCollective& m = call.measured;
    text +=
        fmt::format("{}{},{},{},{},{:.3f},{:.3f},{:.4f},{}\n", machine, to_string(m.collective), m.ranks, call.nodes,
                    m.size.count, m.seconds * 1e6,
                    bus_bandwidth(m.collective, m.ranks, m.size, from_seconds(m.seconds)) * 1e-9, m.spread, m.samples);
  }
  return text;
}

Result<ProfileWithCollectives> with_collectives(Profile base, const CollectiveMeasurements& measurements,
                                                const Cluster* machine) {
  if (!may_be_same_gpu(measurements.gpu, base.gpu))
    return fail_key(
        "gpu", measurements.gpu,
        fmt::format("measured, but profile {} is of another GPU, {} (allowed: measurements of the same GPU)", base.name,
                    base.gpu));
  const double links = link_rate(base.gpu);
  const Bandwidth network = machine == nullptr ? Bandwidth{} : network_of_host(machine->node);
  ProfileWithCollectives result;
  for (const MeasuredCall& call : measurements.calls) {
    MeasuredCollective m = call.measured;
    const bool between = call.nodes > 1;
    if (between && (network.bytes_per_second <= 0 || m.ranks % call.nodes != 0)) {
      ++result.left_out;
      continue;
    }
    if (between)
      m.network = network;
    else if (machine != nullptr)
      m.network = link_of_gpu(machine->node);
    m.nodes = call.nodes;
    auto fault = why_impossible(base, m);
    if (!fault && m.ranks > 1 && !between) fault = above_links(m, links);
    if (fault)
      return fail_key(fmt::format("{} of {} bytes over {} ranks", to_string(m.collective), m.size.count, m.ranks), "",
                      *fault);
    put_measured(base, m);
    ++(between ? result.taken_between : result.taken);
  }
  result.profile = std::move(base);
  return result;
}

}  // namespace tracecast
