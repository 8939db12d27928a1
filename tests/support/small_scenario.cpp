#include "tests/support/small_scenario.hpp"

#include "tests/support/shipped.hpp"

namespace tracecast::test {

using namespace tracecast::literals;

Scenario small_scenario(int tp, int pp, int dp) {
  Scenario s;
  s.name = "small";
  s.model.name = "small";
  s.model.num_layers = 8;
  s.model.hidden_size = 1024;
  s.model.num_attention_heads = 16;
  s.model.num_query_groups = 8;
  s.model.head_dim = 64;
  s.model.ffn_hidden_size = 4096;
  s.model.vocab_size = 1024;  // small, so that the output layer does not make the last stage the slowest
  s.parallel.tp = tp;
  s.parallel.pp = pp;
  s.parallel.sequence_parallel = tp > 1;
  s.training.seq_length = 1024;
  s.training.global_batch_size = 8LL * dp;
  s.cluster = shipped_topology("dgx-h100");
  s.cluster.world_size = tp * pp * dp;
  s.profile = shipped_profile("h100");
  return s;
}

Scenario small_scenario_on_cpus(int tp, int pp, int dp, const std::string& schedule) {
  Scenario s = small_scenario(tp, pp, dp);
  s.parallel.pp_schedule = schedule;
  s.profile.overlap = false;
  s.profile.host = {};
  return s;
}

Cluster eight_workers() {
  Cluster cluster = small_scenario(1, 1, 8).cluster;
  cluster.node.gpus = cluster.node.gpus_per_host = cluster.node.nics = 1;
  cluster.node.nic_rate = 100_Gbps;
  return cluster;
}

}  // namespace tracecast::test
