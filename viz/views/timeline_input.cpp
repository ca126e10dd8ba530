// TimelineView: mouse and keyboard.
#include <algorithm>
#include <cmath>

#include "viz/views/imgui_shim.h"
#include "viz/views/timeline_view.h"

namespace lockstep::viz {
namespace {

constexpr double wheel_zoom = 0.85;  // factor per notch
constexpr double wheel_pan = 0.1;    // windows per notch
constexpr float wheel_scroll = 40;   // pixels per notch
constexpr double key_zoom = 0.2;     // factor per second
constexpr double key_pan = 0.9;      // windows per second
constexpr float drag_threshold = 3;
constexpr float mark_pixels = 5;  // marks closer than this are the same
constexpr double focus_margin =
    0.25;  // on both sides of the span that F shows, relative to its length

Picoseconds whole(double time) {
  return static_cast<Picoseconds>(
      std::clamp(time, static_cast<double>(earliest_time), static_cast<double>(latest_time)));
}

}  // namespace

void TimelineView::take_input(const Painter& painter, const Rect& rect, const Frame& frame,
                              Model& model) {
  const ImGuiIO& io = ImGui::GetIO();
  ImGui::SetCursorScreenPos(rect.min());
  ImGui::InvisibleButton("timeline", {rect.width(), rect.height()},
                         ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonMiddle);
  const bool hovered = ImGui::IsItemHovered();
  take_drag(painter, frame, model);
  if (hovered && !compared_ && ImGui::IsMouseClicked(ImGuiMouseButton_Right)) {
    menu_ = place_under_cursor(frame, model);
    opens_menu_ = true;
  }
  if (hovered) take_wheel(painter, frame, model);
  keys_held_ = false;
  if (!io.WantTextInput && (!compared_ || compared_->takes_keys)) {
    const bool inside = hovered && io.MousePos.x > frame.lanes.left;
    take_zoom_keys(frame, inside, model);
    take_keys(painter, frame, inside, model);
  }
}

void TimelineView::take_drag(const Painter& painter, const Frame& frame, Model& model) {
  const ImGuiIO& io = ImGui::GetIO();
  Viewport& viewport = model.viewport;
  const bool active = ImGui::IsItemActive();
  if (ImGui::IsItemActivated()) {
    const bool pans = io.KeyShift || ImGui::IsMouseDown(ImGuiMouseButton_Middle);
    drag_ = frame.overview.contains(io.MousePos) ? Drag::overview
            : frame.axis.contains(io.MousePos)   ? Drag::scrub
            : pans                               ? Drag::pan
            : io.MousePos.x > frame.lanes.left   ? Drag::range
            : frame.names.contains(io.MousePos)  ? Drag::row
                                                 : Drag::none;
    const RankGroup* group = layout_.group_at(layout_y(frame, io.MousePos.y));
    dragged_rank_ = drag_ == Drag::row && group && !compared_ ? group->rank->rank : -1;
    dragged_ = false;
    drag_from_ = frame.time(io.MousePos.x);
  }
  dragged_ |= ImGui::IsMouseDragging(ImGuiMouseButton_Left, painter.px(drag_threshold)) ||
              ImGui::IsMouseDragging(ImGuiMouseButton_Middle, painter.px(drag_threshold));
  if (active && drag_ == Drag::overview) {
    // The overview acts as a scroll bar: clicking or dragging moves the window there.
    const auto start = static_cast<double>(model.timeline.start());
    const auto all = static_cast<double>(model.timeline.end()) - start;
    const double share =
        static_cast<double>((io.MousePos.x - frame.overview.left) / frame.overview.width());
    const double middle = start + std::clamp(share, 0.0, 1.0) * all;
    const double half = viewport.window().width() / 2;
    viewport.go_to({middle - half, middle + half});
  } else if (active && drag_ == Drag::scrub) {
    model.playback.scrub(model.timeline, frame.time(io.MousePos.x));
    viewport.follow(false);
  } else if (active && dragged_ && drag_ == Drag::pan) {
    viewport.pan(static_cast<double>(-io.MouseDelta.x / frame.lanes.width()));
    scroll_ -= io.MouseDelta.y;
  } else if (drag_ == Drag::range && dragged_ && (active || ImGui::IsItemDeactivated())) {
    const double to = frame.time(std::clamp(io.MousePos.x, frame.lanes.left, frame.lanes.right));
    const Interval range{whole(std::min(drag_from_, to)), whole(std::max(drag_from_, to))};
    viewport.follow(false);
    select({}, model);
    // While the range grows, only its length is shown.
    if (active) {
      model.view.drag_range(range);
    } else if (range.start < range.end && compared_) {
      model.view.range = range_statistics(model.timeline, range);
    } else if (range.start < range.end) {
      model.view.select_range(model.timeline, range, !model.source.live);
    }
  } else if (drag_ == Drag::row && dragged_ && ImGui::IsItemDeactivated()) {
    drop_row(frame, model);
  } else if (ImGui::IsItemDeactivated() && !dragged_ && drag_ != Drag::overview &&
             drag_ != Drag::scrub) {
    click(painter, frame, model);
  }
}

void TimelineView::click(const Painter& painter, const Frame& frame, Model& model) {
  if (ImGui::GetIO().MousePos.x < frame.lanes.left) return click_name(painter, frame, model);
  if (compared_ && frame.steps.contains(ImGui::GetIO().MousePos)) {
    chosen_time_ = frame.time(ImGui::GetIO().MousePos.x);
    return;
  }
  model.view.range.reset();
  if (frame.steps.contains(ImGui::GetIO().MousePos)) {
    select({}, model);
    return select_step(frame, model);
  }
  const Finding& found = model.hovered;
  const bool worth = found.kind == Finding::Kind::span ||
                     (found.kind == Finding::Kind::idle && found.lane && found.lane->is_compute());
  if (worth || model.selected.kind != Finding::Kind::nothing)
    model.history.leave({model.selected, model.viewport.window()});
  select(worth ? found : Finding{}, model);
  model.view.marked_rank.reset();
}

void TimelineView::take_wheel(const Painter& painter, const Frame& frame, Model& model) {
  const ImGuiIO& io = ImGui::GetIO();
  const auto notches = static_cast<double>(io.MouseWheel);
  if (io.KeyCtrl && notches != 0) {
    model.viewport.zoom(std::pow(wheel_zoom, notches), frame.time(io.MousePos.x));
  } else if (io.KeyShift && notches != 0) {
    model.viewport.pan(-wheel_pan * notches);
  } else {
    scroll_ -= io.MouseWheel * painter.px(wheel_scroll);
  }
  if (io.MouseWheelH != 0) model.viewport.pan(-wheel_pan * static_cast<double>(io.MouseWheelH));
}

void TimelineView::take_zoom_keys(const Frame& frame, bool inside, Model& model) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.KeyCtrl) return;
  Viewport& viewport = model.viewport;
  const double at =
      inside ? frame.time(io.MousePos.x) : (frame.window.begin + frame.window.end) / 2;
  const auto seconds = static_cast<double>(io.DeltaTime);
  keys_held_ = key_down(keys::w) || key_down(keys::s) || key_down(keys::a) || key_down(keys::d);
  if (key_down(keys::w)) viewport.zoom(std::pow(key_zoom, seconds), at);
  if (key_down(keys::s)) viewport.zoom(std::pow(key_zoom, -seconds), at);
  if (key_down(keys::a)) viewport.pan(-key_pan * seconds);
  if (key_down(keys::d)) viewport.pan(key_pan * seconds);
}

