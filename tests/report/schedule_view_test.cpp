#include "sim/report/schedule_view.hpp"

#include <cmath>
#include <regex>

#include <catch2/catch.hpp>

#include "sim/forecast/schedule_runs.hpp"

using namespace tracecast;

namespace {

ScheduleView view_of(const std::string& name, const ScheduleRequest& request) {
  ScheduleView view;
  view.schedule = *make_schedule(name, request);
  view.run = *run_schedule(view.schedule, uniform_times(view.schedule, request.times));
  return view;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

std::string without_colours(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

/// The columns of rank 0, which has one block.
std::string row_of(const std::string& picture) {
  const std::size_t begin = picture.find("\nrank 0  ") + 9;
  return picture.substr(begin, picture.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("a schedule in a terminal, letter by letter", "[report][schedule]") {
  const std::vector<ScheduleView> views{view_of("1f1b", {.ranks = 2, .microbatches = 2})};
  CHECK(schedule_terminal(views, {}) ==
        "1f1b: 2 ranks, 2 micro-batches\n"
        "time    |0             |5\n"
        "rank 0  F0 F1 ......B0    ...B1\n"
        "rank 1  ...F0 B0    F1 B1    ......\n"
        "\n"
        " F  forward   B  backward\n"
        "\n"
        "schedule           makespan      work   bubble  own span  activations  weights\n"
        "1f1b                      9         6  33.33 %   33.33 %         1..2       1x\n"
        "bubble: 1 - mean work / makespan; own span: 1 - mean work / longest rank span\n"
        "activations: most micro-batches kept on a rank\n");
}

TEST_CASE("colours and Unicode say the same in the same columns", "[report][schedule]") {
  const std::vector<ScheduleView> views{view_of("zb-v", {.ranks = 4, .microbatches = 8})};
  const std::string plain = schedule_terminal(views, {.width = 60});
  const std::string coloured = without_colours(schedule_terminal(views, {.width = 60, .colour = true}));
  // Coloured boxes keep their blanks at the end of a line; odd chunks are explained.
  CHECK(coloured.find("Deeper colours: odd chunks of the rank\n") != std::string::npos);
  CHECK(plain.substr(0, plain.find("\n\n")) ==
        std::regex_replace(coloured.substr(0, coloured.find("\n\n")), std::regex(" +\n"), "\n"));
  CHECK(schedule_terminal(views, {.width = 60, .unicode = true}).find("·") != std::string::npos);
}

TEST_CASE("a long step goes on in further blocks, a very long one is compressed", "[report][schedule]") {
  const std::vector<ScheduleView> longer{view_of("gpipe", {.ranks = 2, .microbatches = 60})};
  CHECK(count(schedule_terminal(longer, {.width = 80}), "rank 0  ") == 3);  // 183 columns, 72 in a block
  const std::vector<ScheduleView> very_long{view_of("gpipe", {.ranks = 2, .microbatches = 6000})};
  CHECK(count(schedule_terminal(very_long, {.width = 80}), "rank 0  ") == 1);
}

TEST_CASE("columns of compressed time show their activities in proportion", "[report][schedule]") {
  // At work three quarters of the time: 1 to 7, 9 to 15 …, in every column of 160.
  ScheduleView view = view_of("gpipe", {.ranks = 1, .microbatches = 1000});
  std::vector<ActionSpan>& actions = view.run.actions[0];
  actions.clear();
  for (std::int32_t i = 0; i < 1000; ++i) actions.push_back({{.microbatch = i}, 8 * i + 1, 8 * i + 7});
  view.run.makespan = 8000;
  const std::string picture = schedule_terminal(std::vector{view}, {.width = 58});
  const std::string row = row_of(picture);
  CHECK(row.size() == 50);
  CHECK(std::abs(count(row, "F") - 37.5) < 1);
  CHECK(row.find("..") == std::string::npos);
  CHECK(picture.find("A column is 160 of this time. Columns with several kinds\nof work show them in turns") !=
        std::string::npos);
  // A quarter forwards and a half backwards: each column has both.
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (i % 3 > 0) actions[i].action.kind = ActionKind::backward;
  const std::string mixed = row_of(schedule_terminal(std::vector{view}, {.width = 58}));
  CHECK(std::abs(count(mixed, "F") - 12.5) < 1);
  CHECK(std::abs(count(mixed, "B") - 25) <= 1);
  CHECK(mixed.find("BBB") == std::string::npos);
}

TEST_CASE("a compressed picture of a long pipeline shows forwards and backwards, and its bubble",
          "[report][schedule]") {
  // Backwards take two thirds of every column in the middle.
  const std::vector<ScheduleView> views{view_of("1f1b", {.ranks = 4, .microbatches = 2000})};
  const int width = GENERATE(80, 200);
  const std::string row = row_of(schedule_terminal(views, {.width = width}));
  const int columns = width - 8;
  CHECK(std::abs(count(row, "F") - columns / 3) <= 1);
  CHECK(std::abs(count(row, "B") - 2 * columns / 3) <= 1);
  CHECK(row.find("BBBB") == std::string::npos);
}

TEST_CASE("an SVG has a box per action and the time of each", "[report][schedule]") {
  const std::vector<ScheduleView> views{view_of("zb-h1", {.ranks = 4, .microbatches = 8}),
                                        view_of("dualpipe", {.ranks = 4, .microbatches = 8})};
  const std::string svg = schedule_svg(views);
  std::size_t actions = 0;
  for (const ScheduleView& view : views) {
    for (const auto& list : view.schedule.actions) actions += list.size();
  }
  CHECK(count(svg, "<g>") == static_cast<int>(actions));
  CHECK(count(svg, "<g>") == count(svg, "</g>"));
  CHECK(svg.find("<title>0I0, 7 to 8</title>") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
}

TEST_CASE("an SVG has the width that is asked for, and at most 1600 by itself", "[report][schedule]") {
  const std::vector<ScheduleView> views{view_of("1f1b", {.ranks = 8, .microbatches = 64})};
  const auto width = [](const std::string& svg) { return std::stod(svg.substr(svg.find(" width=\"") + 8)); };
  CHECK(width(schedule_svg(views)) == 1600);
  // The shortest action has space for three letters: 26 pixels for 2 units of 6 (11 + 1), beside 90 of margins.
  const ScheduleTimes doubled{.forward = 2, .backward_input = 2, .backward_weight = 2};
  CHECK(width(schedule_svg(std::vector{view_of("gpipe", {.ranks = 2, .microbatches = 11, .times = doubled})})) == 1026);
  CHECK(width(schedule_svg(views, 960)) == 960);
  CHECK(width(schedule_svg(views, 3000)) == 3000);
  // The legend has a second row where the picture is narrow.
  const std::string narrow = schedule_svg(std::vector{view_of("dualpipe", {.ranks = 4, .microbatches = 8})});
  const std::size_t last = narrow.find("time in the units of --tf");
  REQUIRE(last != std::string::npos);
  const std::size_t left = narrow.rfind("<text x=\"", last) + 9;
  CHECK(std::stod(narrow.substr(left)) + 150 <= width(narrow));
  // The legend has what is drawn: whole backwards only.
  CHECK(schedule_svg(views).find("W weight gradient") == std::string::npos);
}

TEST_CASE("the page has orders of every schedule that flushes", "[report][schedule]") {
  const std::vector<ScheduleView> plain{view_of("1f1b", {.ranks = 4, .microbatches = 8})};
  const std::string page = schedule_page(plain, {"tracecast schedule", "tracecast 1"});
  CHECK(page.find("\"lab\":{\"stages\":[2,3,4,5,6,8]") != std::string::npos);
  CHECK(page.find("\"name\":\"dualpipe\"") != std::string::npos);
  CHECK(page.find("\"name\":\"pipedream\",\"summary\"") == std::string::npos);
  std::vector<ScheduleView> blocking = plain;
  blocking[0].rules = "rendezvous sends";  // which the page does not simulate
  CHECK(schedule_page(blocking, {"tracecast schedule", "tracecast 1"}).find("\"lab\":null") != std::string::npos);
}

TEST_CASE("nothing can end the page's script early", "[report][schedule]") {
  std::vector<ScheduleView> views{view_of("gpipe", {.ranks = 1, .microbatches = 1})};
  views[0].rules = "<!-- </script><b>";
  const std::string page = schedule_page(views, {"tracecast schedule", "tracecast 1"});
  CHECK(count(page, "</script>") == count(page, "<script"));
  CHECK(count(page, "<!--") == 0);
  CHECK(page.find("\\u003c!-- \\u003c/script>\\u003cb>") != std::string::npos);
}

TEST_CASE("names are text in an SVG, whatever they contain", "[report][schedule]") {
  std::vector<ScheduleView> views{view_of("gpipe", {.ranks = 1, .microbatches = 1})};
  views[0].times_from = "r&d<set onbegin=\"x\">";
  const std::string svg = schedule_svg(views);
  CHECK(svg.find("step of r&amp;d&lt;set onbegin=&quot;x&quot;&gt;") != std::string::npos);
  CHECK(svg.find("<set") == std::string::npos);
}
