#include "sim/base/markup.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("text in markup cannot end a value or begin an element", "[base]") {
  CHECK(markup_text(R"(a & b <i x="1">)") == "a &amp; b &lt;i x=&quot;1&quot;&gt;");
  CHECK(markup_text("&lt;") == "&amp;lt;");  // text, not markup that is already written
  CHECK(markup_text("two\nlines, µ") == "two lines, µ");
  CHECK(markup_text("") == "");
}

TEST_CASE("text in JSON is quoted, and bytes that are not UTF-8 are replaced", "[base]") {
  CHECK(json_text("a\"b\\c\n") == R"("a\"b\\c\n")");
  CHECK(json_text("a\xff") == "\"a\xef\xbf\xbd\"");
}
