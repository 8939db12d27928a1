/// The module libtracecast_simgrid.so: the simulation itself. The only file that includes SimGrid, and the only one linked
/// with it: libsimgrid has functions of MPI's names (its SMPI), which would take the place of MPI's in a program with both.
/// Nothing of the simulator is linked in: it needs what the headers hold, and the driver that it is given.
#include "sim/network/simgrid_module.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <simgrid/s4u.hpp>

namespace tracecast {
namespace {

namespace s4u = simgrid::s4u;

/// The network for the driving actor.
class Driven final : public FlowNetwork {
 public:
  Driven(const SimGridNetwork& network, const std::vector<s4u::Host*>& hosts) : network_(network), hosts_(hosts) {}

  void start(std::int32_t transfer, std::int32_t kind, Duration at) override {
    ++in_flight_;
    s4u::Actor::create("transfer", hosts_.front(), [this, transfer, kind, at] {
      s4u::this_actor::sleep_until(seconds(at));
      move(network_.kinds()[static_cast<std::size_t>(kind)]);
      ended_.push_back(transfer);
      news_->release();
    });
  }

  using FlowNetwork::advance;
  bool advance(Duration& now, std::vector<std::int32_t>& ended, Duration limit) override {
    ended.clear();
    if (in_flight_ == 0) return false;
    while (next_ == ended_.size()) {
      if (limit != kNoLimit) {
        if (s4u::Engine::get_clock() >= seconds(limit)) return false;
        wake_at(seconds(limit));
      }
      news_->acquire();
    }
    ended.push_back(ended_[next_++]);
    --in_flight_;
    now = std::min(from_seconds(s4u::Engine::get_clock()), limit);
    return true;
  }

 private:
  /// Wakes the driver at `time`, unless it will be woken before. In place of Semaphore::acquire_timeout(): after a timeout
  /// SimGrid 3.32 let later acquisitions through too early.
  void wake_at(double time) {
    if (!alarms_.empty() && *alarms_.begin() <= time) return;
    alarms_.insert(time);
    s4u::Actor::create("alarm", hosts_.front(), [this, time] {
      s4u::this_actor::sleep_until(time);
      alarms_.erase(time);
      news_->release();
    });
  }

  void move(const SimGridNetwork::Kind& kind) {
    for (const SimGridNetwork::Round& round : kind.rounds)
      for (std::int64_t repeat = 0; repeat < round.count; ++repeat) {
        if (kind.round_latency_s > 0) s4u::this_actor::sleep_for(kind.round_latency_s);
        post(round);
      }
  }

  void post(const SimGridNetwork::Round& round) {
    std::vector<s4u::CommPtr> flows;
    flows.reserve(round.flows.size());
    for (const SimGridNetwork::Flow& flow : round.flows) {
      const s4u::CommPtr comm = s4u::Comm::sendto_init();
      comm->set_payload_size(static_cast<std::uint64_t>(flow.bytes));
      comm->set_source(hosts_[static_cast<std::size_t>(flow.source)]);
      comm->set_destination(hosts_[static_cast<std::size_t>(flow.target)]);  // starts it
      flows.push_back(comm);
    }
    for (const s4u::CommPtr& flow : flows) flow->wait();
  }

  const SimGridNetwork& network_;
  const std::vector<s4u::Host*>& hosts_;
  s4u::SemaphorePtr news_ = s4u::Semaphore::create(0);  ///< released whenever there may be something to return
  std::set<double> alarms_;
  std::vector<std::int32_t> ended_;
  std::size_t next_ = 0;
  std::int64_t in_flight_ = 0;
};

void configure() {
  using Setting = std::pair<const char*, const char*>;
  for (const auto& [key, value] : {Setting{"network/model", "CM02"}, Setting{"network/latency-factor", "1"},
                                   Setting{"network/bandwidth-factor", "1"}, Setting{"network/crosstraffic", "0"},
                                   Setting{"network/TCP-gamma", "0"}, Setting{"network/weight-S", "0"},
                                   Setting{"surf/precision", "1e-12"}, Setting{"maxmin/precision", "1e-12"},
                                   Setting{"contexts/stack-size", "128"}})  // KiB; every transfer is an actor
    s4u::Engine::set_config(std::string(key) + ":" + value);
}

std::vector<s4u::Host*> build_platform(const SimGridNetwork& network) {
  s4u::NetZone* world = s4u::create_full_zone("world");
  std::vector<s4u::Host*> hosts;
  for (std::int32_t host = 0; host < network.hosts(); ++host)
    hosts.push_back(world->create_host(fmt::format("host {}", host), 1e9)->seal());
  std::map<std::int32_t, s4u::Link*> links;
  for (const auto& [link, capacity] : network.capacities())
    links[link] =
        world->create_link(fmt::format("link {}", link), static_cast<double>(capacity))->set_latency(0)->seal();
  // One per sender: a common one would connect all flows in SimGrid's solver.
  std::vector<s4u::Link*> limiters(hosts.size(), nullptr);
  const auto limiter_of = [&](const SimGridNetwork::Path& path) {
    s4u::Link*& known = limiters[static_cast<std::size_t>(path.source)];
    if (known == nullptr)
      known = world->create_link(fmt::format("limit {}", path.source), static_cast<double>(path.rate))
                  ->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE)
                  ->set_latency(0)
                  ->seal();
    return known;
  };
  for (const SimGridNetwork::Path& path : network.paths()) {
    std::vector<s4u::LinkInRoute> route{s4u::LinkInRoute(limiter_of(path))};
    for (const std::int32_t link : path.links) route.emplace_back(links.at(link));
    world->add_route(hosts[static_cast<std::size_t>(path.source)]->get_netpoint(),
                     hosts[static_cast<std::size_t>(path.target)]->get_netpoint(), nullptr, nullptr, route, false);
  }
  world->seal();
  return hosts;
}

}  // namespace
}  // namespace tracecast

extern "C" void tracecast_simgrid_simulate(const tracecast::SimGridNetwork& network,
                                           const tracecast::SimGridDriver& driver, std::string& answer) {
  std::array<std::string, 2> words{"tracecast", "--log=root.thresh:critical"};
  std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
  int count = 2;
  simgrid::s4u::Engine engine(&count, arguments.data());
  tracecast::configure();
  const std::vector<simgrid::s4u::Host*> hosts = tracecast::build_platform(network);
  tracecast::Driven driven(network, hosts);  // alarms may ring after the driver has ended
  constexpr unsigned kDriverStack = 8192;    // KiB
  simgrid::s4u::Actor::init("driver", hosts.front())->set_stacksize(kDriverStack)->start([&] {
    answer = driver(driven);
  });
  engine.run();
}
