#include <nlohmann/json.hpp>

#include "sim/report/page_parts.hpp"
#include "sim/report/page_sources.hpp"
#include "sim/report/schedule_colours.hpp"
#include "sim/report/schedule_orders.hpp"
#include "sim/report/schedule_view.hpp"

namespace tracecast {

namespace {

using Json = nlohmann::ordered_json;

int kind_number(ActionKind kind) { return static_cast<int>(kind); }

/// [kind, stage, micro-batch, start, end, chunk], and for an overlapped pair [.., stage2, micro-batch2, chunk2].
Json boxes_of(const ScheduleView& view, std::size_t rank) {
  const std::vector<int>& stages = view.schedule.stage_of[rank];
  Json list = Json::array();
  for (const ActionSpan& span : view.run.actions[rank]) {
    const Action& a = span.action;
    Json box{
        kind_number(a.kind), stages[static_cast<std::size_t>(a.chunk)], a.microbatch, span.start, span.end, a.chunk};
    if (a.kind == ActionKind::forward_backward) {
      box.insert(box.end(), {stages[static_cast<std::size_t>(a.chunk2)], a.microbatch2, a.chunk2});
    }
    list.push_back(std::move(box));
  }
  return list;
}

Json data_of(const ScheduleView& view) {
  const Schedule& s = view.schedule;
  Json json;
  json["name"] = s.name;
  json["ranks"] = s.ranks;
  json["microbatches"] = s.microbatches;
  json["chunks"] = s.chunks;
  json["replicas"] = s.replicas;
  json["weight_versions"] = s.weight_versions;
  json["rules"] = view.rules;
  json["times_from"] = view.times_from;
  json["scale"] = view.run.scale;
  json["makespan"] = view.run.makespan;
  json["work"] = view.run.work;
  json["bubble"] = view.run.bubble_fraction;
  const bool of_step = !view.times_from.empty();
  json["own_span_bubble"] = of_step ? Json() : Json(view.run.own_span_bubble_fraction);
  json["steady"] = !s.flush;
  json["kept_at_start"] = view.run.kept_at_start;
  json["unit"] = activation_unit(s);
  json["boxes"] = Json::array();
  for (std::size_t rank = 0; rank < s.actions.size(); ++rank) json["boxes"].push_back(boxes_of(view, rank));
  return json;
}

/// True if the page's own runs give this view: a schedule of the table that flushes, with latencies only.
bool is_plain(const ScheduleView& view) {
  const ScheduleVariant* variant = find_schedule(view.schedule.name);
  return variant != nullptr && view.rules.empty() && view.times_from.empty() && view.schedule.flush &&
         view.overlapped.empty();
}

/// What the page's sliders choose from; null if some view is not plain.
Json lab_of(std::span<const ScheduleView> views) {
  std::vector<ScheduleSize> sizes;
  for (const ScheduleView& view : views) {
    const Schedule& s = view.schedule;
    if (!is_plain(view) || s.microbatches > 64 || s.chunks > 16) return nullptr;
    sizes.push_back({s.ranks, s.microbatches, s.chunks});
  }
  Json lab = Json::parse(schedule_orders(sizes));
  const ScheduleView& first = views.front();
  lab["times"] = {
      {"f", first.forward}, {"i", first.backward_input}, {"w", first.backward_weight}, {"latency", first.latency}};
  return lab;
}

}  // namespace

std::string schedule_page(std::span<const ScheduleView> views, const PageMetadata& metadata) {
  Json data;
  data["command"] = metadata.command;
  data["version"] = metadata.version;
  data["colours"] = {kForwardColour, kBackwardColour, kInputColour, kWeightColour};
  data["views"] = Json::array();
  for (const ScheduleView& view : views) data["views"].push_back(data_of(view));
  data["lab"] = lab_of(views);
  return page_with_data(kSchedulePage, data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace tracecast
