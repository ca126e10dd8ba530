#include "viz/app/lab_screen.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/app/screen_parts.h"
#include "viz/data/step/words.h"
#include "viz/views/button.h"
#include "viz/views/imgui_shim.h"
#include "viz/views/lab_controls_view.h"
#include "viz/views/lab_schedule_view.h"
#include "viz/views/lab_table_view.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 16;
constexpr float bar_height = 44;
constexpr float controls_width = 250, lessons_width = 380;
constexpr float most_controls_share = 0.36f;  // of the window's width
constexpr float table_share = 0.42f;          // of the height beside the controls, at most
constexpr float axis_height = 16;
constexpr float words_height = 24;
constexpr float least_lanes_width = 60;
constexpr float gap = 10;

}  // namespace

void LabScreen::draw(LabBench& lab, Model& model, const Look& look) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  begin_screen();
  const Painter painter{ImGui::GetWindowDrawList(), look};
  model.contents = contents_of(model.timeline);
  const float bar = painter.px(bar_height);
  draw_bar(painter, {0, 0, size.x, bar}, lab, model);
  const float margin = painter.px(edge), between = painter.px(gap);
  const float wanted =
      painter.px(lab.page == LabBench::Page::lessons ? lessons_width : controls_width);
  const float width = std::min(wanted, most_controls_share * size.x);
  const Rect left{margin, bar + between, margin + width, size.y - between};
  const Rect right{left.right + margin, left.top, size.x - margin, left.bottom};
  if (lab.page == LabBench::Page::lessons) {
    lessons_.draw(painter, left, lab, model.source.piped);
    draw_lessons(painter, right, lab, model);
  } else {
    const bool from_run = model.contents.pipeline;
    if (draw_lab_controls(painter, left, lab, from_run)) model.view.lab_takes_run = true;
    if (lab.page == LabBench::Page::board)
      board_.draw(painter, right, lab);
    else
      draw_schedules(painter, right, lab);
  }
  const Painter front{ImGui::GetForegroundDrawList(), look};
  // The timeline takes the key itself.
  const bool live = lab.page == LabBench::Page::lessons && shows_timeline_;
  if (!live && !ImGui::GetIO().WantTextInput && typed('?')) model.view.help = !model.view.help;
  using Place = HelpView::Place;
  const Place place = lab.page == LabBench::Page::schedules ? Place::lab_schedules
                      : lab.page == LabBench::Page::board   ? Place::lab_board
                      : live                                ? Place::lab_live
                                                            : Place::lab_lessons;
  if (model.view.help) help_.draw(front, size, place);
  ImGui::End();
}

void LabScreen::draw_bar(const Painter& painter, const Rect& rect, LabBench& lab, Model& model) {
  using Page = LabBench::Page;
  const Look& look = painter.look();
  painter.fill(rect, palette.panel);
  painter.line(rect.left, rect.bottom, rect.right, rect.bottom, palette.panel_edge);
  const float middle = (rect.top + rect.bottom) / 2;
  float x = rect.left + painter.px(edge);
  x += painter.text(x, middle - size_of(look.large) / 2, "Lab", palette.text, look.large) +
       painter.px(edge);
  ButtonRow row{painter, rect, x};
  const auto page = [&](const char* words, Page which, const char* tip) {
    if (row.button(words, lab.page == which, tip)) lab.page = which;
  };
  page("Schedules", Page::schedules, "every registered schedule, on sliders");
  page("Board", Page::board, "build a schedule by hand");
  page("Lessons", Page::lessons, "start a lesson, and watch it live");
  const std::string theme = model.view.theme == Theme::dark ? "B  Light" : "B  Dark";
  // Without a run, there is no timeline to go back to.
  const bool run = !model.timeline.empty();
  const std::string help = "?  Keys", back = run ? "Esc  Back to the timeline" : "Open";
  float left = rect.right - painter.px(edge) + ButtonRow::gap_of(painter);
  for (const std::string& words : {theme, help, back}) left -= ButtonRow::width_of(painter, words);
  ButtonRow end{painter, rect, left};
  const bool typing = ImGui::GetIO().WantTextInput;
  if (end.button(theme, false, "a dark or a light background") ||
      (!typing && key_pressed(keys::b, false)))
    model.view.toggle_theme();
  if (end.button(help, model.view.help, "")) model.view.help = !model.view.help;
  const bool escaped = !typing && key_pressed(keys::escape, false);
  if (run) {
    if (end.button(back, false, "the run's timeline and its panels") ||
        (escaped && !model.view.help))
      model.view.lab = false;
  } else if (end.button(back, false, "a run, in place of the lab (Ctrl+O)")) {
    model.view.opening = true;
  }
  if (!typing && ImGui::GetIO().KeyCtrl && key_pressed(keys::o, false)) model.view.opening = true;
  if (escaped) model.view.help = false;
}

