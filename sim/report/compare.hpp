/// Two records of one step side by side: a forecast and what was executed, or two forecasts.
///
/// Steps are compared by their duration (of an executed one the lower quartile of its repeats); what they are made of by
/// the mean over ranks, ranks that are folded counting as often as they stand for. Every difference is given as its share
/// of the actual step, so that the list of the largest ones adds up to something.
#pragma once

#include <string>
#include <vector>

#include "sim/report/step_record.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

struct Difference {
  enum class Group { phase, work, transfer, rank };
  Group group = Group::work;
  std::string name;  ///< "backward", "gemm dgrad", "tensor_parallel", "rank 1 bubble"
  double forecast_s = 0;
  double actual_s = 0;
  double share = 0;   ///< (forecast - actual) / actual step
  std::string cause;  ///< likely cause, in words; "" when the difference is small
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
  std::vector<Difference> transfers;  ///< moving, by what it is for
  std::vector<Difference> ranks;      ///< bubble of each
  std::vector<Difference>
      waits;  ///< of each, its transfers' waiting for their last member; what nothing hides is bubble too
  std::vector<Difference> largest;  ///< of works, transfers and ranks, the largest first
  bool within() const { return error <= tolerance && error >= -tolerance; }
};

/// Errors: records of different scenarios, or of different numbers of pipeline ranks.
Result<Comparison> compare(const StepRecord& forecast, const StepRecord& actual, double tolerance);

/// A page for a terminal, with both timelines as rows of letters on one axis.
std::string comparison_page(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual,
                            const TextStyle& style);
std::string comparison_json(const Comparison& comparison);
/// Both timelines on one axis: for every rank a row of the forecast and one of what happened.
std::string comparison_svg(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual);

/// The rank of `record` that stands for another record's `rank`, by number, else by pipeline rank; the first when there is none.
const StepRank& rank_for(const StepRecord& record, const StepRank& rank);

}  // namespace tracecast
