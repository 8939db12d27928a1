/// A cluster as SVG: the tiers of the fabric on top, one per row; below them the first node in detail, others as boxes.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "sim/base/markup.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/report/svg.hpp"
#include "sim/report/topology_report.hpp"

namespace tracecast {
namespace {

constexpr double kWidth = 1000;
constexpr double kLeft = 150;  // space for the names of the rows
constexpr double kBox = 34;
constexpr double kRow = 86;
constexpr int kMaxBoxes = 12;
constexpr int kMaxGpus = 16;

/// Boxes are light with black text on every page; lines and other text use the page's colours.
constexpr SvgStyle kStyle{.light = "--line:#8a94a0;--panel:#f3f5f7",
                          .dark = "--line:#7d8894;--panel:#1f262d",
                          .text_rules = ".box text{fill:#111;font-size:11px;text-anchor:middle}",
                          .rules =
                              "\nrect{rx:4px}.box rect{stroke:#00000055}.panel{fill:var(--panel);stroke:var(--line)}\n"
                              "line,path{stroke:var(--line);fill:none}.strong{stroke-width:2}",
                          .page_rule = ";rx:0"};

const char* colour_of_tier(int tier) {
  constexpr const char* kColours[] = {"#77aadd", "#eedd88", "#ee8866", "#ffaabb"};
  return kColours[std::clamp(tier, 0, 3)];
}

struct Point {
  double x = 0;
  double y = 0;
};

class Drawing {
 public:
  Drawing(const Topology& topology, const TopologyReport& report) : topology_(topology), report_(report) {}

  std::string draw() {
    picture_.text(20, 28, report_.name, "title");
    picture_.text(20, 48, summary(), "soft");
    y_ = 70;
    if (topology_.vertex_count() > topology_.first_switch()) draw_fabric();
    draw_nodes();
    draw_links();
    return picture_.document(kWidth, y_ + 16, report_.name, kStyle, back_.elements() + lines_.elements());
  }

 private:
  std::string summary() const {
    std::string line = fmt::format("{} GPU{} on {} node{}, fabric {}", grouped(report_.ranks), plural(report_.ranks),
                                   grouped(report_.nodes), plural(report_.nodes), report_.fabric);
    if (report_.bisection.bytes_per_second > 0) line += ", bisection " + to_text(report_.bisection);
    return line;
  }

  /// Returns the middle of the box.
  Point box(double x, double y, double width, double height, const char* fill, const std::string& label,
            const std::string& title) {
    picture_.add(fmt::format("<g class=\"box\"><title>{}</title>{}<text x=\"{:.6g}\" y=\"{:.6g}\">{}</text></g>",
                             markup_text(title), svg_rect(x, y, width, height, fmt::format("fill=\"{}\"", fill)),
                             x + width / 2, y + height / 2 + 4, markup_text(label)));
    return {x + width / 2, y + height / 2};
  }

  void line(Point a, Point b, const char* style = "") { lines_.line(a.x, a.y, b.x, b.y, style); }

  void draw_fabric() {
    if (const auto* tree = std::get_if<TreeFabric>(&topology_.fabric())) return draw_tree(*tree);
    if (const auto* dragonfly = std::get_if<DragonflyFabric>(&topology_.fabric())) return draw_dragonfly(*dragonfly);
    draw_torus(std::get<TorusFabric>(topology_.fabric()));
  }

