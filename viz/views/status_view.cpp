#include "viz/views/status_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/views/paragraph.h"
#include "viz/views/tip.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 16;
constexpr std::size_t longest_mesh = 80;
constexpr float source_share = 0.25f;  // of the width, at most, for the source's name
constexpr std::size_t note_columns = 110;
constexpr float gap = 14;
constexpr float line_margin = 6;  // below the lines at the bottom
constexpr float swatch = 12, idle_swatch = 20;

std::string mesh_words(const RunInfo& run) {
  std::string words;
  for (const auto& [axis, size] : run.mesh) {
    if (size == 1 && run.mesh.size() > 1 && run.ranks > 1) continue;
    if (words.size() > longest_mesh) break;
    words += fmt::format("{}{} {}", words.empty() ? "" : " × ", axis, size);
  }
  if (words.empty() && run.ranks > 0)
    words = fmt::format("{} rank{}", run.ranks, run.ranks == 1 ? "" : "s");
  return words;
}

/// Names the straggler of the described step: "straggler: rank 13 (1.07 ms)" or, without one, the
/// rank that the others waited for longest: "waited for: rank 7 (31.2 ms)".
std::string words_of_straggler(const Model& model) {
  if (const Straggler* slow = model.straggler())
    return fmt::format("{} ({})", straggler_name(*slow), duration_words(slow->cost()));
  if (!model.described || !model.described->awaited) return {};
  return fmt::format("waited for: rank {} ({})", model.described->awaited->rank,
                     duration_words(model.described->awaited->time));
}

}  // namespace

std::string clock_words(const RunInfo& run) {
  if (run.clock == "modelled") {
    return "modelled time" + (run.cluster.empty() ? "" : " of cluster " + run.cluster);
  }
  return run.clock == "wall" ? "wall clock" : run.clock;
}

void StatusView::draw_bar(const Painter& painter, const Rect& rect, const Model& model) {
  const Look& look = painter.look();
  const RunInfo& run = model.timeline.run();
  const Source& source = model.source;
  painter.fill(rect, palette.panel);
  painter.line(rect.left, rect.bottom, rect.right, rect.bottom, palette.panel_edge);
  const float middle = (rect.top + rect.bottom) / 2;
  const float pill_top = middle - (size_of(look.small) + painter.px(7)) / 2;
  const float body_top = middle - size_of(look.body) / 2;

  const auto right_pill = [&](float right, const std::string& words, ImU32 colour, bool filled) {
    const float width = painter.text_width(words, look.small) + painter.px(16);
    painter.pill(right - width, pill_top, words, colour, filled);
    return right - width - painter.px(8);
  };
  float right = rect.right - painter.px(edge);
  const int ranks = std::max(run.ranks, static_cast<int>(model.timeline.ranks().size()));
  if (!source.live) {
    right = right_pill(
        right, painter.fitted("from " + source.name, look.small, source_share * rect.width()),
        palette.text_dim, false);
  } else if (model.timeline.ended()) {
    right = right_pill(right, "run ended", palette.text_dim, false);
  } else if (source.connected > 0) {
    right = right_pill(right, fmt::format("live, {} of {} ranks", source.connected, ranks),
                       palette.live, true);
  } else if (source.piped) {
    right = model.timeline.empty()
                ? right_pill(right, "reading " + source.name, palette.accent, false)
                : right_pill(right, "input ended", palette.text_dim, false);
  } else if (!model.timeline.ranks().empty()) {
    right = right_pill(right, "disconnected", palette.trouble, false);
  } else {
    right = right_pill(right, "listening on " + source.name, palette.accent, false);
  }
  if (source.refused > 0) {
    right = right_pill(right, fmt::format("{} refused", source.refused), palette.trouble, false);
  }
  float x = rect.left + painter.px(edge);
  const std::string title = painter.fitted(run.lesson.empty() ? "Lockstep" : run.lesson, look.large,
                                           right - x - painter.px(gap));
  x += painter.text(x, middle - size_of(look.large) / 2, title, palette.text, look.large);
  x += painter.px(gap);
  const std::string clock = run.clock.empty() ? "" : clock_words(run);
  const float clock_width =
      clock.empty() ? 0 : painter.text_width(clock, look.small) + painter.px(16);
  // The clock matters more than the other facts: they are left out if there is no room.
  const float room = right - x - clock_width - painter.px(gap);
  std::string facts;
  for (const std::string& fact : {mesh_words(run), run.device, run.launch}) {
    const std::string longer = facts + (facts.empty() || fact.empty() ? "" : "  ·  ") + fact;
    if (painter.text_width(longer, look.body) + painter.px(gap) > room) break;
    facts = longer;
  }
  if (!facts.empty())
    x += painter.text(x, body_top, facts, palette.text_dim, look.body) + painter.px(gap);
  if (!clock.empty() && x + clock_width <= right)
    x += painter.pill(x, pill_top, clock,
                      run.clock == "wall" ? palette.wall_clock : palette.modelled_clock, false) +
         painter.px(gap) / 2;
  notes_pill_ = {};
  const std::string inferred = "inferred";
  const float width = painter.text_width(inferred, look.small) + painter.px(16);
  if (run.notes.empty() || x + width > right) return;
  painter.pill(x, pill_top, inferred, palette.text_dim, false);
  notes_pill_ = {x, rect.top, x + width, rect.bottom};
}

