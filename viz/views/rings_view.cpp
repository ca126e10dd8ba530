#include "viz/views/rings_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "viz/data/step/words.h"
#include "viz/views/panel_card.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float drawing_share = 0.5f;  // of the card's width
constexpr float gap = 14;
constexpr float steps_height = 16;
constexpr float node_radius = 10;  // of a rank's disc, at most
constexpr float arrow = 5;
constexpr float near_link = 7;            // of the cursor
constexpr std::size_t most_listed = 500;  // collectives
constexpr std::size_t most_labelled = 4;  // links with figures
constexpr float most_crowded =
    1.4f;  // the minimum length of a link that shows a chunk, in text sizes

}  // namespace

void RingsView::refresh(const Model& model) {
  const Timeline& timeline = model.timeline;
  const auto described = described_step(model);
  // Collectives outside of training steps have no step.
  const bool stepless = timeline.steps().empty() || (timeline.ended() && !described);
  const int step = described ? timeline.steps()[*described].step : stepless ? -1 : -2;
  const std::int64_t spans = step == -1 ? timeline.span_count() : 0;
  if (step == step_ && spans == spans_ && run_ == timeline.run().run) return;
  step_ = step;
  spans_ = spans;
  run_ = timeline.run().run;
  collectives_ = step >= -1 ? ring_collectives(timeline, step) : std::vector<RingCollective>{};
  rings_step_ = step;
  if (collectives_.empty() && step >= 0) {
    rings_step_ = -1;
    collectives_ = ring_collectives(timeline, -1);
  }
  chosen_.reset();
  ring_.reset();
}

const RingCollective* RingsView::collective_of(int rank, const TimelineSpan& span) const {
  if (span.step != rings_step_ || span.sequence < 0) return nullptr;
  for (const RingCollective& each : collectives_)
    if (each.group == span.group && each.operation == span.name && each.sequence == span.sequence &&
        each.has(rank))
      return &each;
  return nullptr;
}

void RingsView::follow_selection(const Model& model) {
  if (model.selected.kind != Finding::Kind::span || !model.selected.rank) return;
  refresh(model);
  if (const auto* found = collective_of(model.selected.rank->rank, model.selected.span))
    chosen_ = *found;
}

ImVec2 RingsView::place_of(double rank) const {
  const double turn = 2 * std::numbers::pi * rank / static_cast<double>(ring_->size());
  return {centre_.x + radius_ * static_cast<float>(std::sin(turn)),
          centre_.y - radius_ * static_cast<float>(std::cos(turn))};
}

ImVec2 RingsView::middle_of(std::size_t link) const {
  const ImVec2 from = place_of(static_cast<double>(link));
  const ImVec2 to = place_of(static_cast<double>(link + 1));
  return {(from.x + to.x) / 2, (from.y + to.y) / 2};
}

ImVec2 RingsView::step_bar(std::size_t i) const {
  const auto steps = static_cast<float>(std::max<std::size_t>(ring_->steps(), 1));
  return {steps_.left + steps_.width() * (static_cast<float>(i) + 0.5f) / steps,
          (steps_.top + steps_.bottom) / 2};
}

void RingsView::draw(const Painter& painter, const Rect& rect, Model& model) {
  refresh(model);
  const Look& look = painter.look();
  const std::string note = collectives_.empty() ? ""
                           : rings_step_ >= 0   ? fmt::format("step {}", rings_step_)
                                                : "outside of steps";
  const Rect inside = panel_card(painter, rect, Panel::rings, note, model);
  explanation_.clear();
  if (collectives_.empty()) {
    ring_.reset();
    painter.text(inside.left, inside.top,
                 step_ < -1 ? "no step is complete yet" : "no collective ran as a ring",
                 palette.text_faint, look.body);
    return;
  }
  const RingCollective* hovered = nullptr;
  if (model.hovered.kind == Finding::Kind::span && model.hovered.rank)
    hovered = collective_of(model.hovered.rank->rank, model.hovered.span);
  const RingCollective& wanted = hovered ? *hovered : chosen_ ? *chosen_ : collectives_.front();
  if (!ring_ || !(ring_->collective == wanted))
    ring_ = ring_of(model.timeline, rings_step_, wanted);

  draw_list(painter, inside, model);
  Rect body = inside;
  body.right = inside.left + drawing_share * inside.width();
  body.top = list_bottom_ + painter.px(6);
  const float bar = painter.px(steps_height);
  const std::optional<std::size_t> step =
      draw_steps(painter, {body.left, body.bottom - bar, body.right, body.bottom});
  body.bottom -= bar + painter.px(8);
  const std::optional<std::size_t> link = draw_circle(painter, body, step);

  explanation_ = step   ? ring_step_words(*ring_, *step)
                 : link ? link_words(*ring_, *link)
                        : ring_sentences(*ring_);
  explain(painter, {body.right + painter.px(gap), body.top, inside.right, inside.bottom},
          explanation_, palette.text, &model.view.wanted_rank);
}

