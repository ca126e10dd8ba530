#include "viz/views/status_view.h"

#include <fmt/format.h>

#include <iterator>

namespace lockstep::viz {
namespace {

constexpr float edge = 16;
constexpr std::size_t longest_mesh = 80;
constexpr std::size_t most_axes = 6;
constexpr float gap = 14;
constexpr float swatch = 12;

std::string mesh_words(const RunInfo& run) {
  std::string words;
  for (const auto& [axis, size] : run.mesh) {
    if (size == 1 && run.mesh.size() > 1 && run.ranks > 1) continue;
    if (words.size() > longest_mesh) break;
    words += fmt::format("{}{} {}", words.empty() ? "" : " × ", axis, size);
  }
  if (words.empty() && run.ranks > 0) words = fmt::format("{} ranks", run.ranks);
  return words;
}

}  // namespace

std::string clock_words(const RunInfo& run) {
  if (run.clock == "modelled") {
    return "modelled time" + (run.cluster.empty() ? "" : " of cluster " + run.cluster);
  }
  return run.clock == "wall" ? "wall clock" : run.clock;
}

void StatusView::draw_bar(const Painter& painter, const Rect& rect, const Model& model) const {
  const Look& look = painter.look();
  const RunInfo& run = model.timeline.run();
  const Source& source = model.source;
  painter.fill(rect, colours::panel);
  painter.line(rect.left, rect.bottom, rect.right, rect.bottom, colours::panel_edge);
  const float middle = (rect.top + rect.bottom) / 2;
  const float pill_top = middle - (size_of(look.small) + painter.px(7)) / 2;
  const float body_top = middle - size_of(look.body) / 2;

  float x = rect.left + painter.px(edge);
  const std::string title = run.lesson.empty() ? "Lockstep" : run.lesson;
  x += painter.text(x, middle - size_of(look.large) / 2, title, colours::text, look.large);
  x += painter.px(gap);
  std::string facts = mesh_words(run);
  for (const std::string& fact : {run.device, run.launch}) {
    if (!fact.empty()) facts += (facts.empty() ? "" : "  ·  ") + fact;
  }
  if (!facts.empty()) {
    x += painter.text(x, body_top, facts, colours::text_dim, look.body) + painter.px(gap);
  }
  if (!run.clock.empty()) {
    const bool wall = run.clock == "wall";
    painter.pill(x, pill_top, clock_words(run),
                 wall ? colours::wall_clock : colours::modelled_clock, false);
  }

  const auto right_pill = [&](float right, const std::string& words, ImU32 colour, bool filled) {
    const float width = painter.text_width(words, look.small) + painter.px(16);
    painter.pill(right - width, pill_top, words, colour, filled);
    return right - width - painter.px(8);
  };
  float right = rect.right - painter.px(edge);
  const int ranks = std::max(run.ranks, static_cast<int>(model.timeline.ranks().size()));
  if (!source.live) {
    right = right_pill(right, "from " + source.name, colours::text_dim, false);
  } else if (model.timeline.ended()) {
    right = right_pill(right, "run ended", colours::text_dim, false);
  } else if (source.connected > 0) {
    right = right_pill(right, fmt::format("live, {} of {} ranks", source.connected, ranks),
                       colours::live, true);
  } else if (source.piped) {
    right = model.timeline.empty()
                ? right_pill(right, "reading " + source.name, colours::accent, false)
                : right_pill(right, "input ended", colours::text_dim, false);
  } else if (!model.timeline.ranks().empty()) {
    right = right_pill(right, "disconnected", colours::trouble, false);
  } else {
    right = right_pill(right, "listening on " + source.name, colours::accent, false);
  }
  if (source.refused > 0) {
    right_pill(right, fmt::format("{} refused", source.refused), colours::trouble, false);
  }
}

void StatusView::draw_line(const Painter& painter, const Rect& rect, const Model& model,
                           const std::vector<std::string>& axes, const Model* compared) const {
  const Look& look = painter.look();
  struct Entry {
    const char* name;
    Category category;
  };
  constexpr Entry whole[] = {{"forward", Category::forward}, {"backward", Category::backward}};
  constexpr Entry halves[] = {{"forward", Category::forward},
                              {"input gradient", Category::backward_input},
                              {"weight gradient", Category::backward_weight}};
  constexpr Entry rest[] = {{"optimizer", Category::optimizer},
                            {"communication", Category::communication}};
  const float middle = (rect.top + rect.bottom) / 2;
  const float top = middle - size_of(look.small) / 2;
  const float size = painter.px(swatch);
  float x = rect.left + painter.px(edge);
  const auto entry = [&](const char* name, ImU32 colour, bool idle = false) {
    const Rect box{x, middle - size / 2, x + size, middle + size / 2};
    if (idle) {
      painter.idle(box, colour);
    } else {
      painter.fill(box, colour, painter.px(2));
    }
    x += size + painter.px(5);
    x += painter.text(x, top, name, colours::text_dim, look.small) + painter.px(gap);
  };
  // The first rank's spans show which kinds of backward action the run has.
  bool has_halves = false;
  if (!model.timeline.ranks().empty()) {
    const Lane* compute = model.timeline.ranks().front()->compute();
    if (compute && !compute->rows(Band::action).empty()) {
      const SpanRow& row = compute->rows(Band::action).front();
      const std::size_t looked_at = std::min<std::size_t>(row.size(), 200);
      for (std::size_t i = row.size() - looked_at; i < row.size(); ++i) {
        has_halves |= row[i].category == Category::backward_weight;
      }
    }
  }
  const Entry* first = has_halves ? std::begin(halves) : std::begin(whole);
  const Entry* last = has_halves ? std::end(halves) : std::end(whole);
  for (const Entry* each = first; each != last; ++each) {
    entry(each->name, colour_of(each->category));
  }
  for (const Entry& each : rest) entry(each.name, colour_of(each.category));
  const auto heading = [&](const char* words) {
    x += painter.text(x, top, words, colours::text_dim, look.small) + painter.px(gap / 2);
  };
  if (!axes.empty()) heading("exposed:");
  const std::vector<int> slots = axis_slots(axes);
  for (std::size_t i = 0; i < std::min(axes.size(), most_axes); ++i)
    entry(std::string{beginning(axes[i])}.c_str(), colour_of(StepPart::transfer, slots[i]), true);
  if (model.contents.pipeline) {
    heading("bubble:");
    for (const StepPart part : {StepPart::cool_down, StepPart::warm_up, StepPart::waiting})
      entry(name_of(part), colour_of(part), true);
  }
  entry(name_of(StepPart::other), colour_of(StepPart::other), true);

  float right = rect.right - painter.px(edge);
  const std::int64_t malformed =
      plus(model.source.malformed, compared ? compared->source.malformed : 0);
  if (malformed > 0) {
    right -= painter.text(right - painter.px(2 * gap), top,
                          fmt::format("{} malformed lines skipped", malformed), colours::trouble,
                          look.small, Align::right) +
             painter.px(2 * gap);
  }
  const std::string& notice =
      model.source.notice.empty() && compared ? compared->source.notice : model.source.notice;
  if (!notice.empty())
    painter.text(right - painter.px(2 * gap), top, notice, colours::trouble, look.small,
                 Align::right);
}

}  // namespace lockstep::viz
