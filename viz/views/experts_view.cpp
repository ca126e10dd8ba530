#include "viz/views/experts_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/data/step/words.h"
#include "viz/views/panel_card.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float numbers_width = 48;  // for the numbers of tokens
constexpr float group_gap = 8;       // between layers
constexpr float least_bar = 2, most_bar = 40;
constexpr float words_lines = 4;
constexpr float least_chart = 0.4f;  // of the card's height
constexpr double headroom = 1.08;    // above the highest bar

}  // namespace

void ExpertsView::refresh(const Model& model) {
  const StepKey key = step_key(model);
  if (key == analysed_) return;
  analysed_ = key;
  load_ = key.step < 0 ? ExpertLoad{} : expert_load(model.timeline, key.step);
}

std::optional<std::size_t> ExpertsView::chosen_layer(const Model& model) const {
  if (!model.view.expert_layer) return std::nullopt;
  const auto found = std::ranges::find(load_.layers, *model.view.expert_layer, &LayerLoad::layer);
  if (found == load_.layers.end()) return std::nullopt;
  return static_cast<std::size_t>(found - load_.layers.begin());
}

void ExpertsView::arrange(const Painter& painter, std::optional<std::size_t> only) {
  groups_.clear();
  highest_ = std::max<std::int64_t>(load_.highest(), 1);
  std::size_t bars = 0, layers = 0;
  for (std::size_t i = 0; i < load_.layers.size(); ++i) {
    if (only && i != *only) continue;
    bars += load_.layers[i].accepted.size();
    ++layers;
  }
  const float gaps = painter.px(group_gap) * static_cast<float>(layers);
  const float bar = std::clamp((plot_.width() - gaps) / static_cast<float>(bars),
                               painter.px(least_bar), painter.px(most_bar));
  float left = plot_.left + painter.px(group_gap) / 2;
  for (std::size_t i = 0; i < load_.layers.size(); ++i) {
    if (only && i != *only) continue;
    const float width = bar * static_cast<float>(load_.layers[i].accepted.size());
    if (left + width > plot_.right + 1 && !groups_.empty()) break;  // no room for more layers
    groups_.push_back({.layer = i, .left = left, .bar = bar});
    left += width + painter.px(group_gap);
  }
}

float ExpertsView::y_of(double tokens) const {
  return plot_.bottom -
         plot_.height() * static_cast<float>(tokens / static_cast<double>(highest_) / headroom);
}

std::optional<ImVec2> ExpertsView::centre_of(std::size_t layer, std::size_t expert) const {
  for (const Group& group : groups_)
    if (group.layer == layer && expert < load_.layers[layer].accepted.size())
      return ImVec2{group.left + group.bar * (static_cast<float>(expert) + 0.5f), plot_.bottom - 2};
  return std::nullopt;
}

void ExpertsView::draw(const Painter& painter, const Rect& rect, Model& model) {
  refresh(model);
  const Look& look = painter.look();
  const auto only = chosen_layer(model);
  std::string note = load_.step < 0 ? "" : step_words(model.timeline, load_.step);
  if (only) note += fmt::format(", layer {}", load_.layers[*only].layer);
  const Rect inside = panel_card(painter, rect, Panel::experts, note, model);
  explanation_.clear();
  groups_.clear();
  if (load_.layers.empty()) {
    painter.text(inside.left, inside.top,
                 load_.step < 0 ? "no step is complete yet" : "no tokens counted in this step",
                 palette.text_faint, look.body);
    return;
  }
  const float line = size_of(look.small) + painter.px(3);
  const float words_height = words_lines * (size_of(look.small) + painter.px(2));
  const float bottom = std::max(inside.bottom - words_height - line - painter.px(4),
                                inside.top + line + least_chart * inside.height());
  painter.text(inside.left, inside.top, "tokens", palette.text_dim, look.small);
  plot_ = {inside.left + painter.px(numbers_width), inside.top + line, inside.right, bottom};
  arrange(painter, only);
  const auto hovered = draw_bars(painter);
  draw_axes(painter, only.has_value() || load_.layers.size() == 1);

  if (hovered) {
    explanation_ = expert_words(load_.layers[hovered->first], hovered->second);
    if (load_.layers.size() > 1)
      explanation_.emplace_back(only ? "click: all layers" : "click: this layer alone");
  } else {
    explanation_ = load_sentences(load_, only);
    if (!only && groups_.size() < load_.layers.size())
      explanation_.push_back(
          fmt::format("There is room for {} of {} layers.", groups_.size(), load_.layers.size()));
  }
  explain(
      painter,
      {inside.left, plot_.bottom + line + painter.px(4), inside.right, rect.bottom - painter.px(4)},
      explanation_, palette.text, &model.view.wanted_rank);
  if (!hovered || load_.layers.size() < 2 || !ImGui::IsMouseClicked(ImGuiMouseButton_Left)) return;
  if (only)
    model.view.expert_layer.reset();
  else
    model.view.expert_layer = load_.layers[hovered->first].layer;
}

