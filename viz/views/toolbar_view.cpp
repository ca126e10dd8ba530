#include "viz/views/toolbar_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "viz/views/imgui_shim.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 16;
constexpr float search_width = 170;
constexpr float scrub_width = 140;

}  // namespace

int ToolbarView::draw(const Painter& painter, const Rect& rect, Model& model) {
  ViewState& view = model.view;
  if (!ImGui::GetIO().WantTextInput) {
    if (key_pressed(keys::e, false)) view.exports = !view.exports;
    if (key_pressed(keys::b, false)) view.toggle_theme();
    if (ImGui::GetIO().KeyCtrl && key_pressed(keys::o, false)) view.opening = true;
  }
  ButtonRow row{painter, rect, rect.left + painter.px(edge), compact_};
  if (model.contents.pipeline) {
    if (row.button("P  Critical path", view.critical_path,
                   "the chain of actions and messages that determines the step's length"))
      view.critical_path = !view.critical_path;
    if (row.button("G  Predicted", view.ghost,
                   "below each lane: the schedule, simulated with the mean times of each stage"))
      view.ghost = !view.ghost;
  }
  if (view.locked_step && row.button(fmt::format("Step {} locked  ×", *view.locked_step), true,
                                     "the cards describe this step; click to unlock them"))
    view.locked_step.reset();
  draw_playback(row, model);
  const int jump = draw_search(row, model);

  const Source& source = model.source;
  const bool more = source.live && !model.timeline.ended() && !model.timeline.empty() &&
                    (!source.piped || source.connected > 0);
  const std::string follow_words =
      model.viewport.following() ? "L  Following the run" : "L  Resume following";
  const std::string help = "?  Keys", exports = "E  Export", open = "Open", lab = "Lab";
  const std::string stop = "Stop", restart = "Restart";
  const std::string theme = view.theme == Theme::dark ? "B  Light" : "B  Dark";
  float left = rect.right - painter.px(edge) + ButtonRow::gap_of(painter);
  for (const std::string& words : {open, theme, exports, help})
    left -= ButtonRow::width_of(painter, words, compact_);
  if (source.offers_lab) left -= ButtonRow::width_of(painter, lab, compact_);
  if (source.lesson_runs)
    for (const std::string& words : {stop, restart})
      left -= ButtonRow::width_of(painter, words, compact_);
  if (more) left -= ButtonRow::width_of(painter, follow_words, compact_);
  ButtonRow right{painter, rect, left, compact_};
  if (source.lesson_runs) {
    if (right.button(stop, false, "end the lesson that this viewer started, as Ctrl-C does"))
      view.lesson_wish = LessonWish::stop;
    if (right.button(restart, false, "start the lesson again, with the flags set in the lab"))
      view.lesson_wish = LessonWish::restart;
  }
  if (source.offers_lab &&
      right.button(lab, false, "schedules on sliders, a board, and lessons to start"))
    view.lab = true;
  if (right.button(open, view.opening, "another run, instead of this one or beside it (Ctrl+O)"))
    view.opening = true;
  if (right.button(theme, false, "a dark or a light background")) view.toggle_theme();
  if (right.button(exports, view.exports, "a picture, the timeline as SVG, the statistics as CSV"))
    view.exports = !view.exports;
  if (more && right.button(follow_words, !model.viewport.following(),
                           "the window moves with the run; panning and zooming pause it"))
    follow(model, !model.viewport.following());
  if (right.button(help, view.help, "")) view.help = !view.help;
  compact_ = row.full_width() + right.full_width() > rect.width() - painter.px(2 * edge);
  return jump;
}

void ToolbarView::draw_playback(ButtonRow& row, Model& model) const {
  Playback& playback = model.playback;
  if (model.timeline.empty()) return;
  const char* words = playback.playing() ? "Space  Pause" : "Space  Play";
  if (row.button(words, playback.active(), "replay the run; drag in the time axis to scrub")) {
    playback.toggle(model.timeline, model.viewport);
    model.viewport.follow(false);
  }
  if (!playback.active()) return;
  if (row.button("-", false, "half the speed")) playback.change_speed(-1);
  row.text(duration_words(playback.speed()) + " per second", colours::text_dim);
  if (row.button("+", false, "twice the speed")) playback.change_speed(1);
  const Rect scrub = row.space(row.painter().px(scrub_width));
  ImGui::SetCursorScreenPos(scrub.min());
  ImGui::InvisibleButton("scrub", {scrub.width(), scrub.height()});
  const auto start = static_cast<double>(model.timeline.start());
  const double whole = std::max(static_cast<double>(model.timeline.end()) - start, 1.0);
  if (ImGui::IsItemActive()) {
    const float at = (ImGui::GetIO().MousePos.x - scrub.left) / scrub.width();
    playback.scrub(model.timeline, start + static_cast<double>(at) * whole);
    model.viewport.show(playback.cursor());
  }
  const Painter& painter = row.painter();
  const float middle = (scrub.top + scrub.bottom) / 2;
  const float x =
      scrub.left + scrub.width() * static_cast<float>((playback.cursor() - start) / whole);
  painter.fill({scrub.left, middle - painter.px(2), scrub.right, middle + painter.px(2)},
               colours::panel_edge, painter.px(2));
  painter.fill({scrub.left, middle - painter.px(2), x, middle + painter.px(2)}, colours::accent,
               painter.px(2));
  painter.list()->AddCircleFilled({x, middle}, painter.px(6), colours::accent);
  if (row.button("Show all", false, "end the playback")) playback.stop();
}

int ToolbarView::draw_search(ButtonRow& row, Model& model) {
  ViewState& view = model.view;
  const bool opens = view.searching && !was_searching_;
  was_searching_ = view.searching;
  if (!view.searching) {
    if (row.button("/  Search", false, "F3, rank:1, step:2, stage:0, or a part of a name"))
      view.searching = true;
    return 0;
  }
  const Rect rect = row.space(row.painter().px(search_width));
  ImGui::PushFont(row.painter().look().small);
  const float frame = (rect.height() - ImGui::GetFontSize()) / 2;
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {row.painter().px(8), frame});
  ImGui::SetCursorScreenPos(rect.min());
  ImGui::SetNextItemWidth(rect.width());
  if (opens) ImGui::SetKeyboardFocusHere();
  std::array<char, 128> text{};
  view.query.copy(text.data(), text.size() - 1);
  int jump = 0;
  if (ImGui::InputTextWithHint("##search", "F3, rank:1, send ...", text.data(), text.size(),
                               ImGuiInputTextFlags_EnterReturnsTrue))
    jump = ImGui::GetIO().KeyShift ? -1 : 1;
  const bool escaped = key_pressed(keys::escape, false);
  ImGui::PopStyleVar();
  ImGui::PopFont();
  if (escaped) {
    view.searching = false;
    text.fill(0);
  }
  if (view.query != text.data()) view.set_query(text.data(), model.timeline);
  if (!view.search.empty()) {
    row.text(fmt::format("{} found{}", view.found, view.counting() ? " ..." : ""),
             view.found > 0 || view.counting() ? colours::text_dim : colours::trouble);
    if (row.button("<", false, "previous (Shift+N)")) jump = -1;
    if (row.button(">", false, "next (N or Enter)")) jump = 1;
  }
  return jump;
}

}  // namespace lockstep::viz
