#include "viz/views/lessons_view.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "viz/views/button.h"
#include "viz/views/lab_controls_view.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float buttons_height = 32;
constexpr std::size_t longest_value = 256;

void show_help(const FlagControl& control) {
  if (!ImGui::IsItemHovered()) return;
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 40);
  ImGui::TextUnformatted((control.flag + ": " + control.help).c_str());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void edit_text(FlagControl& control) {
  std::array<char, longest_value> text{};
  control.value.copy(text.data(), text.size() - 1);
  ImGui::SetNextItemWidth(-1);
  const char* hint = control.standard.empty() ? "not given" : control.standard.c_str();
  if (ImGui::InputTextWithHint("##value", hint, text.data(), text.size()))
    control.value = text.data();
}

void edit(FlagControl& control) {
  using Kind = FlagControl::Kind;
  ImGui::SetNextItemWidth(-1);
  switch (control.kind) {
    case Kind::on_off: {
      bool on = !control.value.empty();
      if (ImGui::Checkbox("##value", &on)) control.value = on ? "true" : "";
      break;
    }
    case Kind::choice:
      if (ImGui::BeginCombo("##value", control.value.c_str())) {
        for (const std::string& each : control.choices)
          if (ImGui::Selectable(each.c_str(), each == control.value)) control.value = each;
        ImGui::EndCombo();
      }
      break;
    case Kind::number: {
      char* end = nullptr;
      const long number = std::strtol(control.value.c_str(), &end, 10);
      // A value that is not given is a text until the user types a number.
      if (control.value.empty() || *end != '\0' || std::abs(number) > 1'000'000'000) {
        edit_text(control);
        break;
      }
      int value = static_cast<int>(number);
      if (ImGui::InputInt("##value", &value, 1, 10))
        control.value = std::to_string(std::max(value, control.least.value_or(value)));
      break;
    }
    case Kind::real:
    case Kind::text:
      edit_text(control);
      break;
  }
  show_help(control);
}

}  // namespace

void draw_lesson_buttons(const Painter& painter, const Rect& rect, LabBench& lab, bool piped) {
  LessonLauncher& launcher = lab.launcher;
  ButtonRow row{painter, rect, rect.left};
  if (piped) return row.text("a viewer that reads a pipe starts no lessons", palette.text_dim);
  if (launcher.running()) {
    if (row.button("Stop", false, "as Ctrl-C does")) launcher.stop();
    if (row.button("Restart", false, "stop it, and start it with these flags"))
      lab.wants_start = true;
  } else if (launcher.chosen() && launcher.declared() && !launcher.controls().empty()) {
    if (row.button("Start", false, "run the lesson, and show it live")) lab.wants_start = true;
    if (row.button("Defaults", false, "set all flags back")) launcher.reset();
  }
  const float left = row.space(0).left;
  const std::string& words = launcher.words().empty() ? launcher.command() : launcher.words();
  painter.text(left, (rect.top + rect.bottom - size_of(painter.look().small)) / 2,
               painter.fitted(words, painter.look().small, rect.right - left),
               launcher.failed() ? palette.trouble : palette.text_dim, painter.look().small);
}

void LessonsView::draw(const Painter& painter, const Rect& rect, LabBench& lab, bool piped) {
  const float top = rect.top + painter.px(buttons_height);
  draw_lesson_buttons(painter, {rect.left, rect.top, rect.right, top}, lab, piped);
  LessonLauncher& launcher = lab.launcher;
  if (launcher.lessons().empty()) {
    paragraph(painter, {rect.left, top, rect.right, rect.bottom},
              "No lesson is built beside this viewer; ./lockstep lesson 9 builds one and runs it.",
              palette.text_dim);
    return;
  }
  begin_area(painter, "##lessons", {rect.left, top, rect.right, rect.bottom});
  const std::string chosen = launcher.chosen() ? launcher.lessons()[*launcher.chosen()].name()
                                               : std::string{"choose a lesson"};
  ImGui::SetNextItemWidth(-1);
  if (ImGui::BeginCombo("##lesson", chosen.c_str(), ImGuiComboFlags_HeightLarge)) {
    for (std::size_t i = 0; i < launcher.lessons().size(); ++i)
      if (ImGui::Selectable(launcher.lessons()[i].name().c_str(), launcher.chosen() == i))
        launcher.choose(i);
    ImGui::EndCombo();
  }
  draw_flags(lab);
  end_area();
}

void LessonsView::draw_flags(LabBench& lab) {
  std::vector<FlagControl>& controls = lab.launcher.controls();
  const float names = ImGui::GetContentRegionAvail().x * 0.42f;
  ImGui::PushStyleColor(ImGuiCol_Header, palette.step_odd);
  ImGui::PushStyleColor(ImGuiCol_HeaderHovered, palette.button_hovered);
  ImGui::PushStyleColor(ImGuiCol_HeaderActive, palette.button_active);
  for (const std::string& group : groups_of(controls)) {
    // Users look first for the lesson's own flags and those of the training.
    const bool open = group == own_group || group == "Training";
    ImGui::SetNextItemOpen(open, ImGuiCond_Once);
    if (!ImGui::CollapsingHeader(group.c_str())) continue;
    for (FlagControl& each : controls) {
      if (each.group != group) continue;
      ImGui::PushID(each.flag.c_str());
      ImGui::PushStyleColor(ImGuiCol_Text, each.changed() ? palette.accent : palette.text);
      ImGui::AlignTextToFramePadding();
      ImGui::TextUnformatted(each.flag.c_str());
      ImGui::PopStyleColor();
      show_help(each);
      ImGui::SameLine(names);
      edit(each);
      ImGui::PopID();
    }
  }
  ImGui::PopStyleColor(3);
}

}  // namespace lockstep::viz
