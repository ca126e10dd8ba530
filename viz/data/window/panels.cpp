#include "viz/data/window/panels.h"

#include <algorithm>
#include <cctype>

#include "viz/data/layout/plan_layout.h"
#include "viz/data/step/buckets.h"
#include "viz/data/step/expert_load.h"
#include "viz/data/step/rings.h"

namespace lockstep::viz {
namespace {

using Contents = const RunContents&;

/// The number of spans of each row that are examined to find out what a run contains.
constexpr std::size_t looked_at = 256;

template <class Visit>
void visit_first(const Lane& lane, Band band, Visit visit) {
  for (const SpanRow& row : lane.rows(band)) {
    const std::size_t count = std::min(row.size(), looked_at);
    for (std::size_t i = 0; i < count; ++i) visit(row.begin()[i]);
  }
}

/// Returns a panel's title as a flag's value: "what-if" for "What if".
std::string in_lower_case(std::string_view title) {
  std::string name{title};
  for (char& letter : name)
    letter =
        letter == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return name;
}

}  // namespace

RunContents contents_of(const Timeline& timeline) {
  RunContents contents;
  contents.communication = !timeline.messages().empty();
  contents.experts = counts_experts(timeline);
  contents.plan = has_plan(timeline.run());
  for (const auto& [step, prediction] : timeline.predictions())
    contents.pipeline |= prediction.stages > 1;
  int stage = -1;  // of the first action
  for (const auto& rank : timeline.ranks()) {
    contents.loss |= !rank->losses.empty();
    contents.shards |= !rank->slices.empty();
    contents.memory |= rank->memory_peak && rank->memory_peak->total() > 0;
    for (const auto& lane : rank->lanes) {
      contents.computation |= !lane->rows(Band::kernel).empty();
      visit_first(*lane, Band::action, [&](const TimelineSpan& span) {
        contents.computation |= computes(span.category);
        contents.communication |= span.category == Category::communication;
        contents.waiting |= span.category == Category::wait;
        contents.buckets = contents.buckets || (span.category == Category::communication &&
                                                is_of_bucket(timeline, span));
        contents.rings = contents.rings || is_of_ring(timeline, span);
        if (!span.is_action()) return;
        if (stage < 0) stage = span.stage;
        contents.pipeline |= span.stage != stage;
      });
    }
  }
  return contents;
}

// clang-format off
const std::array<PanelInfo, 14> all_panels{{
    {Panel::bubble, "Bubble", "where each step goes, and its bubble",
     0.29F, false, [](Contents run) { return run.pipeline; }},
    {Panel::communication, "Communication", "where each step goes, and what is exposed",
     0.29F, false,
     [](Contents run) { return !run.pipeline && run.communication && run.computation; }},
    {Panel::loss, "Loss", "over the steps",
     0.13F, false, [](Contents run) { return run.loss; }},
    {Panel::memory, "Memory", "of each rank over time",
     0.27F, false, [](Contents run) { return run.memory; }},
    {Panel::waits, "Waits", "who waits for whom at the end of a run that has stalled",
     0.5F, true, [](Contents run) { return run.waits; }},
    {Panel::what_if, "What if", "simulate another schedule",
     0.35F, true, [](Contents run) { return run.pipeline; }},
    {Panel::experts, "Experts", "how many tokens each expert gets",
     0.35F, true, [](Contents run) { return run.experts; }},
    {Panel::buckets, "Buckets", "which collectives of data parallelism are hidden by compute",
     0.35F, true, [](Contents run) { return run.buckets && run.computation; }},
    {Panel::traffic, "Traffic", "who sends how much to whom",
     0.35F, true, [](Contents run) { return run.communication; }},
    {Panel::rings, "Rings", "a collective's messages from rank to rank",
     0.35F, true, [](Contents run) { return run.rings; }},
    {Panel::shards, "Shards", "who stores which slice of a tensor",
     0.35F, true, [](Contents run) { return run.shards; }},
    {Panel::plan, "Plan", "the ranks on their nodes, coloured by an axis",
     0.35F, true, [](Contents run) { return run.plan; }},
    {Panel::longest_waits, "Longest waits", "which rank waits for which, and why",
     0.35F, true, [](Contents run) { return run.waiting; }},
    {Panel::retime, "Retime", "time this run with other links or other compute",
     0.35F, true, [](Contents run) { return run.communication || run.computation; }},
}};
// clang-format on

std::vector<Panel> choosable_panels() {
  std::vector<Panel> choices;
  for (const PanelInfo& info : all_panels)
    if (info.choice) choices.push_back(info.panel);
  return choices;
}

std::string panel_names(const std::vector<Panel>& panels) {
  std::string names;
  for (const Panel panel : panels)
    names += (names.empty() ? "" : ", ") + in_lower_case(info_of(panel).name);
  return names;
}

std::optional<Panel> panel_named(std::string_view name) {
  for (const Panel panel : choosable_panels())
    if (panel_names({panel}) == in_lower_case(name)) return panel;
  return std::nullopt;
}

std::optional<Panel> PanelRow::shown(std::optional<Panel> chosen) const {
  if (choices.empty()) return std::nullopt;
  return chosen && std::ranges::count(choices, *chosen) > 0 ? *chosen : choices.front();
}

std::optional<Panel> PanelRow::next(std::optional<Panel> chosen) const {
  const auto now = shown(chosen);
  if (!now) return std::nullopt;
  const auto after = std::ranges::find(choices, *now) + 1;
  return after == choices.end() ? choices.front() : *after;
}

PanelRow panels_for(const RunContents& contents) {
  PanelRow row;
  for (const PanelInfo& info : all_panels)
    if (info.fits(contents)) (info.choice ? row.choices : row.fixed).push_back(info.panel);
  return row;
}

std::pair<std::size_t, std::size_t> range_that_fits(const std::vector<float>& widths,
                                                    std::size_t shown, float room) {
  std::size_t first = 0, last = 0;
  while (last <= shown) room -= widths[last++];
  while (room < 0 && first < shown) room += widths[first++];
  while (last < widths.size() && room >= widths[last]) room -= widths[last++];
  return {first, last};
}

}  // namespace lockstep::viz
