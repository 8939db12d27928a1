#include "sim/io/incident_log.hpp"

#include <cmath>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/reliability/laws.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;

namespace {

const std::string kHead = "# gpus = 64\n# start = 2025-01-01\n# end = 2025-03-02T00:00:00Z\n";  // 60 days

std::string error_of(const std::string& text) { return error_text(parse_incident_log(text, "log.csv")); }

}  // namespace

TEST_CASE("an incident log becomes rates with intervals", "[io][reliability]") {
  const IncidentLog log = parse_incident_log(kHead +
                                                 "time,component,part,effect\n2025-01-02,gpu,n1/0,crash\n"
                                                 "2025-01-05 06:00,gpu,n3/2,\n72.5,software,,hang\n\n# a remark\n",
                                             "mine.csv")
                              .value();
  CHECK(log.machine.gpus == 64);
  CHECK(log.duration_s == 60 * 86400.0);
  REQUIRE(log.fits.size() == 2);
  CHECK(log.fits[0].name == "gpu");
  CHECK(log.fits[0].failures == 2);
  CHECK(log.fits[0].exponential_mean_s.value == 64 * 60 * 86400.0 / 2);
  CHECK(log.model.kinds[0].per == RateUnit::gpu);
  CHECK(log.model.kinds[1].effect == Effect::hang);
  CHECK(log.model.kinds[1].per == RateUnit::job);
  CHECK(interruption_rate_s(log.model, log.machine, {}) * log.duration_s == Approx(3));
}

TEST_CASE("a component of an incident log may be in upper case", "[io][reliability]") {
  const auto log_of = [](const char* gpu, const char* nic) {
    return parse_incident_log(kHead + fmt::format("time,component\n10,gpu\n20,{}\n30,{}\n", gpu, nic), "log.csv")
        .value();
  };
  const IncidentLog upper = log_of("GPU", "NIC");
  CHECK(upper.model == log_of("gpu", "nic").model);
  REQUIRE(upper.model.kinds.size() == 2);
  CHECK(upper.model.kinds[0].per == RateUnit::gpu);
  CHECK(upper.model.kinds[1].per == RateUnit::gpu);
}

TEST_CASE("save and load: a log written from a Weibull fleet gives back its law", "[property][io][reliability]") {
  const Law law{LawKind::weibull, 40 * 86400.0, 0.7};
  std::string text = kHead + "time,component,part\n";
  RandomStream random(3, 0, 0);
  for (int part = 0; part < 64; ++part)
    for (double t = draw_s(law, random); t < 60 * 86400.0; t += draw_s(law, random))
      text += fmt::format("{:.4f},gpu,{}\n", t / 3600, part);
  const IncidentLog log = parse_incident_log(text, "fleet.csv").value();
  REQUIRE(log.fits[0].weibull.has_value());
  CHECK(log.fits[0].weibull->shape.low < 0.7);
  CHECK(log.fits[0].weibull->shape.high > 0.7);
  CHECK(log.fits[0].weibull->mean_s.low < law.mean_s);
  CHECK(log.fits[0].weibull->mean_s.high > law.mean_s);
  CHECK(log.model.kinds[0].law.kind == LawKind::weibull);
}

TEST_CASE("hangs of a component that crashes as well are a kind of their own", "[io][reliability]") {
  const auto log_of = [](int hangs) {
    std::string text = kHead + "time,component,effect\n";
    for (int failure = 0; failure < 40; ++failure)
      text += fmt::format("{},gpu,{}\n", 10 + 30 * failure, failure < hangs ? "hang" : "crash");
    return parse_incident_log(text, "log.csv").value();
  };
  for (const int hangs : {0, 10, 20, 39, 40}) {
    const IncidentLog log = log_of(hangs);
    CAPTURE(hangs);
    double counted = 0;
    for (const FailureKind& kind : log.model.kinds)
      if (kind.effect == Effect::hang) counted += rate_s(kind, log.model, log.machine) * log.duration_s;
    CHECK(counted == Approx(hangs));
    CHECK(interruption_rate_s(log.model, log.machine, {}) * log.duration_s == Approx(40));
    CHECK(log.fits.size() == log.model.kinds.size());
  }
  REQUIRE(log_of(10).fits.size() == 2);
  CHECK(log_of(10).fits[0].name == "gpu");
  CHECK(log_of(10).fits[1].name == "gpu (hang)");
  CHECK(log_of(10).model.kinds[1].component == Component::gpu);
  CHECK(log_of(40).fits[0].name == "gpu");
}

