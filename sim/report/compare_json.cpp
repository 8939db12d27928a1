#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/report/compare_report.hpp"

namespace tracecast {

std::string comparison_json(const Comparison& c) {
  using Json = nlohmann::ordered_json;
  const auto list = [](const std::vector<Difference>& differences) {
    Json out = Json::array();
    for (const Difference& d : differences)
      out.push_back({{"name", d.name},
                     {"forecast_s", d.forecast_s},
                     {"actual_s", d.actual_s},
                     {"share_of_step", d.share},
                     {"cause", d.cause}});
    return out;
  };
  const Json out{{"scenario", c.scenario},
                 {"forecast_origin", to_string(c.forecast_origin)},
                 {"actual_origin", to_string(c.actual_origin)},
                 {"forecast_s", c.forecast_s},
                 {"actual_s", c.actual_s},
                 {"error", c.error},
                 {"repeat_spread", c.spread},
                 {"tolerance", c.tolerance},
                 {"within_tolerance", c.within()},
                 {"phases", list(c.phases)},
                 {"operators", list(c.works)},
                 {"transfers", list(c.transfers)},
                 {"ranks", list(c.ranks)},
                 {"waiting", list(c.waits)},
                 {"largest", list(c.largest)}};
  return json_file(out);
}

}  // namespace tracecast
