/// \file
/// Compares two records of one step: a forecast and an executed step, or two forecasts.
///
/// Steps are compared by duration (of an executed step the lower quartile of its repeats), and their parts by the mean
/// over ranks; a folded rank counts with its multiplicity. Every difference is a share of the actual step.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/step_record.hpp"

namespace tracecast {

struct Difference {
  enum class Group { phase, work, transfer, rank };
  Group group = Group::work;
  std::string name;  ///< "backward", "gemm dgrad", "tensor_parallel", "rank 1 bubble"
  double forecast_s = 0;
  double actual_s = 0;
  double share = 0;   ///< (forecast - actual) / actual step
  std::string cause;  ///< likely cause in words; "" if the difference is small
  int rank = -1;      ///< of a rank; else -1
};

struct Comparison {
  std::string scenario;
  StepOrigin forecast_origin = StepOrigin::simulated;
  StepOrigin actual_origin = StepOrigin::executed;
  double forecast_s = 0;
  double actual_s = 0;
  double error = 0;      ///< forecast / actual - 1
  double spread = 0;     ///< of the actual step's repeats
  double tolerance = 0;  ///< largest |error| that is accepted
  std::vector<Difference> phases;
  std::vector<Difference> works;      ///< computation by operator kind and pass
  std::vector<Difference> transfers;  ///< transfer time by kind of traffic
  std::vector<Difference> ranks;      ///< bubble of each rank
  std::vector<Difference> waits;    ///< of each rank: transfers waiting for their last member; may overlap with bubble
  std::vector<Difference> largest;  ///< of works, transfers and ranks, the largest first
  bool within() const { return error <= tolerance && error >= -tolerance; }
};

/// `tolerance`: relative error of the step time. Errors: records of different scenarios or numbers of pipeline ranks.
Result<Comparison> compare(const StepRecord& forecast, const StepRecord& actual, double tolerance);

/// Recordings may be of some ranks only. `forecast` with the ranks alone that those of `recorded` correspond to, each with as many as
/// it stands for; unchanged if the recorded ranks are as many as all of the forecast.
StepRecord with_recorded_ranks(StepRecord forecast, const StepRecord& recorded);

/// The rank of `record` that corresponds to `rank` of another record: by number, else the class of its pipeline rank that it may be in
/// (the largest of several, which one is not in the file), else the first.
const StepRank& rank_for(const StepRecord& record, const StepRank& rank);

}  // namespace tracecast