TEST_CASE("three named parts that failed give a law over each part's age, fewer or unnamed parts none",
          "[io][reliability]") {
  // Two runs of three GPUs that fail alike; only the first log says which GPU it was.
  const auto weibull = [](int gpus, bool named) {
    std::string text =
        fmt::format("# gpus = {}\n# start = 2025-01-01\n# end = 2025-03-02\ntime,component,part\n", gpus);
    for (int failure = 0; failure < 20; ++failure)
      text += fmt::format("{},gpu,{}\n", 10 + 30 * failure, named ? fmt::format("n{}", failure % gpus) : "");
    return parse_incident_log(text, "log.csv").value().fits[0].weibull;
  };
  CHECK(weibull(3, true).has_value());
  CHECK_FALSE(weibull(3, false).has_value());
  CHECK_FALSE(weibull(2, true).has_value());
  CHECK_FALSE(weibull(1, true).has_value());
  CHECK_FALSE(weibull(1, false).has_value());
}

TEST_CASE("failures of the job itself have no parts, so their law is exponential", "[io][reliability]") {
  std::string text = kHead + "time,component,part\n";
  for (const double hours : {100.0, 100.1, 100.2, 100.3, 900.0, 900.1, 900.2})  // in bursts
    text += fmt::format("{},software,p{}\n", hours, hours);
  const IncidentLog log = parse_incident_log(text, "log.csv").value();
  CHECK_FALSE(log.fits[0].weibull.has_value());
  CHECK(log.model.kinds[0].law.kind == LawKind::exponential);
}

TEST_CASE("a thousand million parts that did not fail take no memory", "[io][reliability]") {
  const auto weibull = [](const std::string& gpus) {
    return parse_incident_log("# gpus = " + gpus +
                                  "\n# start = 0\n# end = 1000\ntime,component,part\n"
                                  "10,gpu,a\n20,gpu,b\n40,gpu,c\n",
                              "log.csv")
        .value()
        .fits[0]
        .weibull;
  };
  const std::optional<WeibullFit> fit = weibull("1000000000");
  REQUIRE(fit.has_value());
  // Of rare failures before the end T: failures / sum of ln(T / t), whatever the number of parts.
  CHECK(fit->shape.value == Approx(3 / (std::log(100) + std::log(50) + std::log(25))));
}

TEST_CASE("errors in an incident log name line and column", "[error][io][reliability]") {
  CHECK(error_of(kHead + "time,component\n2025-13-01,gpu\n") ==
        "log.csv:5: time = 2025-13-01: must be a date (2025-01-31T12:00) or a number of hours");
  CHECK(error_of(kHead + "time,component\n2026-01-01,gpu\n") ==
        "log.csv:5: time = 2026-01-01: must be between start and end");
  CHECK(error_of(kHead + "time,component\n1\n") == "log.csv:5: has 1 columns, not 2");
  CHECK(error_of(kHead + "time,what\n") ==
        "log.csv:4: the first line names the columns; 'component' is missing\n"
        "log.csv:4: unknown column 'what' (allowed: time component part effect)");
  CHECK(error_of(kHead + "time,component,effect\n1,gpu,bang\n") ==
        "log.csv:5: effect = bang: is unknown (allowed: crash hang)");
  CHECK(error_of("# gpu = 3\n" + kHead + "time,component\n") ==
        "log.csv:1: gpu = 3: is unknown (allowed: gpus gpus_per_node start end)");
  CHECK(error_of("# gpus = 8.9\n# start = 0\n# end = 10\ntime,component\n") ==
        "log.csv:1: gpus = 8.9: is not a count of at least 1\n"
        "log.csv: gpus: is missing: a line '# gpus = 1024' before the columns");
  CHECK(error_of("# start = 0\n# end = 10\ntime,component\n") ==
        "log.csv: gpus: is missing: a line '# gpus = 1024' before the columns");
}

TEST_CASE("an incident log has no signs in its dates", "[error][io][reliability]") {
  for (const char* date : {"2025-01-31T-5:30", "2025-01-31T05:-3", "-025-01-31", "2025-01-31T05:30:-1"}) {
    INFO(date);
    CHECK(error_of(kHead + "time,component\n" + date + ",gpu\n").starts_with("log.csv:5: time = "));
  }
}

TEST_CASE("an incident log has quoted fields, as spreadsheets write them", "[io][reliability]") {
  const IncidentLog log =
      parse_incident_log(
          "\xEF\xBB\xBF" + kHead +
              "\"time\",\"component\",\"part\"\r\n\"2025-01-02\",\"switch, spine\",\"the \"\"red\"\" one\"\r\n",
          "log.csv")
          .value();
  REQUIRE(log.fits.size() == 1);
  CHECK(log.fits[0].name == "switch, spine");
  CHECK(error_of(kHead + "time,component\n1,\"gpu\n") == "log.csv:5: a quote is not closed");
}

TEST_CASE("an incident log names each column and each fact once", "[error][io][reliability]") {
  CHECK(error_of(kHead + "time,component,time\n1,gpu,2\n") == "log.csv:4: time: is a column twice");
  CHECK(error_of(kHead + "# gpus = 128\ntime,component\n1,gpu\n") == "log.csv:4: gpus = 128: is given twice");
}
