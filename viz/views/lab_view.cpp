#include "viz/views/lab_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/data/step/words.h"
#include "viz/views/panel_card.h"
#include "viz/views/slider.h"

namespace lockstep::viz {
namespace {

constexpr int most_microbatches = 64;
constexpr float slider_width = 210;
constexpr float schedule_width = 170;
constexpr float name_width = 52;  // of the names of stages, at least
constexpr float name_gap = 8;
constexpr float most_names = 0.25f;  // of the width
constexpr float most_row = 40;
constexpr float row_gap = 3;
constexpr float verdict_lines = 2;

}  // namespace

void LabView::refresh(const Timeline& timeline) {
  // Takes over the run's times once one of the run's steps has ended, and again when the next phase
  // begins. Keeps settings that the user has changed.
  const int step = last_complete_step(timeline);
  const bool new_run = timeline.run().run != run_;
  const bool known =
      !question_.measured.empty() && (touched_ || timeline.prediction(step).phase == phase_);
  if (answer_ && !new_run && (known || step == looked_at_)) return;
  if (new_run) touched_ = false;
  LabQuestion fresh = question_from(timeline, step);
  if (touched_) {
    fresh.microbatches = question_.microbatches;
    fresh.fewer_microbatches = question_.fewer_microbatches;
    if (const auto fitting = lab_schedules(fresh);
        std::ranges::count(fitting, question_.schedule,
                           [](const auto& each) { return each.first; }) > 0) {
      fresh.schedule = question_.schedule;
      fresh.chunks = question_.chunks;
    }
  }
  run_ = timeline.run().run;
  phase_ = timeline.prediction(step).phase;
  looked_at_ = step;
  question_ = fresh;
  answer_ = answer(question_);
}

void LabView::draw(const Painter& painter, const Rect& rect, Model& model) {
  refresh(model.timeline);
  const std::string times = fmt::format(
      "{}: forward {}, backward {}", !question_.measured.empty() ? "measured" : "textbook",
      duration_words(question_.forward), duration_words(question_.backward));
  const Rect inside = panel_card(painter, rect, Panel::what_if, times, model);
  draw_controls(painter, inside, model.view);
  const float controls = std::max(ImGui::GetFrameHeight(), slider_height(painter)) + painter.px(8);
  const float verdict = verdict_lines * (size_of(painter.look().small) + painter.px(4));
  draw_schedule(painter, {inside.left, inside.top + controls, inside.right,
                          inside.bottom - verdict - painter.px(4)});
  draw_verdict(painter, {inside.left, inside.bottom - verdict, inside.right, inside.bottom});
}

void LabView::draw_controls(const Painter& painter, const Rect& rect, ViewState& view) {
  const Look& look = painter.look();
  bool changed = false;
  const int microbatches = question_.microbatches;
  ImGui::PushFont(look.small);
  ImGui::SetCursorScreenPos({rect.left, rect.top});
  ImGui::SetNextItemWidth(std::min(painter.px(schedule_width), rect.width() / 3));
  if (ImGui::BeginCombo("##schedule", std::string{question_.schedule->name}.c_str())) {
    for (const auto& [schedule, chunks] : lab_schedules(question_)) {
      const bool chosen = question_.schedule == schedule;
      if (ImGui::Selectable(std::string{schedule->name}.c_str(), chosen)) {
        question_.schedule = schedule;
        question_.chunks = chunks;
        changed = true;
      }
    }
    ImGui::EndCombo();
  }
  ImGui::SameLine(0, painter.px(14));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = std::min(painter.px(slider_width), rect.width() / 3);
  changed |= whole_slider(painter, "##microbatches",
                          {at.x, rect.top, at.x + width, rect.top + slider_height(painter)},
                          {.label = "microbatches", .value = std::to_string(microbatches)},
                          question_.microbatches, 1, most_microbatches);
  ImGui::SetCursorScreenPos({at.x + width + painter.px(14), rect.top});
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(fmt::format("{} stages", question_.size().stages()).c_str());
  ImGui::SameLine(0, painter.px(14));
  if (ImGui::Button("Lab")) view.lab = view.lab_takes_run = true;
  ImGui::PopFont();
  if (changed) {
    touched_ = true;
    if (question_.microbatches != microbatches) question_.fewer_microbatches.clear();
    answer_ = answer(question_);
  }
}

void LabView::draw_schedule(const Painter& painter, const Rect& rect) const {
  const Look& look = painter.look();
  const Schedule& schedule = answer_->schedule;
  const Simulation& simulation = answer_->simulation;
  const float row =
      std::clamp(rect.height() / static_cast<float>(schedule.ranks), 1.0f, painter.px(most_row));
  float names = painter.px(name_width);
  for (int rank = 0; rank < schedule.ranks; ++rank)
    names = std::max(
        names, painter.text_width(row_words(schedule, rank), look.small) + painter.px(name_gap));
  const float left = rect.left + std::min(names, most_names * rect.width());
  const auto makespan = static_cast<double>(std::max<Picoseconds>(simulation.makespan, 1));
  const double scale = static_cast<double>(rect.right - left) / makespan;
  const int named = std::max(1, static_cast<int>(std::ceil(size_of(look.small) / row)));
  Picoseconds first = simulation.makespan;
  for (const auto& actions : simulation.actions) {
    if (!actions.empty()) first = std::min(first, actions.front().start);
  }
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    const auto& timed = simulation.actions[static_cast<std::size_t>(rank)];
    Rect lane{left, rect.top + row * static_cast<float>(rank), rect.right, 0};
    lane.bottom = lane.top + row - painter.px(row_gap);
    painter.fill(lane, palette.lane);
    painter.hatch(lane, palette.idle_hatch);
    // If rows are thinner than their names, label only every second or fourth row.
    if (rank % named == 0) {
      painter.text(rect.left, (lane.top + lane.bottom - size_of(look.small)) / 2,
                   painter.fitted(row_words(schedule, rank), look.small, left - rect.left),
                   palette.text_dim, look.small);
    }
    for (std::size_t i = 0; i < actions.size(); ++i) {
      Rect box = lane;
      box.left = left + static_cast<float>(static_cast<double>(timed[i].start - first) * scale);
      box.right = left + static_cast<float>(static_cast<double>(timed[i].end - first) * scale);
      const ImU32 colour = colour_of(category(actions[i].op));
      const bool odd = actions[i].microbatch % 2 == 1;
      painter.fill(box, odd ? mixed(colour, IM_COL32_WHITE, 0.14f) : colour);
      if (box.width() > 3) {
        painter.line(box.left + 0.5f, box.top, box.left + 0.5f, box.bottom,
                     mixed(colour, IM_COL32_BLACK, 0.45f));
      }
      painter.text_in(box, std::to_string(actions[i].microbatch), palette.text_on_box, look.small);
    }
  }
}

void LabView::draw_verdict(const Painter& painter, const Rect& rect) const {
  const Look& look = painter.look();
  float x = rect.left;
  x += painter.text(x, rect.top, bubble_words(question_, *answer_), palette.text, look.small);
  const std::string formula = answer_->formula
                                  ? fmt::format("equal stages, free messages: {} = {}",
                                                answer_->words, percent_words(*answer_->formula))
                                  : "no formula for these times";
  painter.text(x + painter.px(10), rect.top,
               painter.fitted(formula, look.small, rect.right - x - painter.px(10)),
               palette.text_dim, look.small);
  const float second = rect.top + size_of(look.small) + painter.px(4);
  if (const std::string limits = limit_words(question_); !limits.empty()) {
    painter.text(rect.left, second, painter.fitted(limits, look.small, rect.width()),
                 palette.trouble, look.small);
    return;
  }
  painter.text(rect.left, second,
               painter.fitted(verdict_words(question_, *answer_), look.small, rect.width()),
               palette.text_dim, look.small);
}

}  // namespace lockstep::viz