void LabScreen::draw_schedules(const Painter& painter, const Rect& rect, LabBench& lab) {
  const float table =
      std::min(lab_table_height(painter, lab) + painter.px(2), table_share * rect.height());
  draw_lab_table(painter, {rect.left, rect.top, rect.right, rect.top + table}, lab);
  const float top = rect.top + table + painter.px(gap);
  const float half = (rect.bottom - top - painter.px(axis_height)) / 2;
  draw_lab_axis(painter, {rect.left, top, rect.right, rect.bottom}, lab.axis_end());
  for (std::size_t which = 0; which < 2; ++which) {
    const float from = top + painter.px(axis_height) + static_cast<float>(which) * half;
    draw_shown(painter, {rect.left, from, rect.right, from + half}, lab, which);
  }
}

void LabScreen::draw_shown(const Painter& painter, const Rect& rect, LabBench& lab,
                           std::size_t which) {
  const Look& look = painter.look();
  const Rect words{rect.left, rect.top, rect.right, rect.top + painter.px(words_height)};
  const LabRow* shown = lab.row(which);
  const char letter = which == 0 ? 'A' : 'B';
  const float y = (words.top + words.bottom - size_of(look.small)) / 2;
  if (!shown) {
    const LabRow* row = lab.table.find(lab.shown[which]);
    const std::string why = row && row->searching ? "searching ..."
                            : row                 ? "does not run here: " + row->fit.refusal
                                                  : "";
    painter.text(words.left, y,
                 painter.fitted(fmt::format("{}  {} {}", letter, lab.shown[which], why), look.small,
                                words.width()),
                 palette.text_dim, look.small);
    return;
  }
  const LabResult& result = *shown->result;
  ButtonRow row{painter, words, words.left};
  row.put_tips_above();
  row.text(fmt::format("{}  {}", letter, shown->known->name), palette.text);
  const RunIt& run = lab.run;
  const bool same = run.state() != RunIt::State::idle && run.settings() == lab.settings &&
                    run.simulated().schedule.actions == result.schedule.actions;
  const bool busy = run.state() == RunIt::State::running;
  ImGui::PushID(static_cast<int>(which));
  if (same && busy) {
    if (row.button("Stop", false, "end this run")) lab.run.stop();
  } else if (row.button("Run it", false, lab.run_it_words(result.schedule.ranks))) {
    lab.run_it(result, lab.settings);
  }
  ImGui::PopID();
  const std::string summary =
      same ? run.words()
           : fmt::format("step {}, bubble {}, peak {}", duration_words(result.simulation.makespan),
                         percent_words(result.simulation.bubble),
                         peak_words(result, lab.settings.memory_limit));
  const float left = row.space(0).left;
  const bool trouble = same ? run.state() == RunIt::State::failed : !result.over_limit.empty();
  painter.text(left, y, painter.fitted(summary, look.small, words.right - left),
               trouble ? palette.trouble : palette.text, look.small);
  draw_lab_schedule(painter,
                    {rect.left, words.bottom, rect.right, rect.bottom - painter.px(gap) / 2},
                    {.result = result,
                     .end = lab.axis_end(),
                     .observed = same && run.outcome() ? &run.outcome()->step : nullptr,
                     .memory_limit = lab.settings.memory_limit});
}

void LabScreen::draw_lessons(const Painter& painter, const Rect& rect, LabBench& lab,
                             Model& model) {
  model.view.refresh(model.timeline);
  const float least =
      painter.px(TimelineView::names_width + TimelineView::right_edge + least_lanes_width);
  shows_timeline_ = !model.timeline.empty() && rect.width() >= least;
  if (shows_timeline_) return timeline_.draw(painter, rect, model);
  paragraph(painter, rect,
            !model.timeline.empty()  ? "The window is too narrow for the timeline here: Esc."
            : lab.launcher.running() ? "The lesson has sent nothing yet."
                                     : "Choose a lesson on the left and start it: its timeline "
                                       "appears here. Esc shows it with all panels.",
            palette.text_dim, painter.look().body);
}

}  // namespace lockstep::viz