void RingsView::draw_list(const Painter& painter, const Rect& rect, const Model& model) {
  ImGui::PushFont(painter.look().small);
  ImGui::SetCursorScreenPos({rect.left, rect.top});
  ImGui::SetNextItemWidth(rect.width());
  list_bottom_ = rect.top + ImGui::GetFrameHeight();
  const std::string now = collective_words(model.timeline, ring_->collective);
  if (ImGui::BeginCombo("##collective", now.c_str(), ImGuiComboFlags_HeightLarge)) {
    for (std::size_t i = 0; i < std::min(collectives_.size(), most_listed); ++i) {
      const std::string words = collective_words(model.timeline, collectives_[i]);
      const bool shown = collectives_[i] == ring_->collective;
      ImGui::PushID(static_cast<int>(i));
      if (ImGui::Selectable(words.c_str(), shown)) chosen_ = collectives_[i];
      ImGui::PopID();
    }
    ImGui::EndCombo();
  }
  ImGui::PopFont();
}

std::optional<std::size_t> RingsView::draw_circle(const Painter& painter, const Rect& rect,
                                                  std::optional<std::size_t> step) {
  const Look& look = painter.look();
  const Ring& ring = *ring_;
  const std::size_t count = ring.size();
  const float edge = size_of(look.small) + painter.px(8);  // for the ranks' numbers
  centre_ = {(rect.left + rect.right) / 2, (rect.top + rect.bottom) / 2};
  radius_ = std::max(std::min(rect.width(), rect.height()) / 2 - edge, painter.px(12));
  const float apart =
      2 * radius_ * std::sin(static_cast<float>(std::numbers::pi) / static_cast<float>(count));
  const float disc = std::clamp(apart / 4, painter.px(1.5f), painter.px(node_radius));
  const ImVec2 mouse = ImGui::GetIO().MousePos;

  std::optional<std::size_t> hovered;
  float nearest = painter.px(near_link);
  for (std::size_t i = 0; i < count; ++i) {
    const ImVec2 a = place_of(static_cast<double>(i)), b = place_of(static_cast<double>(i + 1));
    const float dx = b.x - a.x, dy = b.y - a.y, square = std::max(dx * dx + dy * dy, 1.0f);
    const float along =
        std::clamp(((mouse.x - a.x) * dx + (mouse.y - a.y) * dy) / square, 0.0f, 1.0f);
    const float distance = std::hypot(a.x + along * dx - mouse.x, a.y + along * dy - mouse.y);
    if (distance < nearest) {
      nearest = distance;
      hovered = i;
    }
  }

  const std::size_t slowest = ring.slowest_link();
  const Picoseconds longest = std::max<Picoseconds>(ring.links[slowest].slowest(), 1);
  const bool alike = ring.links_alike();
  for (std::size_t i = 0; i < count; ++i) {
    const RingLink& link = ring.links[i];
    ImVec2 a = place_of(static_cast<double>(i)), b = place_of(static_cast<double>(i + 1));
    const float length = std::max(std::hypot(b.x - a.x, b.y - a.y), 1.0f);
    const float x = (b.x - a.x) / length, y = (b.y - a.y) / length;
    // Two ranks have two links between the same places, so they are drawn side by side.
    const float aside = count == 2 ? painter.px(9) : 0;
    a = {a.x + x * disc - y * aside, a.y + y * disc + x * aside};
    b = {b.x - x * disc - y * aside, b.y - y * disc + x * aside};
    const bool moves = !step || *step < link.transfers.size();
    const ImU32 colour = hovered == i             ? palette.highlight
                         : !moves                 ? palette.text_faint
                         : i == slowest && !alike ? palette.trouble
                         : link.between_nodes     ? palette.modelled_clock
                                                  : palette.communication;
    const auto share =
        static_cast<float>(static_cast<double>(link.slowest()) / static_cast<double>(longest));
    const float thickness = painter.px(1 + 2.5f * share) * (count > 24 ? 0.6f : 1.0f);
    painter.line(a.x, a.y, b.x, b.y, colour, thickness);
    const float head = std::min(painter.px(arrow) + thickness / 2, length / 3);
    painter.list()->AddTriangleFilled(
        b, {b.x - head * x - head * 0.7f * y, b.y - head * y + head * 0.7f * x},
        {b.x - head * x + head * 0.7f * y, b.y - head * y - head * 0.7f * x}, colour);
  }

  if (step && ring.complete()) {
    // Draws the number of the chunk that moves along each link, beside the link and within the
    // circle.
    for (std::size_t i = 0; i < count && apart > most_crowded * size_of(look.small); ++i) {
      const ImVec2 at = middle_of(i);
      const float inwards = painter.px(12) / std::max(radius_, 1.0f);
      const ImVec2 inner{at.x + (centre_.x - at.x) * inwards, at.y + (centre_.y - at.y) * inwards};
      const std::string number = std::to_string(*ring.chunk(i, *step));
      painter.text(count == 2 ? at.x + painter.px(i == 0 ? 14 : -14) : inner.x,
                   inner.y - size_of(look.small) / 2,
                   count <= most_labelled ? "chunk " + number : number, palette.text, look.small,
                   count > 2 ? Align::centre
                   : i == 0  ? Align::left
                             : Align::right);
    }
  } else if (count <= most_labelled) {
    for (std::size_t i = 0; i < count; ++i) {
      const RingLink& link = ring.links[i];
      const ImVec2 at = middle_of(i);
      const float line = size_of(look.small) + painter.px(1);
      const bool right = count == 2 ? i == 0 : at.x > centre_.x;
      const float x = at.x + painter.px(right ? 12 : -12);
      const float y = at.y < centre_.y - 1 ? at.y - 1.6f * line : at.y - 0.4f * line;
      const Align align = right ? Align::left : Align::right;
      painter.text(x, y, bytes_words(link.bytes()), palette.text_dim, look.small, align);
      painter.text(x, y + line, duration_words(link.slowest()), palette.text_dim, look.small,
                   align);
    }
  }

  // Number every rank, or only every n-th if they are too close.
  const float widest =
      painter.text_width(std::to_string(std::ranges::max(ring.collective.ranks)), look.small);
  const std::size_t every = 1 + whole_number((widest + painter.px(6)) / apart - 0.001f);
  labels_ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const ImVec2 at = place_of(static_cast<double>(i));
    painter.list()->AddCircleFilled(at, disc, palette.text_dim);
    if (i % every != 0 || (i > 0 && count - i < every)) continue;
    const float out = disc + size_of(look.small) / 2 + painter.px(4);
    const ImVec2 outer{centre_.x + (at.x - centre_.x) * (radius_ + out) / radius_,
                       centre_.y + (at.y - centre_.y) * (radius_ + out) / radius_};
    painter.text(outer.x, outer.y - size_of(look.small) / 2,
                 std::to_string(ring.collective.ranks[i]), palette.text, look.small, Align::centre);
    ++labels_;
  }
  const std::string middle =
      step ? fmt::format("step {}", *step + 1) : fmt::format("{} ranks", count);
  if (painter.text_width(middle, look.small) < 1.4f * radius_ && count > 2)
    painter.text(centre_.x, centre_.y - size_of(look.small) / 2, middle, palette.text_dim,
                 look.small, Align::centre);
  return hovered;
}

std::optional<std::size_t> RingsView::draw_steps(const Painter& painter, const Rect& rect) {
  const Ring& ring = *ring_;
  steps_ = rect;
  const std::size_t steps = ring.steps();
  painter.fill(rect, palette.lane);
  if (steps == 0) return std::nullopt;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const float width = rect.width() / static_cast<float>(steps);
  std::optional<std::size_t> hovered;
  if (rect.contains(mouse))
    hovered = std::min(whole_number((mouse.x - rect.left) / width), steps - 1);
  for (std::size_t i = 0; i < steps; ++i) {
    const float left = rect.left + width * static_cast<float>(i);
    const Rect box{left, rect.top, left + width, rect.bottom};
    const ImU32 colour = ring.gathers(i) ? palette.backward : palette.communication;
    painter.fill(width > 4 ? box.inset(1) : box, faded(colour, i % 2 == 0 ? 0.9f : 0.7f));
    if (hovered == i) painter.frame(box, palette.highlight);
    painter.text_in(box, std::to_string(i + 1), palette.text_on_box, painter.look().small);
  }
  return hovered;
}

}  // namespace lockstep::viz
