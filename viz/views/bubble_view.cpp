#include "viz/views/bubble_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "viz/data/layout/step_sentences.h"
#include "viz/data/step/mean_step.h"
#include "viz/data/step/retiming.h"
#include "viz/data/step/words.h"
#include "viz/data/window/panels.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float bar_height = 18;     // of the mean step
constexpr float bubble_height = 11;  // of the bubble's bars
constexpr float label_width = 92;
constexpr float line_gap = 2;
constexpr float swatch = 8;
constexpr float widest_column = 18;
constexpr float least_trend = 34;  // of the trend's height, with its axis

ImU32 colour_of(const MeanPart& part, int slot) {
  switch (part.kind) {
    case MeanPart::Kind::compute:
      return palette.forward;
    case MeanPart::Kind::optimizer:
      return palette.optimizer;
    case MeanPart::Kind::exposed:
      return viz::colour_of(StepPart::transfer, slot);
    case MeanPart::Kind::bubble:
      return palette.bubble;
    case MeanPart::Kind::other:
      return palette.other;
    case MeanPart::Kind::ended:
      break;
  }
  return palette.ended;
}

/// A part of the mean step, with its colour.
struct Shown {
  MeanPart part;
  ImU32 colour;
};
std::vector<Shown> shown_parts(const StepAccount& account) {
  const std::vector<int> slots = axis_slots(account.axes);
  std::vector<Shown> shown;
  for (MeanPart& part : mean_step(account)) {
    const auto axis = std::ranges::find(account.axes, part.name) - account.axes.begin();
    const bool exposed = part.kind == MeanPart::Kind::exposed;
    const ImU32 colour = colour_of(part, exposed ? slots[static_cast<std::size_t>(axis)] : -1);
    shown.push_back({std::move(part), colour});
  }
  return shown;
}

/// While the cursor is on a part, shows the sentence about it, one line per clause.
void explain_part(const Painter& painter, const Rect& row, const StepAccount& account,
                  const MeanPart& part) {
  if (!row.contains(ImGui::GetIO().MousePos)) return;
  std::string sentence = part_sentence(account, part);
  if (sentence.empty())
    sentence =
        fmt::format("{}: {} per rank", part.name, duration_words(mean_of(part.sum, account)));
  std::vector<std::string> lines;
  for (std::size_t end = 0; (end = sentence.find("; ")) != std::string::npos;
       sentence.erase(0, end + 2))
    lines.push_back(sentence.substr(0, end + 1));
  lines.push_back(sentence);
  tip(painter, row, lines);
}

/// Begins a sentence with a capital letter.
std::string in_upper_case(std::string sentence) {
  sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence.front())));
  return sentence;
}

double share_of(const MeanPart& part, const StepAccount& account) {
  const double length = static_cast<double>(account.length);
  return length > 0 ? mean_of(part.sum, account) / length : 0;
}

}  // namespace

void BubbleView::draw(const Painter& painter, const Rect& rect, Model& model) const {
  const Look& look = painter.look();
  const auto described = described_step(model);
  const BubbleSeries::Point* found =
      described ? model.bubbles.find(model.timeline, *described) : nullptr;
  if (!found) {
    const Rect inside = painter.card(rect, info_of(Panel::bubble).name);
    painter.text(inside.left, inside.top, described ? "computing" : "no step is complete yet",
                 palette.text_faint, look.body);
    return;
  }
  const BubbleSeries::Point& point = *found;
  const std::string step = step_words(model.timeline, point.step);
  const bool pipeline = point.bubble.window > 0;
  const Rect inside =
      painter.card(rect, info_of(pipeline ? Panel::bubble : Panel::communication).name, step);
  Rect rest = inside;
  rest.top = draw_headline(painter, rest, point.account);
  rest.top = draw_bar(painter, rest, point.account);
  rest.top = draw_legend(painter, rest, point.account);
  const float bars = (painter.px(bubble_height + 4)) * 3 + size_of(look.small) + painter.px(3);
  if (pipeline && rest.top + bars <= inside.bottom)
    rest.top = draw_bubble(painter, rest, point, model.timeline.prediction(point.step));
  // A sentence that does not fit above the trend is left out; the first ones matter most.
  const float bottom = inside.bottom - painter.px(least_trend);
  const auto say = [&](const std::string& sentence) {
    if (rest.top + paragraph_height(painter, sentence, rest.width()) <= bottom)
      rest.top = explain(painter, rest, {sentence}, palette.text_dim, &model.view.wanted_rank);
  };
  if (point.straggler) {
    say(in_upper_case(straggler_words(*point.straggler)) + ".");
    rest.top = draw_cost(painter, rest, point, model, bottom);
  }
  if (point.awaited) say(awaited_words(*point.awaited));
  if (model.advice.step == point.step && !model.advice.sentences.empty())
    say(model.advice.sentences.front());
  for (const std::string& sentence : step_sentences(point)) say(sentence);
  rest.top += painter.px(3);
  draw_trend(painter, rest, model, point.step, pipeline);
}

