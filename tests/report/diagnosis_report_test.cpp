// The page of a diagnosis.
#include "sim/report/diagnosis_report.hpp"

#include <string>

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("A diagnosis marks causes that explain a part of the difference", "[report][diagnosis]") {
  Diagnosis d{.measured_s = 2, .forecast_s = 1, .band = {}, .ranks_known = 0, .causes = {}, .indistinguishable = 1};
  d.causes.push_back({"late_data", "every step begins 1 s late", "the loader", 1, 2, 0, 1});
  const auto says_part = [&] {
    return diagnosis_page("run", d, {.width = 400}).find("explains a part of the difference only") != std::string::npos;
  };
  CHECK_FALSE(says_part());
  d.causes.push_back({"recompute_full", "every layer is recomputed", "the launcher", 0, 1.3, 0, 0});
  CHECK(says_part());
}

TEST_CASE("A diagnosis says that no cause explains the measured step", "[report][diagnosis]") {
  Diagnosis d{.measured_s = 2, .forecast_s = 1, .band = {}, .ranks_known = 8, .causes = {}, .indistinguishable = 1};
  d.causes.push_back({"recompute_full", "every layer is recomputed", "the launcher", 0, 1.3, 0, 1, false});
  d.causes.push_back({"late_data", "every step begins 1 s late", "the loader", 1, 2, 0, 0});
  CHECK(diagnosis_page("run", d, {.width = 400})
            .find("None of the causes explains the measured step. The likeliest one, every layer is recomputed, takes "
                  "1.30 s.") != std::string::npos);
  d.causes[0].explains = true;
  CHECK(diagnosis_page("run", d, {.width = 400}).find("Most likely every layer is recomputed.") != std::string::npos);
}
