#include "viz/views/buckets_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "viz/data/step/words.h"
#include "viz/views/panel_card.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float names_width = 58;
constexpr float strip_height = 9;  // of the rank's compute
constexpr float least_row = 3;     // units
constexpr float most_row = 17;
constexpr float least_chart = 0.26f;  // of the card's height
constexpr float mark_spacing = 64;
constexpr int rest_share = 9;  // pause after an analysis, as a multiple of the time that it took
constexpr float reach = 4;     // the distance at which the cursor finds a narrow bar

ImU32 not_hidden_colour() {
  return faded(palette.communication, 0.45f);
}

}  // namespace

void BucketsView::refresh(const Model& model) {
  const Timeline& timeline = model.timeline;
  const StepKey key = step_key(model);
  bool same = key == analysed_;
  // In a large run, a step takes long to analyse: live, analyse only some of its steps.
  using Clock = std::chrono::steady_clock;
  const bool may_wait = key.run == analysed_.run && key.step >= 0 && analysed_.step >= 0;
  if (!same && may_wait && model.viewport.following() && !timeline.ended() &&
      Clock::now() < again_from_)
    return;
  if (!same) {
    const auto begin = Clock::now();
    if (key.run != analysed_.run) selected_ = -1;
    analysed_ = key;
    buckets_ = {};
    account_ = {};
    most_exposed_ = nullptr;
    if (key.step < 0) return;
    account_ = step_account(timeline, key.step);
    most_exposed_ = most_exposed(account_);
    all_alike_ = std::ranges::all_of(account_.ranks, [&](const RankAccount& rank) {
      return rank.sums.exposed().sum() == most_exposed_->sums.exposed().sum();
    });
    const auto end = Clock::now();
    again_from_ = end + rest_share * (end - begin);
  }
  if (!most_exposed_) return;
  const Finding& selected = model.selected;
  const Finding& hovered = model.hovered;
  if (selected.kind != Finding::Kind::nothing && selected.rank) selected_ = selected.rank->rank;
  const bool hovers = hovered.kind != Finding::Kind::nothing && hovered.rank;
  reason_ = hovers                                     ? Reason::hovered
            : timeline.find_rank(selected_) != nullptr ? Reason::selected
                                                       : Reason::most_exposed;
  const int wanted = reason_ == Reason::most_exposed ? most_exposed_->rank
                     : hovers                        ? hovered.rank->rank
                                                     : selected_;
  const RankTimeline& rank = *timeline.find_rank(wanted);
  same &= buckets_.rank == rank.rank && buckets_.step == analysed_.step;
  if (same) return;
  buckets_ = step_buckets(timeline, account_, rank);
  sentences_ = bucket_sentences(timeline, buckets_);
}

ImVec2 BucketsView::centre_of(std::size_t bucket) const {
  const Interval& time = buckets_.buckets[bucket].time;
  return {(x_of(time.start) + x_of(time.end)) / 2,
          bars_.top + row_height_ * (static_cast<float>(row_of(bucket)) + 0.5f)};
}

float BucketsView::x_of(Picoseconds time) const {
  const Interval& window = buckets_.window;
  const double share = static_cast<double>(time - window.start) /
                       std::max(static_cast<double>(window.end - window.start), 1.0);
  return bars_.left + bars_.width() * static_cast<float>(std::clamp(share, 0.0, 1.0));
}

