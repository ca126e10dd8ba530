#include "viz/views/timeline_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "viz/views/imgui_shim.h"

namespace lockstep::viz {
namespace {

constexpr float overview_height = 34;
constexpr float steps_height = 18;
constexpr double hover_pixels = 1.5;   // how close the cursor must be
constexpr float least_explained = 60;  // pixels of width of a step whose idle time is explained
constexpr std::size_t most_explained = 64;
constexpr float least_step_gap = 8;          // mean distance of steps separated by lines
constexpr std::size_t most_boxes = 200'000;  // a frame takes about 0.1 s

}  // namespace

TimelineView::Frame TimelineView::arrange(const Painter& painter, const Rect& rect,
                                          const Model& model) const {
  Frame frame;
  // Uses whole pixels, so that each column of a fold is a column of the screen.
  const float left = std::floor(rect.left + painter.px(names_width));
  const float right = std::floor(rect.right - painter.px(right_edge));
  float y = rect.top + painter.px(8);
  if (compared_) y = rect.top;
  frame.overview = {left, y, right, y + (compared_ ? 0 : painter.px(overview_height))};
  if (!compared_) y = frame.overview.bottom + painter.px(2);
  const bool has_axis = !compared_ || compared_->has_axis;
  frame.axis = {left, y, right, y + (has_axis ? painter.px(axis_height) : 0)};
  y = frame.axis.bottom;
  frame.steps = {left, y, right, y + painter.px(steps_height)};
  y = frame.steps.bottom + painter.px(2);
  frame.lanes = {left, y, right, rect.bottom};
  frame.names = {rect.left, y, left, rect.bottom};
  frame.window = model.viewport.window();
  frame.pixels_per_picosecond = static_cast<double>(frame.lanes.width()) / frame.window.width();
  return frame;
}

Rect TimelineView::place(const Frame& frame, const Strip& strip) const {
  const float top = screen_y(frame, strip.top);
  return {frame.lanes.left, top, frame.lanes.right, top + strip.height};
}

float TimelineView::screen_y(const Frame& frame, float y) const {
  return frame.lanes.top + y - (y < layout_.pinned_height() ? 0 : scroll_);
}

float TimelineView::layout_y(const Frame& frame, float y) const {
  const float from_top = y - frame.lanes.top;
  return from_top < layout_.pinned_height() ? from_top : from_top + scroll_;
}

void TimelineView::draw(const Painter& painter, const Rect& rect, Model& model,
                        const ComparedTimeline* compared) {
  compared_ = compared;
  Frame frame = arrange(painter, rect, model);
  lay_out(painter, frame, model);
  if (reveal_ >= 0) scroll_to(std::exchange(reveal_, -1), frame.lanes.height());
  scroll_ = std::clamp(scroll_, 0.0f, std::max(0.0f, layout_.height() - frame.lanes.height()));
  if (!compared_) draw_row_controls(painter, frame, model);
  take_input(painter, rect, frame, model);
  explain_steps(painter, frame, model);
  hover(frame, model);

  if (model.timeline.empty()) return;
  if (!compared_) draw_overview(painter, frame, model);
  draw_axis(painter, frame, model);
  draw_steps(painter, frame, model);
  boxes_left_ = most_boxes;
  growing_ = false;
  // Scrolling ranks disappear behind the pinned ones.
  const float pinned_bottom = frame.lanes.top + layout_.pinned_height();
  for (const bool pinned : {false, true}) {
    const float top = pinned ? frame.lanes.top : pinned_bottom;
    painter.list()->PushClipRect({rect.left, top}, {rect.right, rect.bottom}, true);
    draw_names(painter, frame, model, pinned);
    if (!pinned) draw_headings(painter, frame, model);
    painter.list()->PushClipRect({frame.lanes.left, top}, frame.lanes.max(), true);
    for (const RankGroup& group : layout_.groups()) {
      if (group.pinned != pinned) continue;
      for (std::size_t i = group.first; i < group.first + group.count; ++i) {
        const Rect at = place(frame, layout_.strips()[i]);
        if (at.bottom >= top && at.top <= frame.lanes.bottom)
          draw_strip(painter, frame, model, layout_.strips()[i]);
      }
    }
    painter.list()->PopClipRect();
    painter.list()->PopClipRect();
  }
  if (pinned_bottom > frame.lanes.top)
    painter.line(rect.left, pinned_bottom, rect.right, pinned_bottom, palette.text_faint);
  painter.list()->PushClipRect(frame.lanes.min(), frame.lanes.max(), true);
  draw_step_lines(painter, frame, model);
  if (!compared_) draw_described(painter, frame, model);
  draw_messages(painter, frame, model);
  if (model.view.critical_path) draw_critical_path(painter, frame);
  draw_chain(painter, frame, model);
  draw_playback(painter, frame, model);
  draw_marks(painter, frame, model);
  if (!compared_) draw_notes(painter, frame, model);
  draw_idle_outlines(painter, frame, model);
  if (compared_) draw_compared(painter, frame);
  painter.list()->PopClipRect();
  if (compared_) return draw_rank_marks(painter, frame);
  draw_row_drag(painter, frame);
  draw_menu(painter, model);
  draw_note_box(painter, model);
}

void TimelineView::draw_step_lines(const Painter& painter, const Frame& frame,
                                   const Model& model) const {
  const std::size_t most = whole_number(frame.lanes.width() / painter.px(least_step_gap));
  std::vector<float> lines;
  for (const StepWindow& step : model.timeline.steps()) {
    if (!frame.shows(step)) continue;
    const float x = frame.x(static_cast<double>(time_of(step).start));
    if (x < frame.lanes.left || x > frame.lanes.right) continue;
    lines.push_back(x);
    if (lines.size() > most) return;  // more lines would hide the spans
  }
  for (const float x : lines)
    painter.line(x, frame.lanes.top, x, frame.lanes.top + layout_.height() - scroll_,
                 faded(palette.step_line, 0.5f));
}

void TimelineView::select(const Finding& finding, Model& model) const {
  model.selected = finding;
  model.selected.around = 0;  // because the zoom may change after the click
  const TimelineSpan& span = finding.span;
  const bool action = finding.kind == Finding::Kind::span && !finding.open &&
                      finding.lane->is_compute() && span.is_action();
  model.chain = {};
  if (!action) return;
  const StepWindow* step = model.timeline.find_step(span.step);
  if (!step || !is_small(model.timeline, *step)) return;
  model.chain = {finding.rank->rank, span.step, span.start,
                 data_chain(model.timeline, span.step, finding.rank->rank, span.start)};
}

void TimelineView::scroll_to(int rank, float available) {
  const RankGroup* group = layout_.find(rank);
  if (!group || group->pinned) return;
  scroll_ = std::min(scroll_, group->top - layout_.pinned_height());
  scroll_ = std::max(scroll_, group->top + group->height - available);
}

void TimelineView::explain_steps(const Painter& painter, const Frame& frame, Model& model) {
  explained_.clear();
  ghosts_.clear();
  for (const StepWindow& step : model.timeline.steps()) {
    const float left = frame.x(static_cast<double>(step.start));
    const float right = frame.x(static_cast<double>(step.end));
    if (right < frame.lanes.left || left > frame.lanes.right) continue;
    if (right - left < painter.px(least_explained)) continue;
    if (explained_.size() == most_explained) return;
    const ExplainedStep* found = model.explanations.find(model.timeline, step);
    if (found) explained_.push_back(found);
    const Ghost* ghost = model.view.ghost ? model.ghosts.find(model.timeline, step) : nullptr;
    if (ghost) ghosts_.push_back(ghost);
  }
}

Interval TimelineView::time_of(const StepWindow& step) const {
  for (const ExplainedStep* explained : explained_)
    if (explained->step == step.step && explained->path) return explained->path->window;
  return {step.start, step.end};
}

void TimelineView::select_step(const Frame& frame, Model& model) const {
  const double time = frame.time(ImGui::GetIO().MousePos.x);
  for (const StepWindow& step : model.timeline.steps()) {
    Interval range = time_of(step);
    if (time < static_cast<double>(range.start) || time >= static_cast<double>(range.end)) continue;
    // Makes the range as long as the step that the panels describe.
    for (const ExplainedStep* explained : explained_)
      if (explained->step == step.step) range = longest_step(explained->account);
    model.viewport.follow(false);
    if (model.view.locked_step == step.step) {
      model.view.locked_step.reset();
      return;
    }
    model.view.locked_step = step.step;
    if (compared_)
      model.view.range = range_statistics(model.timeline, range);
    else
      model.view.select_range(model.timeline, range, !model.source.live);
    return;
  }
}

void TimelineView::hover(const Frame& frame, Model& model) const {
  model.hovered = {};
  model.cursor_time.reset();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!ImGui::IsItemHovered() || !frame.lanes.contains(mouse)) return;
  if (model.playback.active() && frame.time(mouse.x) > model.playback.cursor()) return;
  const Strip* strip = layout_.strip_at(layout_y(frame, mouse.y));
  if (!strip) return;
  model.cursor_time = static_cast<Picoseconds>(frame.time(mouse.x));
  const Rect row = place(frame, *strip);
  model.hovered_top = row.top;
  model.hovered_bottom = row.bottom;
  const Band band = strip->kind == StripKind::kernels ? Band::kernel : Band::action;
  for (const Lane* lane : strip->lanes) {
    const std::size_t shown = rows_shown(row, band, lane->rows(band).size());
    std::size_t deepest = std::max<std::size_t>(shown, 1) - 1;
    while (deepest > 0 && !row_part(row, band, deepest, shown).contains(mouse)) --deepest;
    const Finding finding = find_at(*strip->rank, *lane, band, frame.time(mouse.x),
                                    hover_pixels / frame.pixels_per_picosecond, deepest);
    const bool better =
        finding.kind != Finding::Kind::idle || model.hovered.kind == Finding::Kind::nothing;
    if (finding.kind != Finding::Kind::nothing && better) model.hovered = finding;
  }
  if (strip->kind != StripKind::compute || strip->lanes.empty()) return;
  Finding& finding = model.hovered;
  finding.rank = strip->rank;
  if (!finding.lane) finding.lane = strip->lanes.front();
  for (const ExplainedStep* step : explained_) explain_idle(finding, *step, frame.time(mouse.x));
}

}  // namespace lockstep::viz
