#include "viz/views/lab_table_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "viz/data/step/words.h"
#include "viz/views/button.h"
#include "viz/views/lab_controls_view.h"
#include "viz/views/tip.h"

namespace lockstep::viz {
namespace {

constexpr float row_height = 25;
constexpr float letter_width = 30, column_gap = 18;
constexpr const char* letters[] = {"A", "B"};

/// The words of a row that has a result, by column.
std::array<std::string, 5> words_of(const LabRow& row) {
  const LabResult& result = *row.result;
  return {std::string{row.known->name}, std::to_string(result.chunks),
          percent_words(result.simulation.bubble), duration_words(result.simulation.makespan),
          result.over_limit.empty()
              ? live_words(result.peak)
              : fmt::format("{}: over on {} of {} ranks", live_words(result.peak),
                            result.over_limit.size(), result.peaks.size())};
}
constexpr std::array<const char*, 5> headings{"schedule", "chunks", "bubble", "step",
                                              "peak, live microbatches"};

/// The left edges of the columns. All but the formula's are as wide as their words.
struct Columns {
  float name, chunks, simulated, formula, step, peak, end;
  Columns(const Painter& painter, const Rect& rect, const LabBench& lab) {
    std::array<float, 5> widths{};
    const auto widen = [&](std::size_t column, std::string_view words) {
      widths[column] = std::max(
          widths[column], painter.text_width(words, painter.look().small) + painter.px(column_gap));
    };
    for (std::size_t i = 0; i < widths.size(); ++i) widen(i, headings[i]);
    for (const LabRow& row : lab.table.rows()) {
      widen(0, row.known->name);
      if (!row.result) continue;
      const auto words = words_of(row);
      for (std::size_t i = 0; i < widths.size(); ++i) widen(i, words[i]);
    }
    name = rect.left + painter.px(2 * letter_width + 10);
    end = rect.right;
    // Without room for all columns, the formula and the chunks are left out.
    if (name + widths[0] + widths[1] + widths[2] + widths[3] + widths[4] > end) widths[1] = 0;
    chunks = name + widths[0];
    simulated = chunks + widths[1];
    formula = simulated + widths[2];
    step = std::max(formula, end - widths[4] - widths[3]);
    peak = step + widths[3];
  }
};

void draw_headings(const Painter& painter, const Columns& at, float y) {
  const auto cell = [&](float left, float right, const char* words) {
    painter.text(
        left, y,
        painter.fitted(words, painter.look().small, std::min(right, at.end) - left - painter.px(6)),
        palette.text_dim, painter.look().small);
  };
  cell(at.name, at.chunks, headings[0]);
  cell(at.chunks, at.simulated, headings[1]);
  cell(at.simulated, at.formula, headings[2]);
  cell(at.formula, at.step, "by formula: equal stages, free messages");
  cell(at.step, at.peak, headings[3]);
  cell(at.peak, at.end, headings[4]);
}

void draw_row(const Painter& painter, const Columns& at, float y, const LabRow& row, bool best) {
  const Look& look = painter.look();
  const auto cell = [&](float left, float right, const std::string& words, ImU32 colour) {
    painter.text(left, y,
                 painter.fitted(words, look.small, std::min(right, at.end) - left - painter.px(6)),
                 colour, look.small);
  };
  const std::string name{row.known->name};
  if (!row.result) {
    cell(at.name, at.chunks, name, palette.text_dim);
    if (row.searching) return cell(at.chunks, at.end, "searching ...", palette.text_dim);
    return cell(at.chunks, at.end, "does not run here: " + row.fit.refusal, palette.text_dim);
  }
  const LabResult& result = *row.result;
  const auto words = words_of(row);
  cell(at.name, at.chunks, words[0], best ? palette.live : palette.text);
  cell(at.chunks, at.simulated, words[1], palette.text_dim);
  cell(at.simulated, at.formula, words[2], palette.text);
  cell(at.formula, at.step,
       result.formula ? fmt::format("{}   {}", percent_words(*result.formula), result.formula_words)
                      : "none for these times and this size",
       palette.text_dim);
  cell(at.step, at.peak, words[3], best ? palette.live : palette.text);
  cell(at.peak, at.end, words[4], result.over_limit.empty() ? palette.text : palette.trouble);
}

/// Shows the formulas in a tooltip, since a row may be too narrow for them.
std::vector<std::string> tip_lines(const LabRow& row) {
  const LabResult& result = *row.result;
  return {fmt::format("{}, {}", row.known->name, row.known->page),
          fmt::format("bubble by formula, as a share of the step: {}", result.formula_words),
          fmt::format("live microbatches of a rank by formula, counting chunks: {}",
                      row.known->memory)};
}

}  // namespace

float lab_table_height(const Painter& painter, const LabBench& lab) {
  return painter.px(row_height) * (static_cast<float>(lab.table.rows().size()) + 1);
}

void draw_lab_table(const Painter& painter, const Rect& rect, LabBench& lab) {
  begin_area(painter, "##lab table", rect);
  const Painter inner{ImGui::GetWindowDrawList(), painter.look()};
  const ImVec2 start = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const Rect area{start.x, start.y, start.x + width, rect.bottom};
  const Columns columns{inner, area, lab};
  const float height = inner.px(row_height);
  const float text = (height - size_of(inner.look().small)) / 2;
  draw_headings(inner, columns, area.top + text);
  const LabRow* best = best_row(lab.table.rows());
  float y = area.top + height;
  for (const LabRow& row : lab.table.rows()) {
    const Rect line{area.left, y, area.right, y + height};
    ImGui::PushID(row.known);
    ButtonRow buttons{inner, line, area.left};
    for (std::size_t which = 0; which < 2 && (row.result || row.searching); ++which)
      if (buttons.button(letters[which], lab.shown[which] == row.known->name,
                         fmt::format("show {} as {}", row.known->name, letters[which])))
        lab.shown[which] = row.known->name;
    ImGui::PopID();
    draw_row(inner, columns, y + text, row, &row == best);
    const Rect words{columns.name, line.top, line.right, line.bottom};
    if (row.result && ImGui::IsWindowHovered() && words.contains(ImGui::GetIO().MousePos))
      tip_outside(inner, words, rect, true, tip_lines(row));
    y += height;
  }
  ImGui::SetCursorScreenPos({area.left, y});
  ImGui::Dummy({1, 1});
  end_area();
}

}  // namespace lockstep::viz
