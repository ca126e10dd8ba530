#include "viz/views/toolbar_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "viz/views/imgui_shim.h"
#include "viz/views/tip.h"

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

  const float full = row.full_width() + draw_right(painter, rect, row.left(), model);
  compact_ = full > rect.width() - painter.px(2 * edge);
  return jump;
}

float ToolbarView::draw_right(const Painter& painter, const Rect& rect, float least,
                              Model& model) const {
  ViewState& view = model.view;
  const Source& source = model.source;
  const bool more = source.live && !model.timeline.ended() && !model.timeline.empty() &&
                    (!source.piped || source.connected > 0);
  struct Button {
    std::string words;
    bool on;
    const char* tip;
    std::function<void()> effect;
    int rank;  ///< without room for all, those with the highest rank are left out
  };
  std::vector<Button> buttons;
  if (source.lesson_runs) {
    buttons.push_back({"Stop", false, "end the lesson that this viewer started, as Ctrl-C does",
                       [&] { view.lesson_wish = LessonWish::stop; }, 1});
    buttons.push_back({"Restart", false, "start the lesson again, with the flags set in the lab",
                       [&] { view.lesson_wish = LessonWish::restart; }, 2});
  }
  if (source.offers_lab)
    buttons.push_back({"Lab", false, "schedules on sliders, a board, and lessons to start",
                       [&] { view.lab = true; }, 3});
  buttons.push_back({"Open", view.opening, "another run, instead of this one or beside it (Ctrl+O)",
                     [&] { view.opening = true; }, 4});
  buttons.push_back({view.theme == Theme::dark ? "B  Light" : "B  Dark", false,
                     "a dark or a light background", [&] { view.toggle_theme(); }, 6});
  buttons.push_back({"E  Export", view.exports,
                     "a picture, the timeline as SVG, the statistics as CSV",
                     [&] { view.exports = !view.exports; }, 5});
  if (more) {
    const bool following = model.viewport.following();
    buttons.push_back({following ? "L  Following the run" : "L  Resume following", !following,
                       "the window moves with the run; panning and zooming pause it",
                       [&, following] { follow(model, !following); }, 0});
  }
  buttons.push_back({"?  Keys", view.help, "", [&] { view.help = !view.help; }, 0});
  const auto width = [&](bool compact) {
    float sum = 0;
    for (const Button& each : buttons) sum += ButtonRow::width_of(painter, each.words, compact);
    return sum;
  };
  const float full = width(false);
  const float right = rect.right - painter.px(edge) + ButtonRow::gap_of(painter);
  while (buttons.size() > 1 && right - width(compact_) < least)
    buttons.erase(std::ranges::max_element(buttons, {}, &Button::rank));
  ButtonRow row{painter, rect, right - width(compact_), compact_};
  for (const Button& each : buttons)
    if (row.button(each.words, each.on, each.tip)) each.effect();
  return full;
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
  row.text(duration_words(playback.speed()) + " per second", palette.text_dim);
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
               palette.panel_edge, painter.px(2));
  painter.fill({scrub.left, middle - painter.px(2), x, middle + painter.px(2)}, palette.accent,
               painter.px(2));
  painter.list()->AddCircleFilled({x, middle}, painter.px(6), palette.accent);
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
  if (!view.search_trouble.empty()) {
    draw_tip(Painter{ImGui::GetForegroundDrawList(), row.painter().look()}, rect,
             {view.search_trouble}, palette.trouble);
  } else if (!view.search.empty()) {
    row.text(fmt::format("{} found{}", view.found, view.searches() ? " ..." : ""),
             view.found > 0 || view.searches() ? palette.text_dim : palette.trouble);
    if (row.button("<", false, "previous (Shift+N)")) jump = -1;
    if (row.button(">", false, "next (N or Enter)")) jump = 1;
  }
  return jump;
}

}  // namespace lockstep::viz