float BubbleView::draw_cost(const Painter& painter, const Rect& rect,
                            const BubbleSeries::Point& point, Model& model, float bottom) const {
  Retiming& retiming = model.retiming;
  if (!retiming.found()) return rect.top;
  const Straggler& straggler = *point.straggler;
  const StepQuestion question{point.step, {change_to_peers_pace(straggler)}};
  retiming.update();
  retiming.ask_step(question);
  const StepAnswer* answer = retiming.answer_to(question);
  if (!answer && !retiming.busy()) return rect.top;
  if (answer && answer->recorded == 0) return rect.top;  // it can't be replayed
  const std::string sentence =
      answer ? cost_words(straggler, answer->recorded, answer->changed)
             : fmt::format("Replaying the step without the slow rank {} ...", straggler.rank);
  const float height = paragraph_height(painter, sentence, rect.width());
  if (rect.top + height > bottom) return rect.top;
  const Rect place{rect.left, rect.top, rect.right, rect.top + height};
  bool hovered = false;
  if (answer) {
    ImGui::SetCursorScreenPos(place.min());
    if (ImGui::InvisibleButton("cost", {std::max(place.width(), 1.0f), height})) {
      model.view.panel = Panel::retime;
      model.view.wanted_pace = {straggler.rank, straggler.ratio()};
      model.view.range.reset();
      model.selected = {};  // a selection would take the panel's place
      model.chain = {};
    }
    hovered = ImGui::IsItemHovered();
    tip(painter, place, {"click: try other paces in Retime"});
  }
  return explain(painter, rect, {sentence},
                 hovered  ? palette.text
                 : answer ? palette.accent
                          : palette.text_faint);
}

float BubbleView::draw_headline(const Painter& painter, const Rect& rect,
                                const StepAccount& account) const {
  const Look& look = painter.look();
  const float number = painter.text(rect.left, rect.top - painter.px(4),
                                    duration_words(account.length), palette.text, look.large);
  const float left = rect.left + number + painter.px(10);
  const std::string words = percent_words(not_computing_share(account)) + " not computing";
  painter.text(left, rect.top + size_of(look.large) - size_of(look.small) - painter.px(7),
               painter.fitted(words, look.small, rect.right - left), palette.text_dim, look.small);
  return rect.top + size_of(look.large) + painter.px(3);
}

float BubbleView::draw_bar(const Painter& painter, const Rect& rect,
                           const StepAccount& account) const {
  const Look& look = painter.look();
  const float bottom = rect.top + painter.px(bar_height);
  double at = 0;
  for (const auto& [part, colour] : shown_parts(account)) {
    const double share = share_of(part, account);
    const auto x = [&](double position) {
      return rect.left + rect.width() * static_cast<float>(std::min(position, 1.0));
    };
    const Rect box{x(at), rect.top, std::max(x(at + share), x(at) + 1), bottom};
    at += share;
    painter.fill(box, colour);
    if (box.width() > painter.px(3))
      painter.line(box.left, box.top, box.left, box.bottom, palette.panel);
    const bool dark = part.kind == MeanPart::Kind::other || part.kind == MeanPart::Kind::ended;
    const ImU32 ink = dark ? palette.text : palette.text_on_box;
    if (!painter.text_in(box, part.name + " " + percent_words(share), ink, look.small))
      painter.text_in(box, part.name, ink, look.small);
    explain_part(painter, box, account, part);
  }
  return bottom + painter.px(4);
}

