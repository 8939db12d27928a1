/// \file
/// The environment variables by which launchers tell a process its rank. Needs only the C++ library.
#pragma once

namespace tracecast {

struct RankVariables {
  const char* rank;
  const char* ranks;
  const char* local_rank;
};

/// torchrun, Open MPI, MPICH and Intel MPI, Slurm's srun. A launcher counts only if it sets both rank and ranks: in a batch script
/// without srun, Slurm sets SLURM_PROCID but no SLURM_STEP_NUM_TASKS.
/// Source: docs/references.md#launcher-variables
inline constexpr RankVariables kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK"};
inline constexpr RankVariables kMpiLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}};

}  // namespace tracecast
