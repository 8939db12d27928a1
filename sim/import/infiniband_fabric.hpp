/// \file
/// The cables of an InfiniBand fabric as ibnetdiscover (blocks, or its ports report -p) and iblinkinfo (blocks, or lines with -l) print
/// them. Every link is named at both ends and counted once; ports that are down have no link.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

struct IbPort {
  std::string guid;
  int number = 0;
  auto operator<=>(const IbPort&) const = default;
};

struct IbElement {
  std::string name;
  bool is_switch = false;
  int ports = 0;
  bool listed = false;  ///< has a block of its own
};

struct IbCable {
  Bandwidth rate;
  int line = 0;
};

/// What both programs tell.
struct IbFabric {
  std::map<std::string, IbElement> elements;  ///< by GUID, as hexadecimal digits without leading zeros
  std::map<std::pair<IbPort, IbPort>, IbCable> cables;
  std::int64_t ambiguous = 0;  ///< ends of cables to one of several elements of the same name
};

/// Errors: a line that looks like one of a link or a block, and cannot be read.
Result<IbFabric> read_cables(std::string_view text, const std::string& file);

}  // namespace tracecast
