#include "tools/commands.hpp"

#include "tools/command_list.hpp"

namespace tracecast::cli {

std::span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"predict", "forecast one training step of a scenario", "predict llama3-405b-16k", add_predict},
      {"collective", "time one collective on a machine, as NCCL would run it",
       "collective --topology dgx-h100 --op all_reduce --ranks 64 --bytes 1GiB", add_collective},
      {"topology", "describe, check and draw a cluster", "topology dgx-h100 --ranks 64 --hops 0 13", add_topology},
      {"import", "read other programs' machines, recordings, runs and measurements",
       "import nccl-topology docs/formats/samples/nccl-topology.xml", add_import},
      {"export", "write the step of a scenario for other simulators: Chakra execution traces",
       "export chakra tensor-parallel --out exported", add_export},
      {"schedule", "draw a pipeline schedule and show its cost",
       "schedule --schedule 1f1b --stages 4 --microbatches 8 --compare zb-h1", add_schedule},
      {"serve", "open a page in the browser: change a run with sliders and see the effect",
       "serve --port 0 --seconds 1", add_serve},
      {"plan", "find the best layouts, GPU counts and machines for a job", "plan llama3-405b-1024 --best 3", add_plan},
      {"goodput", "simulate failures, checkpoints and restarts of a run over weeks",
       "goodput llama3-405b-16k --days 54 --failures llama3-54-days", add_goodput},
      {"scaling", "compute of a model and its tokens, compute-optimal sizes, days on a machine",
       "scaling --parameters 175e9 --tokens 300e9 --topology dgx-a100 --gpus 1024 --days 34", add_scaling},
      {"strategies", "show what each parallel strategy partitions and sends", "strategies --ranks 8", add_strategies},
      {"validate", "forecast every run of a table of measurements and score the forecasts",
       "validate korthikanti --by recompute", add_validate},
      {"calibrate", "fit to published runs with cross-validation, or scale to your own cluster",
       "calibrate --runs korthikanti --like korthikanti-175b-full", add_calibrate},
      {"profile", "time the operators and collectives of this machine, and write a profile",
       "profile --suite quick --passes 2 --out recorded.json", add_profile},
      {"execute", "run the step of a scenario on this machine and show its time", "execute cpu-pp2-1f1b --steps 3",
       add_execute},
      {"compare", "compare a forecast with an executed step, operator by operator",
       "compare docs/validation/cpu-forecast.json docs/validation/cpu-executed.json --tolerance 1", add_compare},
      {"replay", "run a recorded step in the simulator and show its time",
       "replay docs/formats/samples/kineto.json --out replayed", add_replay},
      {"record", "run a program and record its GPU activity", "record --help", add_record},
  };
  return kCommands;
}

}  // namespace tracecast::cli
