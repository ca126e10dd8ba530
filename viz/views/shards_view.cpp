#include "viz/views/shards_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/views/panel_card.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float drawing_share = 0.55f;  // of the card's width
constexpr float gap = 14;
constexpr float memory_height = 46;
constexpr float least_height = 84;  // of the drawing, with its words, beside the memory
constexpr float number_width = 34;  // for the numbers of rows
constexpr float vector_height = 26;
constexpr std::size_t most_areas = 20'000;

/// Returns a colour for holders, by their lowest rank.
ImU32 colour_of(const Holders& holders) {
  return group_colour(static_cast<std::size_t>(std::max(holders.ranks.front(), 0)));
}

/// Returns the layout's kinds for a caption: "parameters, gradients".
std::string caption_of(const ShardLayout& layout) {
  std::string text;
  for (const ShardLayout::Kind& kind : layout.kinds)
    text += (text.empty() ? "" : ", ") + std::string{name_of(category_of(kind.kind))};
  return text;
}

/// Returns the ranks for a label: "0", "0, 2" or "0-3".
std::string label_of(const Holders& holders) {
  const std::string words = ranks_words(holders.ranks);
  return words.substr(words.find(' ') + 1);
}

}  // namespace

void ShardsView::show(std::size_t index) {
  chosen_ = std::min(index, all_.tensors().size() - 1);
  shown_ = all_.shards_of(all_.tensors()[chosen_]);
}

void ShardsView::choose(const std::string& tensor) {
  const auto found = std::ranges::find(all_.tensors(), tensor);
  if (found != all_.tensors().end()) show(static_cast<std::size_t>(found - all_.tensors().begin()));
}

void ShardsView::refresh(const Model& model) {
  std::size_t told = 0;
  for (const auto& rank : model.timeline.ranks()) told += rank->slices.size();
  const bool new_run = run_ != model.timeline.run().run;
  if (new_run || told != told_) {
    const std::string before = new_run ? "" : shown_.tensor;
    run_ = model.timeline.run().run;
    told_ = told;
    all_ = Shards{model.timeline};
    shown_ = {};
    if (!all_.tensors().empty()) show(all_.first_choice());
    choose(before);
    memory_step_ = -1;
  }
  const auto described = described_step(model);
  if (!described || model.timeline.ranks().empty()) {
    memory_.reset();
    memory_step_ = -1;
    return;
  }
  const int step = model.timeline.steps()[*described].step;
  const int rank = model.hovered.rank                       ? model.hovered.rank->rank
                   : model.timeline.find_rank(memory_rank_) ? memory_rank_
                                                            : model.timeline.ranks().front()->rank;
  if (step == memory_step_ && rank == memory_rank_) return;
  memory_ = parameter_memory(model.timeline, rank, step);
  memory_step_ = step;
  memory_rank_ = rank;
}

std::optional<ImVec2> ShardsView::point_in(std::size_t layout, std::size_t holders) const {
  for (const Area& area : areas_)
    if (area.layout == layout && area.holders == holders)
      return ImVec2{(area.rect.left + area.rect.right) / 2, (area.rect.top + area.rect.bottom) / 2};
  return std::nullopt;
}

void ShardsView::draw(const Painter& painter, const Rect& rect, Model& model) {
  refresh(model);
  const Look& look = painter.look();
  const Rect inside = panel_card(
      painter, rect, Panel::shards,
      memory_step_ < 0 ? "" : fmt::format("step {}, rank {}", memory_step_, memory_rank_), model);
  areas_.clear();
  explanation_.clear();
  if (shown_.layouts.empty()) {
    painter.text(inside.left, inside.top, "the trace does not say which rank stores what",
                 palette.text_faint, look.body);
    return;
  }
  Rect body = inside;
  body.right = inside.left + drawing_share * inside.width();
  draw_list(painter, {inside.left, inside.top, inside.right, inside.bottom});
  body.top = list_.bottom + painter.px(6);
  const bool has_room = body.height() > painter.px(memory_height + least_height);
  if (memory_ && memory_->changes() && has_room) {
    const float height = std::min(painter.px(memory_height), body.height() / 3);
    draw_memory(painter, {body.left, body.bottom - height, body.right, body.bottom}, model);
    body.bottom -= height + painter.px(8);
  }

  whole_now_ = memory_ && model.cursor_time && memory_->is_whole(shown_.tensor, *model.cursor_time);
  const auto count = static_cast<float>(shown_.layouts.size());
  const float width = (body.width() - painter.px(gap) * (count - 1)) / count;
  const Holders* hovered = nullptr;
  std::size_t of_layout = 0;
  for (std::size_t i = 0; i < shown_.layouts.size(); ++i) {
    const float left = body.left + (width + painter.px(gap)) * static_cast<float>(i);
    if (const Holders* found =
            draw_layout(painter, {left, body.top, left + width, body.bottom}, i)) {
      hovered = found;
      of_layout = i;
    }
  }
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const float wheel = ImGui::GetIO().MouseWheel;
  if (wheel != 0 && body.contains(mouse) && ImGui::IsWindowHovered()) {
    if (wheel < 0)
      show(chosen_ + 1);
    else if (chosen_ > 0)
      show(chosen_ - 1);
    hovered = nullptr;  // of the tensor shown before
  }

  if (hovered) {
    explanation_ = holders_words(shown_, shown_.layouts[of_layout], *hovered);
  } else {
    explanation_ = shard_sentences(shown_);
    // The sentence about the cursor's time comes right after the tensor's shape.
    if (memory_ && model.cursor_time)
      if (std::string now = moment_sentence(*memory_, shown_, *model.cursor_time, model.origin);
          !now.empty())
        explanation_.insert(explanation_.begin() + 1, std::move(now));
    if (all_.omitted() > 0)
      explanation_.push_back(
          fmt::format("The trace leaves out {} entries, because the ranks' lists are too long.",
                      all_.omitted()));
    if (memory_)
      for (std::string& sentence : memory_sentences(*memory_, shown_))
        explanation_.push_back(std::move(sentence));
  }
  explain(painter,
          {body.right + painter.px(gap), list_.bottom + painter.px(6), inside.right, inside.bottom},
          explanation_);
}

