/// \file
/// Quantities as people write them in files and on the command line: "400 Gb/s", "80 GB", "1GiB", "1.5 us".
///
/// Sizes: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024).
/// Rates: these units except KiB per second ("GB/s", "GiB/s"), and b/s, kb/s, Mb/s, Gb/s, Tb/s for bits ("400 Gb/s" = 50 GB/s). As
/// ports are named, "400G", "400Gbps" and "400Gbit/s" are bits too.
/// Times: ps, ns, us, ms, s, min, h, d.
/// The blank between number and unit may be left out. Errors: a missing or unknown unit, a number that does not
/// parse, a negative quantity, one that does not fit into 63 bits.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

Result<Bytes> parse_bytes(std::string_view text);
Result<Bandwidth> parse_bandwidth(std::string_view text);
Result<Duration> parse_duration(std::string_view text);

/// Three significant digits and the unit that suits: "1.86 GiB", "12.5 ms", "384 GB/s".
std::string to_text(Bytes size);
std::string to_text(Bandwidth rate);
std::string to_text(Duration time);

}  // namespace tracecast