float BubbleView::draw_legend(const Painter& painter, const Rect& rect,
                              const StepAccount& account) const {
  const Look& look = painter.look();
  const float line = size_of(look.small) + painter.px(line_gap);
  const float gap = painter.px(12);
  const float width = (rect.width() - gap) / 2;
  const Rect columns[] = {{rect.left, rect.top, rect.left + width, rect.bottom},
                          {rect.right - width, rect.top, rect.right, rect.bottom}};
  painter.text(
      columns[0].left, rect.top,
      fmt::format("mean of {} rank{}", account.ranks.size(), account.ranks.size() == 1 ? "" : "s"),
      palette.text_faint, look.small);
  const auto parts = shown_parts(account);
  const bool any_exposed = std::ranges::any_of(
      parts, [](const Shown& shown) { return shown.part.kind == MeanPart::Kind::exposed; });
  const auto heading = [&](std::initializer_list<const char*> choices) {
    for (const char* words : choices)
      if (painter.text_width(words, look.small) <= width) return words;
    return "";
  };
  painter.text(
      columns[1].left, rect.top,
      any_exposed ? heading({"exposed communication", "exposed"}) : heading({"nothing exposed"}),
      palette.text_faint, look.small);
  // In narrow columns, the names take the place of the times; hovering over a name shows its time.
  const float room = painter.text_width("99.9 %", look.small), size = painter.px(swatch);
  const auto width_of = [&](const MeanPart& part, bool time) {
    return size + painter.px(9) + room + painter.text_width(part.name, look.small) +
           (time ? painter.px(6) +
                       painter.text_width(duration_words(mean_of(part.sum, account)), look.small)
                 : 0);
  };
  const bool has_times = std::ranges::all_of(
      parts, [&](const Shown& shown) { return width_of(shown.part, true) <= width; });
  float y[] = {rect.top + line, rect.top + line};
  for (const auto& [part, colour] : parts) {
    const std::size_t c = part.kind == MeanPart::Kind::exposed ? 1 : 0;
    if (y[c] + line > rect.bottom) continue;
    const Rect& column = columns[c];
    const float top = y[c] + (size_of(look.small) - size) / 2 + 1;
    painter.fill({column.left, top, column.left + size, top + size}, colour, painter.px(2));
    const std::string share = percent_words(share_of(part, account));
    painter.text(column.right, y[c], share, palette.text, look.small, Align::right);
    const std::string time = has_times ? duration_words(mean_of(part.sum, account)) : "";
    const float time_right = column.right - room - painter.px(6);
    painter.text(time_right, y[c], time, palette.text_dim, look.small, Align::right);
    const float name = column.left + size + painter.px(5);
    const float name_room =
        time_right - painter.text_width(time, look.small) - painter.px(4) - name;
    painter.text(name, y[c], painter.fitted(part.name, look.small, name_room), palette.text_dim,
                 look.small);
    explain_part(painter, {column.left, y[c], column.right, y[c] + line}, account, part);
    y[c] += line;
  }
  return std::max(y[0], y[1]) + painter.px(4);
}

