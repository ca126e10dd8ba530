#include "viz/views/comparison_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/data/step/words.h"
#include "viz/views/imgui_shim.h"
#include "viz/views/status_view.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 16;
constexpr float gap = 12;
constexpr float badge_size = 20;

const char* letter_of(Side side) {
  return side == Side::a ? "A" : "B";
}

/// Draws a run's letter in a box; A's is hollow. Returns its width.
float badge(const Painter& painter, float x, float middle, Side side) {
  const Look& look = painter.look();
  const float half = painter.px(badge_size) / 2;
  const Rect box{x, middle - half, x + 2 * half, middle + half};
  const bool solid = side == Side::b;
  if (solid) {
    painter.fill(box, palette.text, painter.px(4));
  } else {
    painter.frame(box, palette.text, painter.px(4), painter.px(1.5f));
  }
  painter.text((box.left + box.right) / 2, middle - size_of(look.bold) / 2, letter_of(side),
               solid ? palette.background : palette.text, look.bold, Align::centre);
  return 2 * half;
}

}  // namespace

bool ComparisonView::draw_bar(const Painter& painter, const Rect& rect, ComparedRuns& runs) const {
  const Look& look = painter.look();
  painter.fill(rect, palette.panel);
  painter.line(rect.left, rect.bottom, rect.right, rect.bottom, palette.panel_edge);
  const float middle = (rect.top + rect.bottom) / 2;
  const std::string layout = "V  One run at a time";
  const std::string exchange = runs.alternates()
                                   ? fmt::format("X  Show {}", runs.shows(Side::a) ? "B" : "A")
                                   : "X  Show B alone";
  const float buttons = ButtonRow::width_of(painter, layout) +
                        ButtonRow::width_of(painter, exchange) - ButtonRow::gap_of(painter);
  ButtonRow row{painter, rect, rect.right - painter.px(edge) - buttons};
  if (row.button(layout, runs.alternates(), "both runs, A above B, or one of them at a time"))
    runs.toggle_layout();
  if (row.button(exchange, false, "exchange A and B in the same place: what moves differs"))
    runs.exchange();

  float x = rect.left + painter.px(edge);
  const float right = rect.right - painter.px(2 * edge) - buttons;
  for (const Side side : both_sides) {
    const RunInfo& run = runs.model(side).timeline.run();
    if (side == Side::b)
      x += painter.text(x, middle - size_of(look.body) / 2, "compared with", palette.text_dim,
                        look.body) +
           painter.px(gap);
    x += badge(painter, x, middle, side) + painter.px(gap) / 2;
    const std::string name =
        painter.fitted(run.lesson.empty() ? runs.model(side).source.name : run.lesson, look.large,
                       (right - rect.left) / 4);
    x += painter.text(x, middle - size_of(look.large) / 2, name, palette.text, look.large) +
         painter.px(gap);
  }
  const float pill_top = middle - (size_of(look.small) + painter.px(7)) / 2;
  const float warning = painter.text_width(runs.warning(), look.small) + painter.px(2 * gap);
  if (!runs.warning().empty() && x + warning <= right) {
    painter.pill(x, pill_top, runs.warning(), palette.trouble, true);
    return true;
  }
  const std::string clock = clock_words(runs.model(Side::a).timeline.run());
  if (runs.configurations().clocks_differ || clock.empty() ||
      x + painter.text_width(clock, look.small) + painter.px(2 * gap) > right)
    return runs.warning().empty();
  const bool wall = runs.model(Side::a).timeline.run().clock == "wall";
  painter.pill(x, pill_top, clock, wall ? palette.wall_clock : palette.modelled_clock, false);
  return runs.warning().empty();
}

void ComparisonView::draw_warning(const Painter& painter, const Rect& rect,
                                  const ComparedRuns& runs) const {
  const Look& look = painter.look();
  painter.fill(rect, faded(palette.trouble, 0.18f));
  painter.text(rect.left + painter.px(edge), (rect.top + rect.bottom - size_of(look.bold)) / 2,
               painter.fitted(runs.warning(), look.bold, rect.width() - painter.px(2 * edge)),
               palette.trouble, look.bold);
}

