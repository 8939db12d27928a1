/// \file
/// The functions that commands.cpp lists; each is defined in command_<name>.cpp.
#pragma once

#include "tools/commands.hpp"

namespace tracecast::cli {

Run add_calibrate(CLI::App& app);
Run add_compare(CLI::App& app);
Run add_execute(CLI::App& app);
Run add_export(CLI::App& app);
Run add_goodput(CLI::App& app);
Run add_collective(CLI::App& app);
Run add_plan(CLI::App& app);
Run add_import(CLI::App& app);
Run add_predict(CLI::App& app);
Run add_profile(CLI::App& app);
Run add_scaling(CLI::App& app);
Run add_record(CLI::App& app);
Run add_replay(CLI::App& app);
Run add_schedule(CLI::App& app);
Run add_serve(CLI::App& app);
Run add_strategies(CLI::App& app);
Run add_topology(CLI::App& app);
Run add_validate(CLI::App& app);

}  // namespace tracecast::cli