void StatusView::draw_notes(const Painter& painter, const Model& model) const {
  const RunInfo& run = model.timeline.run();
  if (!notes_pill_.contains(ImGui::GetIO().MousePos)) return;
  std::vector<std::string> lines{"A trace of " + run.tool +
                                 "; facts that Lockstep's own traces state are inferred here"};
  for (const std::string& note : run.notes)
    for (std::string& line : wrapped(note, note_columns)) lines.push_back(std::move(line));
  draw_tip(painter, notes_pill_.top, notes_pill_.bottom, lines, palette.accent);
}

int StatusView::draw_legend(const Painter& painter, const Rect& rect,
                            const std::vector<LegendEntry>& legend, bool draws) {
  const Look& look = painter.look();
  const float row = painter.px(line_height), size = painter.px(swatch);
  float x = rect.left + painter.px(edge), middle = rect.top + row / 2;
  int rows = 1;
  for (const LegendEntry& entry : legend) {
    const float heading = entry.heading.empty()
                              ? 0
                              : painter.text_width(entry.heading, look.small) + painter.px(gap / 2);
    const float box_width = entry.hatch ? painter.px(idle_swatch) : size;
    const float width = heading + box_width + painter.px(5) +
                        painter.text_width(entry.name, look.small) + painter.px(gap);
    if (x > rect.left + painter.px(edge) &&
        x + width - painter.px(gap) > rect.right - painter.px(edge)) {
      x = rect.left + painter.px(edge);
      middle += row;
      ++rows;
    }
    if (draws) {
      const float top = middle - size_of(look.small) / 2, left = x + heading;
      painter.text(x, top, entry.heading, palette.text_dim, look.small);
      const Rect box{left, middle - size / 2, left + box_width, middle + size / 2};
      if (entry.hatch) {
        painter.idle(box, entry.colour, *entry.hatch);
      } else {
        painter.fill(box, entry.colour, painter.px(2));
      }
      painter.text(box.right + painter.px(5), top, entry.name, palette.text_dim, look.small);
    }
    x += width;
  }
  return rows;
}

std::string StatusView::notice_words(const Model& model, const Model* compared) {
  const std::int64_t malformed =
      plus(model.source.malformed, compared ? compared->source.malformed : 0);
  const std::string& notice =
      model.source.notice.empty() && compared ? compared->source.notice : model.source.notice;
  std::string words = notice;
  if (malformed > 0)
    words += fmt::format("{}{} malformed line{} skipped", words.empty() ? "" : "; ", malformed,
                         malformed == 1 ? "" : "s");
  return words;
}

float StatusView::height_of_line(const Painter& painter, float width, const Model& model,
                                 const std::vector<std::string>& axes, const Model* compared) {
  const std::string straggler = compared ? std::string{} : words_of_straggler(model);
  if (!straggler.empty())
    width -= painter.text_width(straggler, painter.look().small) + painter.px(edge);
  const int rows = draw_legend(painter, {0, 0, width, 0}, legend_of(model, axes, compared), false) +
                   (notice_words(model, compared).empty() ? 0 : 1);
  return painter.px(line_height * static_cast<float>(rows) + line_margin);
}

float StatusView::draw_straggler(const Painter& painter, const Rect& rect, Model& model) const {
  const std::string words = words_of_straggler(model);
  if (words.empty()) return rect.right;
  ImFont* small = painter.look().small;
  const float right = rect.right - painter.px(edge);
  const float left = right - painter.text_width(words, small);
  const float top = rect.top + (painter.px(line_height) - size_of(small)) / 2;
  text_with_links(painter, left, top, words, palette.trouble, small, model.view.wanted_rank);
  std::vector<std::string> lines;
  if (const Straggler* slow = model.straggler()) {
    lines.push_back(straggler_words(*slow));
    const StepQuestion question{model.described->step, {change_to_peers_pace(*slow)}};
    if (const StepAnswer* answer = model.retiming.answer_to(question);
        answer && answer->recorded > 0)
      lines.push_back(cost_words(*slow, answer->recorded, answer->changed));
  } else {
    lines.push_back(awaited_words(*model.described->awaited));
  }
  lines.emplace_back("click: go to its row");
  tip(painter, {left, rect.top, right, rect.bottom}, lines);
  return left;
}

void StatusView::draw_line(const Painter& painter, const Rect& rect, Model& model,
                           const std::vector<std::string>& axes, const Model* compared) const {
  const Look& look = painter.look();
  Rect left = rect;
  if (!compared) left.right = draw_straggler(painter, rect, model);
  draw_legend(painter, left, legend_of(model, axes, compared), true);
  const std::string notice = notice_words(model, compared);
  const float top = rect.bottom - (painter.px(line_height) + size_of(look.small)) / 2;
  painter.text(rect.left + painter.px(edge), top,
               painter.fitted(notice, look.small, rect.width() - painter.px(2 * edge)),
               palette.trouble, look.small);
}

}  // namespace lockstep::viz
