#include "viz/views/bubble_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/data/panels.h"
#include "viz/data/step_sentences.h"
#include "viz/data/words.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float bar_height = 13;
constexpr float label_width = 92;
constexpr float widest_column = 18;
constexpr float least_trend = 40;  // of the trend's height, with its axis

}  // namespace

void BubbleView::draw(const Painter& painter, const Rect& rect, Model& model) const {
  const Look& look = painter.look();
  const auto described = described_step(model);
  const BubbleSeries::Point* found =
      described ? model.bubbles.find(model.timeline, *described) : nullptr;
  if (!found) {
    const Rect inside = painter.card(rect, info_of(Panel::bubble).name);
    painter.text(inside.left, inside.top, described ? "computing" : "no step is complete yet",
                 colours::text_faint, look.body);
    return;
  }
  const BubbleSeries::Point& point = *found;
  const std::string step = step_words(model.timeline, point.step);
  const bool pipeline = point.bubble.window > 0;
  const Rect inside =
      painter.card(rect, info_of(pipeline ? Panel::bubble : Panel::communication).name, step);
  float y = inside.top;
  const auto headline = [&](double share, std::string_view words) {
    const float number = painter.text(inside.left, y - painter.px(4), percent_words(share),
                                      colours::text, look.large);
    painter.text(inside.left + number + painter.px(10),
                 y + size_of(look.large) - size_of(look.small) - painter.px(7),
                 painter.fitted(words, look.small, inside.width() - number - painter.px(10)),
                 colours::text_dim, look.small);
    y += size_of(look.large) + painter.px(6);
  };
  const auto say = [&](const std::vector<std::string>& sentences) {
    // A sentence that does not fit above the trend is left out; the first ones matter most.
    const float bottom = inside.bottom - painter.px(least_trend);
    for (const std::string& sentence : sentences) {
      const bool first = &sentence == &sentences.front();
      if (!first && y + paragraph_height(painter, sentence, inside.width()) > bottom) continue;
      y = explain(painter, {inside.left, y, inside.right, inside.bottom}, {sentence},
                  first && point.late ? colours::text : colours::text_dim);
    }
  };
  const std::size_t ranks = model.timeline.ranks().size();
  if (pipeline) {
    headline(point.bubble.share(), "of the ranks' time is idle");
    y = draw_bars(painter, {inside.left, y, inside.right, inside.bottom}, point,
                  model.timeline.prediction(point.step));
    say(bubble_sentences(
        point, model.explanations.find(model.timeline, model.timeline.steps()[*described]), ranks));
  } else if (point.overlap.communication > 0) {
    headline(point.overlap.share(), "of communication is hidden");
    std::vector<std::string> sentences = communication_sentences(point, ranks);
    // A straggler comes first: it explains the rest.
    if (point.late)
      sentences.insert(sentences.begin(),
                       straggler_words(model.timeline, *point.late, point.length));
    say(sentences);
  } else {
    painter.text(inside.left, inside.top, "none in this step", colours::text_faint, look.body);
    return;
  }
  y += painter.px(3);
  draw_trend(painter, {inside.left, y, inside.right, inside.bottom}, model, point.step, pipeline);
}

float BubbleView::draw_bars(const Painter& painter, const Rect& rect,
                            const BubbleSeries::Point& point, const Prediction& predicted) const {
  const Look& look = painter.look();
  const float left = rect.left + painter.px(label_width);
  const double observed = point.bubble.share();
  const double top_share = std::max(
      {observed, predicted.bubble.value_or(0), predicted.bubble_simulated.value_or(0), 0.05});
  const float room = rect.right - left - painter.px(52);
  float y = rect.top;
  const auto bar = [&](std::string_view name, double share, ImU32 colour, bool solid) {
    painter.text(rect.left, y - painter.px(1), name, colours::text_dim, look.small);
    const float width = std::max(room * static_cast<float>(share / top_share), 1.0f);
    const Rect box{left, y, left + width, y + painter.px(bar_height)};
    painter.fill(box, faded(colour, solid ? 0.85f : 0.22f), painter.px(2));
    if (!solid) painter.frame(box, colour, painter.px(2));
    painter.text(box.right + painter.px(6), y - painter.px(1), percent_words(share), colours::text,
                 look.small);
    y += painter.px(bar_height + 5);
  };
  bar("observed", observed, colours::observed, true);
  if (predicted.bubble_simulated) {
    bar("simulated", *predicted.bubble_simulated, colours::accent, false);
  }
  if (predicted.bubble) {
    bar(predicted.formula.empty() ? "predicted" : predicted.formula, *predicted.bubble,
        colours::modelled_clock, false);
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
  std::vector<BubbleSeries::Point> points;  // of the latest steps, the latest first
  for (std::size_t i = 0; i < std::min(count, room); ++i) {
    const BubbleSeries::Point* point = model.bubbles.find(model.timeline, count - 1 - i);
    if (!point) break;
    points.push_back(*point);
  }
  if (points.empty()) return;
  std::ranges::reverse(points);
  const auto observed = [&](const BubbleSeries::Point& point) {
    return pipeline ? point.bubble.share() : point.overlap.share();
  };
  const auto predicted = [&](const BubbleSeries::Point& point) {
    return pipeline ? model.timeline.prediction(point.step).bubble.value_or(0) : 0;
  };
  double top_share = 0;
  for (const auto& point : points) {
    top_share = std::max({top_share, observed(point), predicted(point)});
  }
  if (top_share <= 0) return;
  top_share = 1.15 * std::max(top_share, 0.05);  // a share near 0 looks small
  const float column =
      std::min(plot.width() / static_cast<float>(points.size()), painter.px(widest_column));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const float left = plot.left + column * static_cast<float>(i);
    const float height = plot.height() * static_cast<float>(observed(points[i]) / top_share);
    painter.fill({left, plot.bottom - height, left + column - painter.px(2), plot.bottom},
                 faded(colours::observed, points[i].step == shown ? 0.95f : 0.4f));
    if (const double share = predicted(points[i]); share > 0) {
      const float y = plot.bottom - plot.height() * static_cast<float>(share / top_share);
      painter.line(left, y, left + column - painter.px(2), y, colours::modelled_clock,
                   painter.px(1.5f));
    }
  }
  painter.line(plot.left, plot.bottom, plot.right, plot.bottom, colours::panel_edge);
  const float y = plot.bottom + painter.px(3);
  painter.text(plot.left, y, fmt::format("steps {} to {}", points.front().step, points.back().step),
               colours::text_faint, look.small);
  if (predicted(points.back()) > 0) {
    painter.text(plot.right, y, "line: the formula", colours::text_faint, look.small, Align::right);
  }
}

}  // namespace lockstep::viz