void ShardsView::draw_list(const Painter& painter, const Rect& rect) {
  ImGui::PushFont(painter.look().small);
  ImGui::SetCursorScreenPos({rect.left, rect.top});
  ImGui::SetNextItemWidth(rect.width());
  list_ = {rect.left, rect.top, rect.right, rect.top + ImGui::GetFrameHeight()};
  if (ImGui::BeginCombo("##tensor", shown_.tensor.c_str(), ImGuiComboFlags_HeightLarge)) {
    for (std::size_t i = 0; i < all_.tensors().size(); ++i) {
      ImGui::PushID(static_cast<int>(i));
      if (ImGui::Selectable(all_.tensors()[i].c_str(), i == chosen_)) show(i);
      ImGui::PopID();
      if (i == chosen_ && ImGui::IsWindowAppearing()) ImGui::SetScrollHereY();
    }
    ImGui::EndCombo();
  }
  ImGui::PopFont();
}

const Holders* ShardsView::draw_layout(const Painter& painter, const Rect& rect,
                                       std::size_t index) {
  const Look& look = painter.look();
  const ShardLayout& layout = shown_.layouts[index];
  const float line = size_of(look.small) + painter.px(2);
  const std::int64_t columns = std::max<std::int64_t>(shown_.whole.last(), 1);
  const std::int64_t rows = std::max<std::int64_t>(shown_.whole.elements() / columns, 1);
  const bool wraps = std::ranges::any_of(shown_.layouts, [&](const ShardLayout& each) {
    return painter.text_width(caption_of(each), look.small) > rect.width();
  });
  const float caption = (wraps ? 2 : 1) * line;
  paragraph(painter, {rect.left, rect.top, rect.right, rect.top + caption + 1}, caption_of(layout),
            palette.text_dim);
  Rect box{rect.left + painter.px(number_width), rect.top + caption + painter.px(2), rect.right,
           rect.bottom - line};
  if (rows == 1) {
    box.left = rect.left;
    box.bottom = std::min(box.bottom, box.top + painter.px(vector_height));
  } else {
    painter.text(box.left - painter.px(5), box.top - painter.px(1), "0", palette.text_faint,
                 look.small, Align::right);
    painter.text(box.left - painter.px(5), box.bottom - size_of(look.small),
                 painter.fitted(std::to_string(rows), look.small, painter.px(number_width - 4)),
                 palette.text_faint, look.small, Align::right);
  }
  const float below = box.bottom + painter.px(2);
  painter.text(box.left, below, "0", palette.text_faint, look.small);
  painter.text(box.right, below, std::to_string(columns), palette.text_faint, look.small,
               Align::right);
  const std::string axes = rows == 1                 ? "elements"
                           : shown_.whole.rank() > 2 ? "leading dimensions × columns"
                                                     : "rows × columns";
  if (painter.text_width(axes, look.small) + painter.px(60) < box.width())
    painter.text((box.left + box.right) / 2, below, axes, palette.text_faint, look.small,
                 Align::centre);
  painter.fill(box, palette.lane);

  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const float x_scale = box.width() / static_cast<float>(columns);
  const float y_scale = box.height() / static_cast<float>(rows);
  const std::size_t first = areas_.size();
  const auto colour = [&](const Holders& holders) {
    return layout.holders.size() == 1 ? palette.kernel : colour_of(holders);
  };
  std::optional<std::size_t> hovered;
  for (std::size_t h = 0; h < layout.holders.size(); ++h) {
    const std::size_t begin = areas_.size();
    std::optional<std::size_t> largest;
    for (const Box& each : layout.holders[h].boxes) {
      if (areas_.size() == most_areas) break;
      for (const MatrixBox& part : in_matrix(each, shown_.whole, most_areas - areas_.size())) {
        if (areas_.size() == most_areas) break;
        Rect area{box.left + x_scale * static_cast<float>(part.column),
                  box.top + y_scale * static_cast<float>(part.row), 0, 0};
        area.right = area.left + std::max(x_scale * static_cast<float>(part.columns), 1.0f);
        area.bottom = area.top + std::max(y_scale * static_cast<float>(part.rows), 1.0f);
        painter.fill(area, colour(layout.holders[h]));
        if (area.contains(mouse)) hovered = h;
        areas_.push_back({area, index, h});
        const auto size = [](const Rect& of) { return of.width() * of.height(); };
        if (!largest || size(area) > size(areas_[*largest].rect)) largest = areas_.size() - 1;
      }
    }
    // The point for the cursor is in the largest area.
    if (largest) std::swap(areas_[*largest].rect, areas_[begin].rect);
  }
  for (std::size_t i = first; i < areas_.size(); ++i) {
    const Area& area = areas_[i];
    if (i > first && areas_[i - 1].holders == area.holders) continue;
    const Holders& holders = layout.holders[area.holders];
    painter.text_in(area.rect, label_of(holders), ink_on(colour(holders)), look.small);
  }
  if (layout.holders.size() > 1)
    for (std::size_t i = first; i < areas_.size(); ++i) {
      const Rect& area = areas_[i].rect;
      if (area.width() > 3 && area.height() > 3) painter.frame(area, faded(palette.panel, 0.8f));
    }
  const bool whole_here =
      whole_now_ && layout.kinds.front().kind == StoredKind::parameters && memory_;
  if (whole_here) {
    painter.frame(box, palette.accent, 0, painter.px(2));
    const Rect label{box.left, box.bottom - line - painter.px(2), box.right, box.bottom};
    painter.fill(label, faded(palette.panel, 0.85f));
    painter.text_in(label, fmt::format("now whole on rank {}", memory_->rank), palette.accent,
                    look.small);
  }
  if (!hovered) return nullptr;
  for (std::size_t i = first; i < areas_.size(); ++i)
    if (areas_[i].holders == *hovered) painter.frame(areas_[i].rect, palette.highlight);
  return &layout.holders[*hovered];
}