  /// Draws the planes of one tier (only the first ones if there are many); stores their centres by plane number.
  void draw_tier(const TreeFabric& tree, int tier, std::map<int, Point>& places) {
    std::vector<int> planes;
    for (std::size_t i = 0; i < tree.planes().size(); ++i)
      if (tree.planes()[i].tier == tier) planes.push_back(static_cast<int>(i));
    const int shown = std::min(static_cast<int>(planes.size()), kMaxBoxes);
    const bool more = static_cast<int>(planes.size()) > shown;
    const double available = kWidth - kLeft - 20 - (more ? 90 : 0);
    const double width = std::min(170.0, available / shown - 8);
    for (int i = 0; i < shown; ++i) {
      const int number = planes[static_cast<std::size_t>(i)];
      const TreeFabric::Plane& plane = tree.planes()[static_cast<std::size_t>(number)];
      const std::string name = topology_.name(topology_.first_switch() + plane.first_switch);
      const double x = kLeft + available * (i + 0.5) / shown - width / 2;
      const std::string label = plane.devices > 1 ? fmt::format("{} \u00d7{}", name, plane.devices) : name;
      places[number] =
          box(x, y_, width, kBox, colour_of_tier(tier), label, fmt::format("{}: {} switches", name, plane.devices));
    }
    const std::size_t named = static_cast<std::size_t>(tier);
    const auto& tiers = topology_.cluster().tiers;
    picture_.text(kLeft - 12, y_ + kBox / 2, named < tiers.size() ? tiers[named].name : "switch", "end");
    std::int64_t devices = 0;
    for (const int plane : planes) devices += tree.planes()[static_cast<std::size_t>(plane)].devices;
    picture_.text(kLeft - 12, y_ + kBox / 2 + 15, fmt::format("{} in all", grouped(devices)), "soft end");
    if (more)
      picture_.text(kWidth - 20, y_ + kBox / 2 + 4,
                    fmt::format("\u2026 {} more", grouped(static_cast<std::int64_t>(planes.size()) - shown)),
                    "soft end");
  }

  void draw_tree(const TreeFabric& tree) {
    std::map<int, Point> places;
    const int tiers = tree.planes().back().tier + 1;
    for (int tier = tiers; tier-- > 0;) {
      draw_tier(tree, tier, places);
      y_ += kRow;
      const std::string rates = tier > 0 ? rate_between(tier - 1) : rate_of("NIC - ");
      picture_.text(kLeft - 12, y_ - 24, rates, "soft end");
    }
    for (const auto& [number, place] : places) {
      const TreeFabric::Plane& plane = tree.planes()[static_cast<std::size_t>(number)];
      const auto parent = places.find(plane.parent);
      if (parent != places.end()) line({place.x, place.y - kBox / 2}, {parent->second.x, parent->second.y + kBox / 2});
      if (plane.tier == 0) leaves_[plane.first_switch] = {place.x, place.y + kBox / 2};
    }
  }

  /// "4,096 x 50 GB/s" of the links above a tier.
  std::string rate_between(int tier) const {
    const auto& tiers = topology_.cluster().tiers;
    return static_cast<std::size_t>(tier) < tiers.size() ? rate_of(tiers[static_cast<std::size_t>(tier)].name + " - ")
                                                         : "";
  }
  std::string rate_of(const std::string& begin) const {
    for (const TopologyPart& part : report_.links)
      if (part.name.starts_with(begin) && !part.name.ends_with("PCIe switch"))
        return fmt::format("{} \u00d7 {}", grouped(part.count), to_text(part.each));
    return "";
  }

  void draw_dragonfly(const DragonflyFabric& fabric) {
    const int shown = std::min(fabric.groups(), kMaxBoxes);
    const double radius = shown > 1 ? 130 : 0;
    const Point middle{kLeft + (kWidth - kLeft - 20) / 2, y_ + radius + kBox};
    std::vector<Point> places;
    for (int group = 0; group < shown; ++group) {
      const double angle = 6.283185307 * group / shown + 1.570796327;  // group 0 at the bottom, next to its nodes
      const Point at{middle.x + 2.4 * radius * std::cos(angle), middle.y + radius * std::sin(angle)};
      places.push_back(box(at.x - 45, at.y - kBox / 2, 90, kBox, colour_of_tier(0),
                           fmt::format("group {} \u00d7{}", group, fabric.routers()),
                           fmt::format("group {}: {} routers, each joined with each", group, fabric.routers())));
    }
    for (int a = 0; a < shown; ++a)
      for (int b = a + 1; b < shown; ++b)
        line(places[static_cast<std::size_t>(a)], places[static_cast<std::size_t>(b)]);
    picture_.text(kLeft - 12, middle.y - 8, "dragonfly", "end");
    picture_.text(kLeft - 12, middle.y + 8, fmt::format("{} groups", grouped(fabric.groups())), "soft end");
    picture_.text(kLeft - 12, middle.y + 24, "between two:", "soft end");
    picture_.text(kLeft - 12, middle.y + 40,
                  fmt::format("{} \u00d7 {}", fabric.global_links(), to_text(topology_.cluster().node.nic_rate)),
                  "soft end");
    if (fabric.groups() > shown)
      picture_.text(kLeft - 12, middle.y + 56, fmt::format("\u2026 {} more", grouped(fabric.groups() - shown)),
                    "soft end");
    for (int router = 0; router < fabric.routers(); ++router) leaves_[router] = {places[0].x, places[0].y + kBox / 2};
    y_ = middle.y + radius + kRow;
  }