std::optional<Finding> BucketsView::draw(const Painter& painter, const Rect& rect, Model& model) {
  refresh(model);
  const Look& look = painter.look();
  const Rect inside =
      panel_card(painter, rect, Panel::buckets,
                 analysed_.step < 0 ? "" : step_words(model.timeline, analysed_.step), model);
  explanation_.clear();
  if (buckets_.buckets.empty()) {
    painter.text(inside.left, inside.top,
                 analysed_.step < 0 ? "no step is complete yet"
                                    : fmt::format("none on rank {} in this step", buckets_.rank),
                 palette.text_faint, look.body);
    return std::nullopt;
  }
  const std::size_t count = buckets_.buckets.size();
  const float line = size_of(look.small) + painter.px(3);
  const Rect strip{inside.left + painter.px(names_width),
                   draw_legend(painter, inside) + painter.px(4), inside.right,
                   inside.top};  // the bottom follows
  bars_ = {strip.left, strip.top + painter.px(strip_height + 3), inside.right, 0};
  // The sentences get the height that they need, and the bars the rest.
  const Rect words_room{inside.left, 0, inside.right, rect.bottom - painter.px(4)};
  const float words_height = explanation_height(painter, sentences_, inside.width());
  const float room = std::max(words_room.bottom - words_height - line - painter.px(5) - bars_.top,
                              least_chart * inside.height());
  rows_ = std::clamp<std::size_t>(whole_number(room / painter.px(least_row)), 1, count);
  row_height_ = std::min(room / static_cast<float>(rows_), painter.px(most_row));
  bars_.bottom = bars_.top + row_height_ * static_cast<float>(rows_);
  draw_compute(painter, {strip.left, strip.top, strip.right, strip.top + painter.px(strip_height)});
  const auto hovered = draw_bars(painter);
  draw_axis(painter);

  const std::string rank = fmt::format("Rank {}", buckets_.rank);
  if (hovered) {
    explanation_ = bucket_words(model.timeline, buckets_, *hovered);
    explanation_.front() = rank + ": " + explanation_.front();
  } else {
    explanation_ = sentences_;
    const char* why = reason_ == Reason::hovered    ? "under the cursor"
                      : reason_ == Reason::selected ? "selected last"
                      : all_alike_                  ? "like all ranks"
                                                    : "most exposed";
    explanation_.front().insert(rank.size(), fmt::format(" ({})", why));
  }
  Rect words = words_room;
  words.top = bars_.bottom + line + painter.px(5);
  explain(painter, words, explanation_, palette.text, &model.view.wanted_rank);
  if (!hovered || !ImGui::IsMouseClicked(ImGuiMouseButton_Left)) return std::nullopt;
  const Bucket& bucket = buckets_.buckets[*hovered];
  const RankTimeline* found = model.timeline.find_rank(buckets_.rank);
  for (const auto& lane : found->lanes)
    if (lane->tid() == bucket.lane)
      return Finding{
          .kind = Finding::Kind::span, .rank = found, .lane = lane.get(), .span = bucket.first};
  return std::nullopt;
}

std::optional<std::size_t> BucketsView::draw_bars(const Painter& painter) {
  const Look& look = painter.look();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  painter.fill(bars_, palette.lane);
  painter.text(bars_.left - painter.px(6), bars_.top, "buckets", palette.text_dim, look.small,
               Align::right);
  const float gap = row_height_ > painter.px(6) ? painter.px(1) : 0;
  std::optional<std::size_t> hovered;
  float distance = painter.px(reach);
  std::array<float, 3> drawn{};  // the last pixel, by kind
  std::size_t row = rows_;
  for (std::size_t i = 0; i < buckets_.buckets.size(); ++i) {
    const Bucket& bucket = buckets_.buckets[i];
    const float top = bars_.top + row_height_ * static_cast<float>(row_of(i));
    const float bottom = top + row_height_ - gap;
    if (row_of(i) != row) drawn = {};
    row = row_of(i);
    draw_intervals(painter, bucket.not_hidden, top, bottom, not_hidden_colour(), drawn[0]);
    draw_intervals(painter, bucket.hidden, top, bottom, palette.communication, drawn[1]);
    draw_intervals(painter, bucket.exposed, top, bottom, palette.trouble, drawn[2]);
    const float left = x_of(bucket.time.start), right = x_of(bucket.time.end);
    if (row_height_ >= size_of(look.small) && bucket.bytes > 0) {
      const std::string words = bytes_words(bucket.bytes);
      const float y = (top + bottom - size_of(look.small)) / 2, space = painter.px(5);
      const bool fits = right + space + painter.text_width(words, look.small) < bars_.right;
      if (fits)
        painter.text(right + space, y, words, palette.text_dim, look.small);
      else
        painter.text(left - space, y, words, palette.text_dim, look.small, Align::right);
    }
    if (mouse.y < top || mouse.y >= top + row_height_ || !bars_.contains(mouse)) continue;
    const float away = std::max({left - mouse.x, mouse.x - right, 0.0f});
    if (away > distance || (hovered && away == distance)) continue;
    distance = away;
    hovered = i;
  }
  if (hovered && ImGui::IsWindowHovered()) {
    const Interval& time = buckets_.buckets[*hovered].time;
    const float top = bars_.top + row_height_ * static_cast<float>(row_of(*hovered));
    painter.frame({x_of(time.start) - 1, top - 1, x_of(time.end) + 1, top + row_height_ - gap + 1},
                  palette.highlight);
    return hovered;
  }
  return std::nullopt;
}