void ComparisonView::draw_head(const Painter& painter, const Rect& rect, ComparedRuns& runs,
                               Side side) const {
  const Look& look = painter.look();
  const Timeline& timeline = runs.model(side).timeline;
  const StepMetrics& metrics = runs.metrics(side);
  const float middle = (rect.top + rect.bottom) / 2;
  ImGui::PushID(letter_of(side));
  float x = rect.left + painter.px(edge);
  x += badge(painter, x, middle, side) + painter.px(gap) / 2;
  const std::string& schedule = timeline.prediction(metrics.step).schedule;
  const std::string name = schedule.empty() ? timeline.run().lesson : schedule;
  x += painter.text(x, middle - size_of(look.bold) / 2,
                    painter.fitted(name, look.bold, painter.px(200)), palette.text, look.bold) +
       painter.px(gap);
  ButtonRow row{painter, rect, x};
  if (row.button("<", false, "an earlier step of this run")) runs.go_by_steps(side, -1);
  row.text(fmt::format("step {}", metrics.step), palette.text);
  if (row.button(">", false, "a later step of this run")) runs.go_by_steps(side, 1);
  ImGui::PopID();

  std::string facts = duration_words(metrics.time());
  if (metrics.bubble)
    facts += "   bubble, first to last action " + percent_words(metrics.bubble->share());
  if (const RankMetrics* most = metrics.most_memory())
    facts += fmt::format("   peak memory {} on rank {}", bytes_words(*most->memory), most->rank);
  if (runs.configurations().clocks_differ) facts += "   " + clock_words(timeline.run());
  painter.text(rect.right - painter.px(edge), middle - size_of(look.small) / 2,
               painter.fitted(facts, look.small, 0.6f * rect.width()), palette.text_dim, look.small,
               Align::right);
}

void ComparisonView::draw_letter(const Painter& painter, const Rect& card, Side side) const {
  badge(painter, (card.left + card.right) / 2, card.top + painter.px(badge_size - 4), side);
}

ComparedTimeline ComparisonView::timeline_of(const ComparedRuns& runs, Side side) {
  const Side other = other_side(side);
  const StepMetrics &mine = runs.metrics(side), &theirs = runs.metrics(other);
  ComparedTimeline compared{
      .takes_keys = side == runs.leads(),
      .has_axis = side == Side::a || !runs.shows(Side::a) || runs.configurations().clocks_differ,
      .step = mine.window,
      .other_end = mine.window.start + theirs.time()};
  if (!runs.configurations().clocks_differ)
    compared.other_words = mine.time() == theirs.time()
                               ? fmt::format("{} ends here too", letter_of(other))
                               : fmt::format("{} ends here", letter_of(other));
  for (const ComparedRank& rank : runs.ranks()) {
    const ComparedValue* value = rank.marked();
    ComparedTimeline::Note note{.words = "same", .brief = "same", .marked = value != nullptr};
    if (!rank.idle.a || !rank.idle.b) {
      note.words = note.brief = fmt::format("only in {}", letter_of(side));
    } else if (value && side == Side::a) {
      note.brief = value_words(value->unit, value->a);
      note.words = value->name + " " + note.brief;
    } else if (value) {
      const std::string exact = relative_words(*value);
      note.words = value->name + " " + (exact.empty() ? difference_words(*value) : exact);
      note.brief = value->name + " " + brief_words(*value);
    }
    compared.notes.emplace(rank.rank, note);
  }
  return compared;
}

void take_comparison_keys(ComparedRuns& runs) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.WantTextInput) return;
  if (key_pressed(keys::v, false)) runs.toggle_layout();
  if (key_pressed(keys::x, false)) runs.exchange();
  // In the leading run, Escape clears more than the selection, and first closes anything that
  // covers it.
  const ViewState& view = runs.leader().view;
  if (key_pressed(keys::escape, false) && !view.help && !view.exports) {
    Model& other = runs.model(other_side(runs.leads()));
    other.selected = {};
    other.chain = {};
  }
  for (const auto& [key, by] : {std::pair{keys::page_up, -1}, {keys::page_down, 1}}) {
    if (!key_pressed(key)) continue;
    if (io.KeyShift) {
      runs.go_by_steps(runs.leads(), by);
    } else {
      runs.go_by_steps(by);
    }
  }
}

}  // namespace lockstep::viz