  void draw_torus(const TorusFabric& fabric) {
    std::vector<int> lengths;
    std::string product;
    for (const int length : fabric.lengths()) {
      product += (product.empty() ? "" : " \u00d7 ") + std::to_string(length);
      if (length > 1) lengths.push_back(length);
    }
    const int columns = std::min(10, lengths.empty() ? 1 : *std::max_element(lengths.begin(), lengths.end()));
    const int rows = std::min(4, lengths.size() < 2 ? 1 : *std::max_element(lengths.begin(), lengths.end() - 1));
    const double pitch = 70;
    const double x0 = kLeft + (kWidth - kLeft - 20 - pitch * columns) / 2;
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) {
        const Point at{x0 + pitch * (column + 0.5), y_ + 24 + 50.0 * row};
        box(at.x - 16, at.y - 11, 32, 22, colour_of_tier(0), "", "router");
        line(at, {at.x + pitch * 0.5, at.y});
        line(at, {at.x - pitch * 0.5, at.y});
        line(at, {at.x, at.y + 25});
        line(at, {at.x, at.y - 25});
        if (row + 1 == rows && column == columns / 2) leaves_[0] = {at.x, at.y + 11};
      }
    picture_.text(kLeft - 12, y_ + 30, "torus", "end");
    picture_.text(kLeft - 12, y_ + 46, grouped(fabric.switch_count()) + " routers", "soft end");
    picture_.text(kLeft - 12, y_ + 78, fmt::format("{} dimensions", fabric.lengths().size()), "soft end");
    picture_.text(kLeft + (kWidth - kLeft - 20) / 2, y_ - 8, "torus of " + product, "soft mid");
    picture_.text(kLeft - 12, y_ + 62, to_text(topology_.cluster().node.nic_rate) + " a link", "soft end");
    y_ += 50.0 * rows + 40;
  }

  void draw_nodes() {
    const double top = y_;
    const double width = topology_.nodes() > 1 ? 640 : kWidth - kLeft - 20;
    draw_first_node(kLeft, top, width);
    const int shown = std::min(topology_.nodes() - 1, 5);
    for (int i = 0; i < shown; ++i) {
      const double y = top + 38.0 * i;
      box(kLeft + width + 20, y, 110, 30, "#dddddd", fmt::format("node{}", i + 1),
          fmt::format("node {}: like node 0", i + 1));
    }
    if (topology_.nodes() - 1 > shown)
      picture_.text(kLeft + width + 75, top + 38.0 * shown + 16,
                    fmt::format("\u2026 {} more", grouped(topology_.nodes() - 1 - shown)), "soft mid");
    y_ = std::max(y_, top + 38.0 * shown + 30);
  }