void BucketsView::draw_intervals(const Painter& painter, const Intervals& intervals, float top,
                                 float bottom, ImU32 colour, float& drawn) const {
  for (const Interval& each : intervals) {
    const float left = x_of(each.start), right = std::max(x_of(each.end), left + 1);
    if (right <= drawn) continue;
    drawn = std::floor(right);
    painter.fill({left, top, right, bottom}, colour);
  }
}

void BucketsView::draw_compute(const Painter& painter, const Rect& strip) const {
  const Look& look = painter.look();
  painter.text(strip.left - painter.px(6), (strip.top + strip.bottom - size_of(look.small)) / 2,
               "compute", palette.text_dim, look.small, Align::right);
  painter.fill(strip, palette.lane);
  const auto kind = [&](const Intervals& times, ImU32 colour) {
    float drawn = 0;
    draw_intervals(painter, times, strip.top, strip.bottom, colour, drawn);
  };
  kind(buckets_.forward, palette.forward);
  kind(buckets_.backward, palette.backward);
  kind(buckets_.other, palette.optimizer);
}

void BucketsView::draw_axis(const Painter& painter) const {
  const Look& look = painter.look();
  const auto length = static_cast<double>(buckets_.window.end - buckets_.window.start);
  if (length <= 0) return;
  const double spacing = round_spacing(length * static_cast<double>(painter.px(mark_spacing)) /
                                       static_cast<double>(bars_.width()));
  for (double at = 0; at <= length; at += spacing) {
    const float x = x_of(buckets_.window.start + static_cast<Picoseconds>(at));
    painter.line(x, bars_.top, x, bars_.bottom + painter.px(3), palette.grid);
    const std::string words = axis_words(at, spacing);
    if (at > 0 && x + painter.text_width(words, look.small) / 2 > bars_.right) break;
    painter.text(x, bars_.bottom + painter.px(3), words, palette.text_faint, look.small,
                 at > 0 ? Align::centre : Align::left);
  }
}

float BucketsView::draw_legend(const Painter& painter, const Rect& rect) const {
  const Look& look = painter.look();
  const float size = painter.px(8), y = rect.top + (size_of(look.small) - size) / 2 + 1;
  float x = rect.left + painter.px(names_width);
  const auto entry = [&](const char* words, ImU32 colour) {
    painter.fill({x, y, x + size, y + size}, colour, painter.px(2));
    x += size + painter.px(4);
    x += painter.text(x, rect.top, words, palette.text_dim, look.small) + painter.px(10);
  };
  entry("hidden by compute", palette.communication);
  entry("not hidden", not_hidden_colour());
  entry("compute stalls", palette.trouble);
  return rect.top + size_of(look.small);
}

}  // namespace lockstep::viz
