#include "sim/network/max_min.hpp"

#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"

namespace tracecast {
namespace {

using namespace literals;

struct Demand {
  std::int64_t limit = 0;
  std::vector<LinkWeight> loads;
};

struct Problem {
  std::vector<std::int64_t> capacities;
  std::vector<Demand> flows;
};

std::int64_t below(RandomStream& random, std::int64_t n) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(n)));
}

Problem random_problem(RandomStream& random) {
  Problem problem;
  const std::int64_t links = 1 + below(random, 20);
  for (std::int64_t l = 0; l < links; ++l) problem.capacities.push_back((1 + below(random, 8)) * 12'500'000'000);
  const std::int64_t flows = 1 + below(random, 30);
  for (std::int64_t f = 0; f < flows; ++f) {
    Demand demand{(1 + below(random, 40)) * 1'000'000'000, {}};
    for (std::int32_t l = 0; l < static_cast<std::int32_t>(links); ++l)
      if (below(random, 4) == 0) demand.loads.push_back({l, (1 + below(random, 24)) * kWeightOne / 8});
    problem.flows.push_back(demand);
  }
  return problem;
}

MaxMin links_of(const Problem& problem) {
  MaxMin solver;
  for (const std::int64_t capacity : problem.capacities) solver.add_link({capacity});
  return solver;
}

std::vector<std::int64_t> rates(const Problem& problem) {
  MaxMin solver = links_of(problem);
  for (const Demand& demand : problem.flows) solver.add_flow({demand.limit}, demand.loads);
  solver.solve();
  std::vector<std::int64_t> result;
  for (std::size_t f = 0; f < problem.flows.size(); ++f)
    result.push_back(solver.rate(static_cast<std::int32_t>(f)).bytes_per_second);
  return result;
}

/// The rounds as max_min.hpp states them: each looks at every link and every flow.
std::vector<std::int64_t> rates_by_rounds(const Problem& problem) {
  constexpr std::int64_t kUnknown = -1;
  struct Link {
    Wide demand = 0;
    Wide rest = 0;
    std::int64_t weight = 0;
    bool binds = false;
  };
  std::vector<Link> links(problem.capacities.size());
  for (const Demand& flow : problem.flows)
    for (const LinkWeight& load : flow.loads) {
      Link& link = links[static_cast<std::size_t>(load.link)];
      link.demand += wide(load.weight) * wide(flow.limit);
      link.weight += load.weight;
    }
  for (std::size_t l = 0; l < links.size(); ++l) {
    links[l].rest = wide(problem.capacities[l]) * wide(kWeightOne);
    links[l].binds = links[l].demand > links[l].rest;
  }
  std::vector<std::int64_t> rate(problem.flows.size(), kUnknown);
  while (std::find(rate.begin(), rate.end(), kUnknown) != rate.end()) {
    std::vector<std::int64_t> shares;
    for (const Link& link : links)
      shares.push_back(link.binds && link.weight > 0 ? static_cast<std::int64_t>(link.rest / wide(link.weight))
                                                     : std::int64_t{1} << 60);
    std::int64_t share = *std::min_element(shares.begin(), shares.end());
    for (std::size_t f = 0; f < rate.size(); ++f)
      if (rate[f] == kUnknown) share = std::min(share, problem.flows[f].limit);
    for (std::size_t f = 0; f < rate.size(); ++f) {
      if (rate[f] != kUnknown) continue;
      const Demand& flow = problem.flows[f];
      const bool on_fullest = std::any_of(flow.loads.begin(), flow.loads.end(), [&](const LinkWeight& load) {
        return shares[static_cast<std::size_t>(load.link)] == share;
      });
      if (flow.limit != share && !on_fullest) continue;
      rate[f] = share;
      for (const LinkWeight& load : flow.loads) {
        Link& link = links[static_cast<std::size_t>(load.link)];
        link.rest -= wide(load.weight) * wide(share);
        link.weight -= load.weight;
      }
    }
  }
  return rate;
}

/// A problem of one component, mostly: each flow crosses one to four of many links. Few bytes per second, so that roundings
/// and equal shares are everywhere.
Problem sparse_problem(RandomStream& random, std::int64_t links, std::int64_t flows) {
  Problem problem;
  for (std::int64_t l = 0; l < links; ++l) problem.capacities.push_back(4 + below(random, 40));
  for (std::int64_t f = 0; f < flows; ++f) {
    Demand demand{1 + below(random, 30), {}};
    for (std::int64_t i = below(random, 4); i >= 0; --i) {
      const auto link = static_cast<std::int32_t>(below(random, links));
      if (std::none_of(demand.loads.begin(), demand.loads.end(), [&](const auto& each) { return each.link == link; }))
        demand.loads.push_back({link, (1 + below(random, 12)) * kWeightOne / 8});
    }
    problem.flows.push_back(demand);
  }
  return problem;
}

double weight(const LinkWeight& load) { return static_cast<double>(load.weight) / static_cast<double>(kWeightOne); }

/// Another way to the same rates: all flows that still grow do so together, in doubles, one bottleneck after the other.
std::vector<double> grown_rates(const Problem& problem) {
  std::vector<double> rate(problem.flows.size(), 0);
  std::vector<bool> grows(problem.flows.size(), true);
  const auto load_of = [&](std::int32_t link, bool growing) {
    double sum = 0;
    for (std::size_t f = 0; f < rate.size(); ++f)
      for (const LinkWeight& load : problem.flows[f].loads)
        if (load.link == link && (!growing || grows[f])) sum += weight(load) * (growing ? 1 : rate[f]);
    return sum;
  };
  while (std::find(grows.begin(), grows.end(), true) != grows.end()) {
    double step = 1e300;
    for (std::size_t f = 0; f < rate.size(); ++f)
      if (grows[f]) step = std::min(step, static_cast<double>(problem.flows[f].limit) - rate[f]);
    for (std::int32_t l = 0; l < static_cast<std::int32_t>(problem.capacities.size()); ++l)
      if (load_of(l, true) > 0)
        step =
            std::min(step, (static_cast<double>(problem.capacities[static_cast<std::size_t>(l)]) - load_of(l, false)) /
                               load_of(l, true));
    for (std::size_t f = 0; f < rate.size(); ++f)
      if (grows[f]) rate[f] += step;
    std::vector<bool> still = grows;
    for (std::size_t f = 0; f < rate.size(); ++f) {
      if (rate[f] >= static_cast<double>(problem.flows[f].limit) - 1) still[f] = false;
      for (const LinkWeight& load : problem.flows[f].loads)
        if (load_of(load.link, false) >=
            static_cast<double>(problem.capacities[static_cast<std::size_t>(load.link)]) - 50)
          still[f] = false;
    }
    grows = still;
  }
  return rate;
}

TEST_CASE("max-min: a link of a large fabric carries petabytes per second", "[network]") {
  MaxMin solver;
  const std::int32_t core = solver.add_link({1'000'000'000'000'000'000});
  const LinkWeight load{core, kWeightOne << 24};  // as many flows of one class
  const std::int32_t flow = solver.add_flow({50'000'000'000}, {&load, 1});
  solver.solve();
  CHECK(solver.rate(flow) == Bandwidth{50'000'000'000});
  const std::int32_t more = solver.add_flow({50'000'000'000}, {&load, 1});
  solver.solve();
  CHECK(solver.rate(more) == Bandwidth{1'000'000'000'000'000'000 / (2 << 24)});
}

TEST_CASE("Max-min on a dumbbell, with paper and pencil", "[oracle][network]") {
  MaxMin solver;
  const std::int32_t left = solver.add_link(10_GBps);
  const std::int32_t middle = solver.add_link(12_GBps);
  const std::int32_t right = solver.add_link(10_GBps);
  const auto add = [&](std::int64_t gb, std::vector<LinkWeight> loads) {
    return solver.add_flow({gb * 1'000'000'000}, loads);
  };
  // The middle gives 12 / 3 = 4 to each of a, b, c; d takes what a leaves on the left, e is held by its own limit.
  const std::int32_t a = add(100, {{left}, {middle}, {right}});
  const std::int32_t b = add(100, {{middle}});
  const std::int32_t c = add(100, {{middle}});
  const std::int32_t d = add(100, {{left}});
  const std::int32_t e = add(1, {{right}});
  solver.solve();
  CHECK(solver.rate(a) == 4_GBps);
  CHECK(solver.rate(b) == 4_GBps);
  CHECK(solver.rate(c) == 4_GBps);
  CHECK(solver.rate(d) == 6_GBps);
  CHECK(solver.rate(e) == 1_GBps);
  // Without b the middle gives 6 to a and c, so d falls to 4. The right link never binds.
  solver.remove_flow(b);
  const std::vector<std::int32_t> changed = solver.solve();
  CHECK(solver.rate(a) == 5_GBps);  // the left link is now the narrower: 10 / 2
  CHECK(solver.rate(c) == 7_GBps);
  CHECK(solver.rate(d) == 5_GBps);
  CHECK(changed.size() == 3);
}

TEST_CASE("Max-min: a weight of two takes twice as much of a link", "[oracle][network]") {
  MaxMin solver;
  const std::int32_t link = solver.add_link(30_GBps);
  const std::int32_t heavy = solver.add_flow(100_GBps, std::vector<LinkWeight>{{link, 2 * kWeightOne}});
  const std::int32_t light = solver.add_flow(100_GBps, std::vector<LinkWeight>{{link, kWeightOne}});
  solver.solve();
  CHECK(solver.rate(heavy) == 10_GBps);
  CHECK(solver.rate(light) == 10_GBps);
}

TEST_CASE("Max-min: no link is overloaded and every flow has a reason for its rate", "[property][network]") {
  RandomStream random(11, 0, 0);
  for (int trial = 0; trial < 400; ++trial) {
    INFO("trial " << trial);
    const Problem problem = random_problem(random);
    const std::vector<std::int64_t> found = rates(problem);
    std::vector<double> load(problem.capacities.size(), 0);
    std::vector<std::int64_t> fastest(problem.capacities.size(), 0);
    for (std::size_t f = 0; f < found.size(); ++f)
      for (const LinkWeight& each : problem.flows[f].loads) {
        load[static_cast<std::size_t>(each.link)] += weight(each) * static_cast<double>(found[f]);
        std::int64_t& top = fastest[static_cast<std::size_t>(each.link)];
        top = std::max(top, found[f]);
      }
    for (std::size_t l = 0; l < load.size(); ++l) CHECK(load[l] <= static_cast<double>(problem.capacities[l]));
    for (std::size_t f = 0; f < found.size(); ++f) {
      bool held = found[f] == problem.flows[f].limit;
      for (const LinkWeight& each : problem.flows[f].loads) {
        const auto l = static_cast<std::size_t>(each.link);
        held = held || (fastest[l] == found[f] && load[l] >= static_cast<double>(problem.capacities[l]) - 100);
      }
      CHECK(held);
    }
  }
}

TEST_CASE("Max-min: the same as growing all rates together", "[property][differential][network]") {
  RandomStream random(12, 0, 0);
  for (int trial = 0; trial < 200; ++trial) {
    INFO("trial " << trial);
    const Problem problem = random_problem(random);
    const std::vector<std::int64_t> found = rates(problem);
    const std::vector<double> grown = grown_rates(problem);
    for (std::size_t f = 0; f < found.size(); ++f)
      CHECK(static_cast<double>(found[f]) == Approx(grown[f]).epsilon(1e-7));
  }
}

/// The problem with flows, links and the loads of each flow in another order; `place[f]` is where flow f has gone.
Problem shuffled(const Problem& problem, RandomStream& random, std::vector<std::size_t>& place) {
  const auto permutation = [&](std::size_t n) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = n; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
    return order;
  };
  const std::vector<std::size_t> link_place = permutation(problem.capacities.size());
  place = permutation(problem.flows.size());
  Problem result = problem;
  for (std::size_t l = 0; l < link_place.size(); ++l) result.capacities[link_place[l]] = problem.capacities[l];
  for (std::size_t f = 0; f < place.size(); ++f) {
    Demand demand = problem.flows[f];
    for (LinkWeight& load : demand.loads)
      load.link = static_cast<std::int32_t>(link_place[static_cast<std::size_t>(load.link)]);
    std::reverse(demand.loads.begin(), demand.loads.end());
    result.flows[place[f]] = demand;
  }
  return result;
}

TEST_CASE("Max-min does not depend on the order of flows and links", "[property][metamorphic][network]") {
  RandomStream random(13, 0, 0);
  for (int trial = 0; trial < 200; ++trial) {
    INFO("trial " << trial);
    const Problem problem = random_problem(random);
    std::vector<std::size_t> place;
    const std::vector<std::int64_t> other = rates(shuffled(problem, random, place));
    const std::vector<std::int64_t> found = rates(problem);
    for (std::size_t f = 0; f < found.size(); ++f) CHECK(found[f] == other[place[f]]);
  }
}

TEST_CASE("Max-min: copies have the rates of the classes they are folded into", "[property][metamorphic][network]") {
  // Each link class has `copies` copies; copy k of a flow crosses copy k + shift of each of its links, by two paths that
  // split its weight. So every copy of a link carries what its class does.
  RandomStream random(14, 0, 0);
  for (int trial = 0; trial < 200; ++trial) {
    INFO("trial " << trial);
    const Problem folded = random_problem(random);
    const std::int32_t copies = 2 + static_cast<std::int32_t>(below(random, 6));
    Problem whole;
    for (const std::int64_t capacity : folded.capacities)
      for (std::int32_t k = 0; k < copies; ++k) whole.capacities.push_back(capacity);
    for (const Demand& demand : folded.flows) {
      std::vector<std::int32_t> shifts;
      for (std::size_t i = 0; i < demand.loads.size(); ++i)
        shifts.push_back(static_cast<std::int32_t>(below(random, copies - 1)));
      for (std::int32_t k = 0; k < copies; ++k) {
        Demand copy{demand.limit, {}};
        for (std::size_t i = 0; i < demand.loads.size(); ++i)
          for (const std::int32_t path : {0, 1})
            copy.loads.push_back(
                {demand.loads[i].link * copies + (k + shifts[i] + path) % copies, demand.loads[i].weight / 2});
        whole.flows.push_back(copy);
      }
    }
    const std::vector<std::int64_t> of_classes = rates(folded);
    const std::vector<std::int64_t> of_copies = rates(whole);
    for (std::size_t f = 0; f < of_copies.size(); ++f)
      CHECK(of_copies[f] == of_classes[f / static_cast<std::size_t>(copies)]);
  }
}

TEST_CASE("Max-min: the rounds as stated, bit for bit", "[property][differential][network]") {
  RandomStream random(16, 0, 0);
  for (int trial = 0; trial < 400; ++trial) {
    INFO("trial " << trial);
    const Problem problem = trial % 2 == 0 ? random_problem(random) : sparse_problem(random, 60, 100);
    CHECK(rates(problem) == rates_by_rounds(problem));
  }
}

/// Takes flows away and adds others, one or several at a time, and compares with solving all anew.
void change_and_compare(RandomStream& random, Problem problem, const std::vector<Demand>& supply, int changes) {
  MaxMin solver = links_of(problem);
  std::vector<std::int32_t> index;
  for (const Demand& demand : problem.flows) index.push_back(solver.add_flow({demand.limit}, demand.loads));
  solver.solve();
  std::vector<std::int64_t> before = rates_by_rounds(problem);  // 0: of a flow that was not there
  for (int change = 0; change < changes; ++change) {
    if (!problem.flows.empty() && below(random, 2) == 0) {
      const std::size_t gone = random.below(problem.flows.size());
      const auto place = static_cast<std::ptrdiff_t>(gone);
      solver.remove_flow(index[gone]);
      index.erase(index.begin() + place);
      before.erase(before.begin() + place);
      problem.flows.erase(problem.flows.begin() + place);
    } else {
      const Demand& demand = supply[random.below(supply.size())];
      index.push_back(solver.add_flow({demand.limit}, demand.loads));
      before.push_back(0);
      problem.flows.push_back(demand);
    }
    if (below(random, 3) == 0) continue;  // several changes at once
    std::vector<std::int32_t> changed = solver.solve();
    const std::vector<std::int64_t> anew = rates_by_rounds(problem);
    std::vector<std::int32_t> expected;
    for (std::size_t f = 0; f < index.size(); ++f) {
      CHECK(solver.rate(index[f]).bytes_per_second == anew[f]);
      if (anew[f] != before[f]) expected.push_back(index[f]);
    }
    std::sort(changed.begin(), changed.end());
    std::sort(expected.begin(), expected.end());
    CHECK(changed == expected);
    before = anew;
  }
}

TEST_CASE("Max-min: solving after each change gives the bits of solving all anew",
          "[property][differential][network]") {
  RandomStream random(15, 0, 0);
  for (int trial = 0; trial < 40; ++trial) {
    INFO("dense trial " << trial);
    const Problem problem = random_problem(random);
    std::vector<Demand> supply = random_problem(random).flows;
    for (Demand& demand : supply)
      std::erase_if(demand.loads, [&](const LinkWeight& load) {
        return load.link >= static_cast<std::int32_t>(problem.capacities.size());
      });
    change_and_compare(random, problem, supply, 60);
  }
  for (int trial = 0; trial < 40; ++trial) {
    INFO("sparse trial " << trial);
    const std::int64_t links = 20 + below(random, 80);
    const Problem problem = sparse_problem(random, links, links + below(random, links));
    change_and_compare(random, problem, sparse_problem(random, links, 100).flows, 120);
  }
}

TEST_CASE("Max-min: in a connected network, a change moves only the flows that it affects", "[property][network]") {
  // A ring of 1,000 links of 9 GB/s; each is crossed by a flow of its own, and by one that crosses the next link too: three
  // flows of 3 GB/s on every link, all of them connected.
  MaxMin solver;
  constexpr std::int32_t kLinks = 1000;
  for (std::int32_t l = 0; l < kLinks; ++l) solver.add_link(9_GBps);
  std::vector<std::int32_t> own;
  std::vector<std::int32_t> crossing;
  for (std::int32_t l = 0; l < kLinks; ++l) {
    own.push_back(solver.add_flow(20_GBps, std::vector<LinkWeight>{{l}}));
    crossing.push_back(solver.add_flow(20_GBps, std::vector<LinkWeight>{{l}, {(l + 1) % kLinks}}));
  }
  CHECK(solver.solve().size() == 2 * kLinks);
  // The two flows that stay on link 0 have their bottlenecks on the adjacent links.
  solver.remove_flow(own[0]);
  CHECK(solver.solve().empty());
  // Now the flows that share a link with one other flow get 6 GB/s.
  solver.remove_flow(crossing[500]);
  CHECK(solver.solve().size() == 2);
  CHECK(solver.rate(own[500]) == 6_GBps);
  CHECK(solver.rate(own[501]) == 6_GBps);
  CHECK(solver.rate(crossing[499]) == 3_GBps);
}

TEST_CASE("Max-min: a change does not reach other components, nor links that do not bind", "[property][network]") {
  MaxMin solver;
  for (int block = 0; block < 10; ++block) {
    const std::int32_t link = solver.add_link(10_GBps);
    for (int f = 0; f < 5; ++f) solver.add_flow(8_GBps, std::vector<LinkWeight>{{link}});
  }
  solver.solve();
  solver.remove_flow(0);
  CHECK(solver.solve().size() == 4);
  // Two flows at 5 fit into 10: their link does not bind, and removing one changes no rate.
  MaxMin roomy;
  const std::int32_t link = roomy.add_link(10_GBps);
  roomy.add_flow(5_GBps, std::vector<LinkWeight>{{link}});
  roomy.add_flow(5_GBps, std::vector<LinkWeight>{{link}});
  roomy.solve();
  roomy.remove_flow(0);
  CHECK(roomy.solve().empty());
}

}  // namespace
}  // namespace tracecast