std::optional<ExpertsView::Bar> ExpertsView::draw_bars(const Painter& painter) const {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  painter.fill(plot_, palette.lane);
  std::optional<Bar> hovered;
  for (const Group& group : groups_) {
    const LayerLoad& layer = load_.layers[group.layer];
    const std::size_t busiest = layer.busiest();
    const float gap = group.bar > painter.px(4) ? painter.px(1) : 0;
    for (std::size_t expert = 0; expert < layer.accepted.size(); ++expert) {
      const float left = group.left + group.bar * static_cast<float>(expert);
      const Rect column{left, plot_.top, left + group.bar - gap, plot_.bottom};
      const float accepted = y_of(static_cast<double>(layer.accepted[expert]));
      const float chosen = y_of(static_cast<double>(layer.chosen(expert)));
      const bool is_busiest = expert == busiest && layer.imbalance() > 1;
      painter.fill({column.left, accepted, column.right, plot_.bottom},
                   faded(palette.accent, is_busiest ? 1.0f : 0.55f));
      painter.fill({column.left, chosen, column.right, accepted}, palette.trouble);
      if (!plot_.contains(mouse) || mouse.x < left || mouse.x >= left + group.bar ||
          !ImGui::IsWindowHovered())
        continue;
      hovered = {group.layer, expert};
      painter.frame({column.left, std::min(chosen, plot_.bottom - 2), column.right, plot_.bottom},
                    palette.highlight);
    }
    const float mean = y_of(layer.mean());
    const float end = group.left + group.bar * static_cast<float>(layer.accepted.size());
    painter.line(group.left, mean, end - gap, mean, palette.modelled_clock, painter.px(1.5f));
  }
  return hovered;
}

void ExpertsView::draw_axes(const Painter& painter, bool alone) const {
  const Look& look = painter.look();
  const double spacing = std::max(round_spacing(static_cast<double>(highest_) / 4), 1.0);
  for (double at = 0; at <= headroom * static_cast<double>(highest_); at += spacing) {
    const float y = y_of(at);
    painter.line(plot_.left, y, plot_.right, y, palette.grid);
    painter.text(plot_.left - painter.px(6), y - size_of(look.small) / 2, fmt::format("{:.0f}", at),
                 palette.text_faint, look.small, Align::right);
  }
  const float y = plot_.bottom + painter.px(3);
  float taken = 0;  // by the last name
  const auto name = [&](float middle, const std::string& words) {
    const float half = painter.text_width(words, look.small) / 2;
    if (middle - half < taken) return;
    painter.text(middle, y, words, palette.text_faint, look.small, Align::centre);
    taken = middle + half + painter.px(6);
  };
  for (const Group& group : groups_) {
    const LayerLoad& layer = load_.layers[group.layer];
    if (alone) {
      for (std::size_t expert = 0; expert < layer.accepted.size(); ++expert)
        name(group.left + group.bar * (static_cast<float>(expert) + 0.5f),
             fmt::format("{}{}", expert == 0 ? "expert " : "", expert));
    } else {
      name(group.left + group.bar * static_cast<float>(layer.accepted.size()) / 2,
           fmt::format("layer {}", layer.layer));
    }
  }
  const bool drops = std::ranges::any_of(groups_, [&](const Group& group) {
    return std::ranges::any_of(load_.layers[group.layer].dropped,
                               [](std::int64_t count) { return count > 0; });
  });
  painter.text(plot_.right, plot_.top - size_of(look.small) - painter.px(3),
               drops ? "line: the mean; red: dropped" : "line: the mean", palette.text_faint,
               look.small, Align::right);
}

}  // namespace lockstep::viz
