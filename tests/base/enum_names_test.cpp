#include "sim/base/enum_names.hpp"

#include <catch2/catch.hpp>

namespace {
enum class Fruit { apple, pear };
}

template <>
struct tracecast::EnumNames<Fruit> {
  static constexpr NamedValue<Fruit> table[] = {{Fruit::apple, "apple"}, {Fruit::pear, "green-pear"}};
};

using namespace tracecast;

TEST_CASE("enum names: a name and its value find each other", "[base]") {
  static_assert(std::string_view(to_string(Fruit::pear)) == "green-pear");
  static_assert(parse_enum<Fruit>("apple") == Fruit::apple);
  CHECK(parse_enum<Fruit>("pear") == std::nullopt);
  CHECK(all_names<Fruit>() == "apple green-pear");
  CHECK(named_values<Fruit>() ==
        std::vector<std::pair<std::string, Fruit>>{{"apple", Fruit::apple}, {"green-pear", Fruit::pear}});
}