void TimelineView::take_keys(const Painter& painter, const Frame& frame, bool inside,
                             Model& model) {
  const bool ctrl = ImGui::GetIO().KeyCtrl;
  if (!compared_) take_jump_keys(model);
  if (!ctrl) take_plain_keys(painter, frame, inside, model);
  if (!ctrl) take_row_keys(frame, model);
  if (typed('/')) model.view.searching = true;
  if (typed('?')) model.view.help = !model.view.help;
  if (key_pressed(keys::escape, false)) escape(model);
}

void TimelineView::take_plain_keys(const Painter& painter, const Frame& frame, bool inside,
                                   Model& model) {
  Viewport& viewport = model.viewport;
  ViewState& view = model.view;
  const bool shift = ImGui::GetIO().KeyShift;
  if (key_pressed(keys::f, false) && !shift) focus(model);
  if (key_pressed(keys::home, false)) viewport.fit(model.timeline);
  if (key_pressed(keys::l, false)) follow(model, !viewport.following());
  if (key_pressed(keys::space, false) && !model.timeline.empty()) {
    model.playback.toggle(model.timeline, viewport);
    viewport.follow(false);
  }
  if (key_pressed(keys::p, false)) view.critical_path = !view.critical_path;
  if (key_pressed(keys::g, false)) view.ghost = !view.ghost;
  if (key_pressed(keys::page_up) && !compared_) viewport.go_by_steps(model.timeline, -1);
  if (key_pressed(keys::page_down) && !compared_) viewport.go_by_steps(model.timeline, 1);
  if (key_pressed(keys::left)) go_along(frame, -1, model);
  if (key_pressed(keys::right)) go_along(frame, 1, model);
  if (key_pressed(keys::up)) go_across(frame, -1, model);
  if (key_pressed(keys::down)) go_across(frame, 1, model);
  if (key_pressed(keys::n)) go_to_match(shift ? -1 : 1, model);
  if (key_pressed(keys::m, false)) {
    const double cursor = inside ? frame.time(ImGui::GetIO().MousePos.x)
                                 : (frame.window.begin + frame.window.end) / 2;
    const Interval at = view.range ? view.range->range
                        : model.selected.kind != Finding::Kind::nothing
                            ? Interval{model.selected.span.start, model.selected.span.end}
                            : Interval{whole(cursor), whole(cursor)};
    view.mark(at,
              whole(static_cast<double>(painter.px(mark_pixels)) / frame.pixels_per_picosecond));
  }
  if (key_pressed(keys::u, false) && !compared_) {
    noted_ = place_under_cursor(frame, model);
    opens_note_ = noted_.time.has_value();
  }
}