float BubbleView::draw_bubble(const Painter& painter, const Rect& rect,
                              const BubbleSeries::Point& point, const Prediction& predicted) const {
  const Look& look = painter.look();
  float y = rect.top;
  painter.text(rect.left, y,
               painter.fitted("bubble of the pipeline's actions, from first to last", look.small,
                              rect.width()),
               palette.text_faint, look.small);
  y += size_of(look.small) + painter.px(3);
  const float left = rect.left + painter.px(label_width);
  const double observed = point.bubble.share();
  const double top_share = std::max(
      {observed, predicted.bubble.value_or(0), predicted.bubble_simulated.value_or(0), 0.05});
  const float room = rect.right - left - painter.px(52);
  const auto bar = [&](std::string_view name, double share, ImU32 colour, bool solid) {
    painter.text(rect.left, y - painter.px(2),
                 painter.fitted(name, look.small, painter.px(label_width - 4)), palette.text_dim,
                 look.small);
    const float width = std::max(room * static_cast<float>(share / top_share), 1.0f);
    const Rect box{left, y, left + width, y + painter.px(bubble_height)};
    painter.fill(box, faded(colour, solid ? 0.85f : 0.22f), painter.px(2));
    if (!solid) painter.frame(box, colour, painter.px(2));
    painter.text(box.right + painter.px(6), y - painter.px(2), percent_words(share), palette.text,
                 look.small);
    y += painter.px(bubble_height + 4);
  };
  bar("observed", observed, palette.observed, true);
  if (predicted.bubble_simulated) {
    bar("simulated", *predicted.bubble_simulated, palette.accent, false);
  }
  if (predicted.bubble) {
    bar(predicted.formula.empty() ? "predicted" : predicted.formula, *predicted.bubble,
        palette.modelled_clock, false);
  }
  return y + painter.px(2);
}

void BubbleView::draw_trend(const Painter& painter, const Rect& rect, Model& model, int shown,
                            bool pipeline) const {
  const Look& look = painter.look();
  const std::size_t count = model.bubbles.count();
  const Rect plot{rect.left, rect.top, rect.right,
                  rect.bottom - size_of(look.small) - painter.px(3)};
  const std::size_t room = whole_number(plot.width() / painter.px(5));
  if (plot.height() < painter.px(12) || count == 0 || room == 0) return;
  std::vector<const BubbleSeries::Point*> points;  // of the latest steps, the latest first
  for (std::size_t i = 0; i < std::min(count, room); ++i) {
    const BubbleSeries::Point* point = model.bubbles.find(model.timeline, count - 1 - i);
    if (!point) break;
    points.push_back(point);
  }
  if (points.empty()) return;
  std::ranges::reverse(points);
  const auto observed = [&](const BubbleSeries::Point& point) {
    return pipeline ? point.bubble.share() : not_computing_share(point.account);
  };
  const auto predicted = [&](const BubbleSeries::Point& point) {
    return pipeline ? model.timeline.prediction(point.step).bubble.value_or(0) : 0;
  };
  double top_share = 0;
  for (const auto* point : points) {
    top_share = std::max({top_share, observed(*point), predicted(*point)});
  }
  if (top_share <= 0) return;
  top_share = 1.15 * std::max(top_share, 0.05);  // a share near 0 looks small
  const float column =
      std::min(plot.width() / static_cast<float>(points.size()), painter.px(widest_column));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const float left = plot.left + column * static_cast<float>(i);
    const float height = plot.height() * static_cast<float>(observed(*points[i]) / top_share);
    painter.fill({left, plot.bottom - height, left + column - painter.px(2), plot.bottom},
                 faded(palette.observed, points[i]->step == shown ? 0.95f : 0.4f));
    if (const double share = predicted(*points[i]); share > 0) {
      const float y = plot.bottom - plot.height() * static_cast<float>(share / top_share);
      painter.line(left, y, left + column - painter.px(2), y, palette.modelled_clock,
                   painter.px(1.5f));
    }
  }
  painter.line(plot.left, plot.bottom, plot.right, plot.bottom, palette.panel_edge);
  const float y = plot.bottom + painter.px(3);
  painter.text(plot.left, y,
               fmt::format("steps {} to {}", points.front()->step, points.back()->step),
               palette.text_faint, look.small);
  const char* what = !pipeline                       ? "not computing"
                     : predicted(*points.back()) > 0 ? "bubble; line: the formula"
                                                     : "bubble";
  painter.text(plot.right, y, what, palette.text_faint, look.small, Align::right);
}

}  // namespace lockstep::viz