  void draw_first_node(double x, double y, double width) {
    const NodeLayout& layout = topology_.node();
    const NodeSpec& node = topology_.cluster().node;
    const int gpus = layout.gpus > kMaxGpus ? std::min(8, 2 * node.gpus_per_host) : layout.gpus;
    const int nics = std::min(layout.nics, layout.gpus > gpus ? 2 * node.nics : layout.nics);
    const bool switches = layout.nvswitches > 0;
    const int rows = (nics > 0 ? 1 : 0) + 2 + (switches || layout.mesh ? 1 : 0);
    const double height = 28 + 58 * (rows - 1) + 26 + 16;
    back_.rect(x, y, width, height, "class=\"panel\"");
    picture_.text(x + 10, y + 18, "node0", "soft");
    double row = y + 28;
    const auto column = [&](int i, int count) { return x + 14 + (width - 28) * (i + 0.5) / count; };
    const auto draw_row = [&](int count, int all, const char* fill, const char* name, VertexKind kind) {
      const double wide = std::min(64.0, (width - 28) / count - 4);
      for (int i = 0; i < count; ++i) {
        const double middle = column(i, count);
        box(middle - wide / 2, row, wide, 26, fill, wide > 40 ? fmt::format("{} {}", name, i) : std::to_string(i),
            fmt::format("{} {}", name, i));
        places_[{kind, i}] = {middle, row + 13};
      }
      if (all > count)
        picture_.text(x + width - 10, row - 6, fmt::format("the first {} of {}", count, all), "soft end");
      row += 58;
    };
    if (nics > 0) draw_row(nics, layout.nics, "#99ddff", "NIC", VertexKind::nic);
    const int pcie = std::min(layout.pcie_switches,
                              gpus < layout.gpus ? topology_.pcie_switch_of_gpu(gpus - 1) + 1 : layout.pcie_switches);
    draw_row(pcie, layout.pcie_switches, "#dddddd", "PCIe", VertexKind::pcie_switch);
    draw_row(gpus, layout.gpus, "#44bb99", "GPU", VertexKind::gpu);
    if (switches || layout.mesh) {
      const std::string what =
          switches ? (node.nvswitches > 1 ? fmt::format("NVSwitch \u00d7{}", node.nvswitches) : "NVSwitch")
                   : "links between every two GPUs";
      box(x + 14, row, width - 28, 26, "#bbcc33", fmt::format("{}, {} a GPU", what, to_text(node.gpu_link)), what);
      for (int gpu = 0; gpu < gpus; ++gpu)
        line(places_[{VertexKind::gpu, gpu}], {column(gpu, gpus), row + 13}, "strong");
      row += 58;
    }
    label_rows(y, nics > 0, node);
    y_ = y + height;
  }

  void label_rows(double y, bool nics, const NodeSpec& node) {
    double row = y + 45;
    if (nics) {
      picture_.text(kLeft - 12, row, fmt::format("NIC {}", to_text(node.nic_rate)), "soft end");
      row += 58;
    }
    picture_.text(kLeft - 12, row, fmt::format("PCIe {}", to_text(node.pcie)), "soft end");
    picture_.text(kLeft - 12, row + 15, fmt::format("to host: {}", to_string(node.cpu)), "soft end");
    picture_.text(kLeft - 12, row + 58, report_.gpu, "soft end");
  }

  void draw_links() {
    const auto place = [&](VertexKind kind, int index) {
      const auto found = places_.find({kind, index});
      return found == places_.end() ? nullptr : &found->second;
    };
    for (int nic = 0; nic < topology_.node().nics; ++nic) {
      const Point* at = place(VertexKind::nic, nic);
      if (at == nullptr) continue;
      const Point* pcie = place(VertexKind::pcie_switch, topology_.pcie_switch_of_nic(nic));
      if (pcie != nullptr) line(*at, *pcie);
      const auto leaf = leaves_.find(topology_.attached(0, nic));
      if (leaf != leaves_.end()) line(*at, leaf->second);
    }
    for (int gpu = 0; gpu < topology_.node().gpus; ++gpu) {
      const Point* at = place(VertexKind::gpu, gpu);
      const Point* pcie = at == nullptr ? nullptr : place(VertexKind::pcie_switch, topology_.pcie_switch_of_gpu(gpu));
      if (pcie != nullptr) line(*at, *pcie);
    }
  }

  const Topology& topology_;
  const TopologyReport& report_;
  double y_ = 0;
  SvgCanvas back_;  ///< drawn first, then lines, then boxes and text
  SvgCanvas lines_;
  SvgCanvas picture_;
  std::map<int, Point> leaves_;  ///< lower edge of switches that NICs hang on, by fabric number
  std::map<std::pair<VertexKind, int>, Point> places_;
};

}  // namespace

std::string topology_svg(const Topology& topology, const TopologyReport& report) {
  return Drawing(topology, report).draw();
}

}  // namespace tracecast