void ShardsView::draw_memory(const Painter& painter, const Rect& rect, const Model& model) const {
  const Look& look = painter.look();
  const ParameterMemory& memory = *memory_;
  const float line = size_of(look.small) + painter.px(2);
  const Rect plot{rect.left, rect.top + line, rect.right, rect.bottom};
  painter.fill(plot, palette.lane);
  const auto duration =
      static_cast<double>(std::max<Picoseconds>(memory.window.end - memory.window.start, 1));
  const auto x_of = [&](Picoseconds at) {
    const double share = static_cast<double>(at - memory.window.start) / duration;
    return plot.left + plot.width() * static_cast<float>(std::clamp(share, 0.0, 1.0));
  };
  const float scale =
      (plot.height() - painter.px(4)) / static_cast<float>(std::max<std::int64_t>(memory.most, 1));
  const ImU32 colour = colour_of(MemoryCategory::parameters);
  for (std::size_t i = 0; i < memory.samples.size(); ++i) {
    const float left = x_of(memory.samples[i].at);
    const float right = i + 1 < memory.samples.size() ? x_of(memory.samples[i + 1].at) : plot.right;
    painter.fill({left, plot.bottom - scale * static_cast<float>(memory.samples[i].bytes),
                  std::max(right, left + 0.5f), plot.bottom},
                 colour);
  }
  for (const Interval& gather : memory.gathers)
    painter.fill({x_of(gather.start), plot.top, std::max(x_of(gather.end), x_of(gather.start) + 1),
                  plot.top + painter.px(3)},
                 palette.communication);
  const float strip = painter.px(3);
  float top = plot.top + (memory.gathers.empty() ? 0 : strip + 1);
  for (const Interval& whole : memory.whole_times(shown_.tensor))
    painter.fill(
        {x_of(whole.start), top, std::max(x_of(whole.end), x_of(whole.start) + 1), top + strip},
        palette.accent);
  float end = rect.left;
  const auto name = [&](const std::string& words, ImU32 shade) {
    if (end >= rect.right) return;
    end += painter.text(end, rect.top, painter.fitted(words, look.small, rect.right - end), shade,
                        look.small) +
           painter.px(8);
  };
  name(fmt::format("rank {}'s parameters", memory.rank), palette.text_dim);
  if (!memory.gathers.empty()) name("all-gathers", palette.communication);
  if (!memory.whole_times(shown_.tensor).empty()) name("all here", palette.accent);
  if (model.cursor_time && *model.cursor_time >= memory.window.start &&
      *model.cursor_time <= memory.window.end) {
    const float x = x_of(*model.cursor_time);
    painter.line(x, plot.top, x, plot.bottom, palette.highlight);
  }
}

}  // namespace lockstep::viz
