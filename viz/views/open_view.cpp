#include "viz/views/open_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "viz/views/button.h"
#include "viz/views/imgui_shim.h"

namespace lockstep::viz {
namespace {

namespace fs = std::filesystem;

constexpr float card_width = 720, card_height = 520;
constexpr float padding = 18;
constexpr float row_height = 24, button_row = 34;

std::string note_of(FolderEntry::Kind kind) {
  return kind == FolderEntry::Kind::run ? "run" : kind == FolderEntry::Kind::folder ? "folder" : "";
}

}  // namespace

void OpenView::begin(Model& model) {
  path_.clear();
  const auto& recent = model.source.recent;
  std::error_code error;
  fs::path start = fs::is_directory("runs", error) ? fs::path{"runs"} : fs::path{"."};
  if (!recent.empty() && fs::is_directory(fs::path{recent.front()}.parent_path(), error))
    start = fs::path{recent.front()}.parent_path();
  go_to(start);
}

void OpenView::go_to(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  folder_ = error ? folder : whole;
  listing_ = list_folder(folder_);
  rows_.to_start();
}

void OpenView::choose(const fs::path& path, bool is_folder, bool twice, Model& model) {
  if (is_folder) {
    path_.clear();
    return go_to(path);
  }
  path_ = path.string();
  if (twice) model.view.open = {.paths = {path_}};
}

void OpenView::draw(const Look& look, ImVec2 size, Model& model) {
  ViewState& view = model.view;
  spots_.clear();
  if (!view.opening) {
    was_open_ = false;
    return;
  }
  if (!was_open_) begin(model);
  const bool asks = !view.dropped.empty();
  begin_overlay("open", {0, 0}, size);  // in the main window, the timeline would take the clicks
  const Painter painter{ImGui::GetWindowDrawList(), look};
  const float width = std::min(painter.px(card_width), size.x - painter.px(padding));
  const float height = asks ? painter.px(2 * padding + 3 * row_height + 2 * button_row)
                            : std::min(painter.px(card_height), size.y - painter.px(padding));
  const Rect card{(size.x - width) / 2, (size.y - height) / 2, (size.x + width) / 2,
                  (size.y + height) / 2};
  painter.fill({0, 0, size.x, size.y}, faded(palette.background, 0.6f));
  painter.fill(card, palette.tip, painter.px(6));
  painter.frame(card, palette.text_faint, painter.px(6));
  Rect rest = card.inset(painter.px(padding));
  painter.text(rest.left, rest.top, asks ? "Open what was dropped" : "Open a run", palette.text,
               look.bold);
  rest.top += size_of(look.bold) + painter.px(8);
  const Rect buttons{rest.left, rest.bottom - painter.px(button_row), rest.right, rest.bottom};
  rest.bottom = buttons.top;
  if (!view.open_trouble.empty()) {
    rest.bottom -= painter.px(row_height);
    painter.text(rest.left, rest.bottom,
                 painter.fitted(view.open_trouble, look.small, rest.width()), palette.trouble,
                 look.small);
  }
  if (asks) {
    std::string words = view.dropped.front();
    if (view.dropped.size() > 1) words += fmt::format(" and {} more", view.dropped.size() - 1);
    painter.text(rest.left, rest.top, painter.fitted(words, look.small, rest.width()),
                 palette.text_dim, look.small);
  } else {
    draw_path(painter, {rest.left, rest.top, rest.right, rest.top + painter.px(button_row)}, model);
    rest.top += painter.px(button_row + 6);
    const std::size_t recent = std::min<std::size_t>(model.source.recent.size(), 4);
    if (recent > 0) {
      const float top = rest.bottom - painter.px(row_height) * static_cast<float>(recent + 1);
      draw_recent(painter, {rest.left, top, rest.right, rest.bottom}, model);
      rest.bottom = top - painter.px(4);
    }
    draw_entries(painter, rest, model);
  }
  draw_buttons(painter, buttons, model);
  was_open_ = view.opening;
  ImGui::End();
}

void OpenView::draw_path(const Painter& painter, const Rect& rect, Model& model) {
  ImGui::PushFont(painter.look().small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {painter.px(8), painter.px(5)});
  ImGui::SetCursorScreenPos(rect.min());
  ImGui::SetNextItemWidth(rect.width());
  if (!was_open_) ImGui::SetKeyboardFocusHere();
  std::array<char, 4096> text{};
  path_.copy(text.data(), text.size() - 1);
  const auto complete = [](ImGuiInputTextCallbackData* data) {
    const std::string completed =
        completed_path({data->Buf, static_cast<std::size_t>(data->BufTextLen)});
    data->DeleteChars(0, data->BufTextLen);
    data->InsertChars(0, completed.c_str());
    return 0;
  };
  const bool entered = ImGui::InputTextWithHint(
      "##path", "a trace or a run's folder; Tab completes it", text.data(), text.size(),
      ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_CallbackCompletion, complete);
  ImGui::PopStyleVar();
  ImGui::PopFont();
  path_ = text.data();
  spots_.push_back({"path", rect});
  if (!entered || path_.empty()) return;
  std::error_code error;
  const bool plain_folder =
      fs::is_directory(path_, error) &&
      std::ranges::none_of(list_folder(path_).entries, [](const FolderEntry& each) {
        return each.kind == FolderEntry::Kind::trace;
      });
  if (plain_folder) {
    choose(path_, true, false, model);
  } else {
    model.view.open = {.paths = {path_}};
  }
}

int OpenView::line(const Painter& painter, const Rect& rect, const std::string& id,
                   const std::string& words, const std::string& note, bool chosen) {
  const Look& look = painter.look();
  ImGui::SetCursorScreenPos(rect.min());
  const bool clicked = ImGui::InvisibleButton(id.c_str(), {rect.width(), rect.height()});
  const bool lit = ImGui::IsItemHovered();
  if (chosen || lit) painter.fill(rect, chosen ? palette.accent : palette.button, painter.px(3));
  const float y = (rect.top + rect.bottom - size_of(look.small)) / 2;
  const ImU32 ink = chosen ? palette.text_on_accent : palette.text;
  const float note_width = painter.text(rect.right - painter.px(8), y, note,
                                        chosen ? ink : palette.text_dim, look.small, Align::right);
  painter.text(rect.left + painter.px(8), y,
               painter.fitted(words, look.small, rect.width() - note_width - painter.px(28)), ink,
               look.small);
  spots_.push_back({words, rect});
  if (!clicked) return 0;
  return ImGui::GetIO().MouseClickedLastCount[ImGuiMouseButton_Left] >= 2 ? 2 : 1;
}

void OpenView::draw_entries(const Painter& painter, const Rect& rect, Model& model) {
  const Look& look = painter.look();
  const float height = painter.px(row_height);
  Rect row{rect.left, rect.top, rect.right, rect.top + height};
  painter.text(row.left, row.top + painter.px(4),
               painter.fitted(folder_.string(), look.small, row.width()), palette.text_dim,
               look.small);
  const auto next = [&] {
    row.top = row.bottom;
    row.bottom += height;
  };
  next();
  if (folder_.has_parent_path() && folder_ != folder_.root_path()) {
    if (line(painter, row, "..", "..", "folder", false) > 0)
      return choose(folder_.parent_path(), true, false, model);
    next();
  }
  const auto& entries = listing_.entries;
  const std::size_t room = whole_number((rect.bottom - row.top) / height);
  const std::size_t shown = std::min(room, entries.size());
  const Rect bar{rect.right + painter.px(4), row.top, rect.right + painter.px(8), rect.bottom};
  const std::size_t first = rows_.update(painter, rect, bar, entries.size(), shown);
  for (std::size_t i = first; i < first + shown; ++i) {
    const FolderEntry& entry = entries[i];
    const fs::path path = folder_ / entry.name;
    const int clicks = line(painter, row, fmt::format("entry{}", i), entry.name,
                            note_of(entry.kind), path_ == path.string());
    if (clicks > 0)
      return choose(path, entry.kind == FolderEntry::Kind::folder, clicks == 2, model);
    next();
  }
  std::string rest = listing_.trouble;
  if (rest.empty() && entries.empty()) rest = "no folders and no traces here";
  painter.text(row.left, row.top + painter.px(4), painter.fitted(rest, look.small, row.width()),
               listing_.trouble.empty() ? palette.text_dim : palette.trouble, look.small);
}

void OpenView::draw_recent(const Painter& painter, const Rect& rect, Model& model) {
  const float height = painter.px(row_height);
  painter.text(rect.left, rect.top + painter.px(4), "opened before:", palette.text_dim,
               painter.look().small);
  Rect row{rect.left, rect.top, rect.right, rect.top + height};
  for (std::size_t i = 0; row.bottom + height <= rect.bottom + 1; ++i) {
    row.top = row.bottom;
    row.bottom += height;
    const std::string& path = model.source.recent[i];
    const int clicks = line(painter, row, fmt::format("recent{}", i), path, "", path_ == path);
    if (clicks > 0) choose(path, false, clicks == 2, model);
  }
}

void OpenView::draw_buttons(const Painter& painter, const Rect& rect, Model& model) {
  ViewState& view = model.view;
  ButtonRow row{painter, rect, rect.left};
  const auto button = [&](const std::string& words, bool on, const std::string& tip) {
    const float left = row.left();
    const bool clicked = row.button(words, on, tip);
    spots_.push_back({words, {left, rect.top, row.left(), rect.bottom}});
    return clicked;
  };
  std::vector<std::string> paths = view.dropped;
  if (paths.empty() && !path_.empty()) paths = {path_};
  const bool ready = !paths.empty();
  if (button("Open", ready, ready ? "" : "choose a run or a trace first") && ready)
    view.open = {.paths = paths};
  if (!model.source.live &&
      button("Compare with this run", ready, "both runs, one above the other, on one axis") &&
      ready)
    view.open = {.paths = paths, .beside = true};
  if (button("Cancel", false, "") || key_pressed(keys::escape, false)) {
    view.opening = false;
    view.dropped.clear();
    view.open_trouble.clear();
  }
}

}  // namespace lockstep::viz