void TimelineView::escape(Model& model) {
  ViewState& view = model.view;
  if (view.help || view.exports) {
    view.help = view.exports = false;
    return;
  }
  select({}, model);
  view.range.reset();
  view.marked_rank.reset();
  view.searching = false;
  view.set_query({}, model.timeline);
  model.playback.stop();
}

void TimelineView::focus(Model& model) const {
  const Interval* range = model.view.range ? &model.view.range->range : nullptr;
  const Interval selected{model.selected.span.start, model.selected.span.end};
  if (!range && model.selected.kind != Finding::Kind::nothing) range = &selected;
  if (!range) return model.viewport.fit(model.timeline);
  const auto begin = static_cast<double>(range->start), end = static_cast<double>(range->end);
  const double margin = focus_margin * (end - begin);
  model.viewport.go_to({begin - margin, end + margin});
}

void TimelineView::go_along(const Frame& frame, int by, Model& model) {
  const Finding from = model.selected;
  if (from.kind == Finding::Kind::nothing || !from.lane) return go_across(frame, 0, model);
  const Band band = band_of(from.span.category) == Band::kernel ? Band::kernel : Band::action;
  const auto span =
      neighbour(*from.lane, band,
                by > 0 ? std::max(from.span.end, from.span.start + 1) : from.span.start, by);
  if (!span) return;
  go_to({.kind = Finding::Kind::span, .rank = from.rank, .lane = from.lane, .span = *span}, model);
}

void TimelineView::go_across(const Frame& frame, int by, Model& model) {
  const auto& strips = layout_.strips();
  const Finding& from = model.selected;
  auto at = static_cast<std::ptrdiff_t>(
      std::ranges::find_if(strips, [&](const Strip& strip) { return strip.shows(from.lane); }) -
      strips.begin());
  const auto count = static_cast<std::ptrdiff_t>(strips.size());
  const bool starts = from.kind == Finding::Kind::nothing || at == count;
  if (starts) at = 0;
  const Picoseconds time =
      starts ? whole(frame.window.begin) : from.span.start + (from.span.end - from.span.start) / 2;
  if (starts) by = by < 0 ? -1 : 1;
  for (at = starts ? at : at + by; at >= 0 && at < count; at += by) {
    const Strip& strip = strips[static_cast<std::size_t>(at)];
    const Band band = strip.kind == StripKind::kernels ? Band::kernel : Band::action;
    const auto span = starts ? neighbour(*strip.lanes.front(), band, time, 1)
                             : nearest(*strip.lanes.front(), band, time);
    if (!span) continue;
    return go_to({.kind = Finding::Kind::span,
                  .rank = strip.rank,
                  .lane = strip.lanes.front(),
                  .span = *span},
                 model);
  }
}

void TimelineView::go_to_match(int by, Model& model) {
  if (model.view.search.empty()) return;
  const bool selected = model.selected.kind == Finding::Kind::span;
  const Picoseconds from = selected ? model.selected.span.start
                           : by > 0 ? whole(model.viewport.window().begin)
                                    : whole(model.viewport.window().end);
  if (const auto found = model.view.search.next(model.timeline, from, by)) go_to(*found, model);
}

}  // namespace lockstep::viz
