#include "sim/base/quantity_text.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;
using namespace tracecast::literals;

TEST_CASE("quantities: sizes, rates and times with their units", "[base]") {
  CHECK(parse_bytes("80 GiB").value() == 80_GiB);
  CHECK(parse_bytes("1GiB").value() == 1_GiB);
  CHECK(parse_bytes("80 GB").value() == Bytes{80'000'000'000});
  CHECK(parse_bytes("7B").value() == 7_B);
  CHECK(parse_bandwidth("400 Gb/s").value() == 50_GBps);
  CHECK(parse_bandwidth("450 GB/s").value() == 450_GBps);
  // As ports are named: bits, also with the letter alone.
  for (const char* port : {"400G", "400Gbps", "400 Gbit/s", "0.4T"}) CHECK(parse_bandwidth(port).value() == 50_GBps);
  CHECK(parse_duration("1.5 us").value() == 1'500_ns);
  // Every name of a unit: a thousandth of the next larger one, bits an eighth of bytes.
  for (const auto& [small, large] : std::vector<std::pair<std::string, std::string>>{{"kb/s", "Mb/s"},
                                                                                     {"Mb/s", "Gb/s"},
                                                                                     {"Gb/s", "Tb/s"},
                                                                                     {"kbps", "Mbps"},
                                                                                     {"Mbps", "Gbps"},
                                                                                     {"Gbps", "Tbps"},
                                                                                     {"kbit/s", "Mbit/s"},
                                                                                     {"Mbit/s", "Gbit/s"},
                                                                                     {"Gbit/s", "Tbit/s"},
                                                                                     {"kB/s", "MB/s"},
                                                                                     {"MB/s", "GB/s"},
                                                                                     {"GB/s", "TB/s"},
                                                                                     {"M", "G"},
                                                                                     {"G", "T"}}) {
    CAPTURE(small);
    CHECK(parse_bandwidth("8000 " + small).value() == parse_bandwidth("8 " + large).value());
  }
  CHECK(parse_bandwidth("8 Gb/s").value() == parse_bandwidth("1 GB/s").value());
  CHECK(parse_duration("54 d").value() == 54 * 86400 * 1_s);
}

TEST_CASE("quantities: errors, word for word", "[base][error]") {
  const auto message = [](const auto& result) { return to_string(result.error()); };
  CHECK(message(parse_bytes("80")) == "has no unit (for example \"80 GiB\"; allowed: B kB MB GB TB KiB MiB GiB TiB)");
  CHECK(message(parse_bytes("80 Gb")) == "has the unknown unit 'Gb' (allowed: B kB MB GB TB KiB MiB GiB TiB)");
  CHECK(message(parse_bytes("GiB")) == "is not a number with a unit (for example \"80 GiB\")");
  CHECK(message(parse_bytes("-1 GiB")) == "is negative");
  CHECK(message(parse_bytes("1e12 TB")) == "is too large");
  CHECK(message(parse_bytes("nan GB")) == "is not a number with a unit (for example \"80 GiB\")");
}

TEST_CASE("quantities: printed with three significant digits", "[base]") {
  CHECK(to_text(1_GiB) == "1.00 GiB");
  CHECK(to_text(1536_MiB) == "1.50 GiB");
  CHECK(to_text(50_GBps) == "50.0 GB/s");
  CHECK(to_text(12'500_us) == "12.5 ms");
  CHECK(to_text(0_s) == "0 s");
}
