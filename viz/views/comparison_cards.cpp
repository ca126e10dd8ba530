#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "viz/views/comparison_view.h"
#include "viz/views/paragraph.h"

namespace lockstep::viz {
namespace {

constexpr float gap = 12;
constexpr float least_gap = 8;  // between two columns
constexpr float line_gap = 4;
/// A wider table would be hard to read across.
constexpr float widest_table = 480;
constexpr float bar_thickness = 5;  // of the column of a rank's memory
constexpr const char* none = "-";

ImU32 colour_of_difference(const ComparedValue& value) {
  const auto by = value.difference();
  const double size = std::abs(value.relative().value_or(by.value_or(0)));
  return by && *by != 0 && size >= (value.unit == ComparedValue::Unit::share ? 5e-4 : least_marked)
             ? palette.text
             : palette.text_faint;
}

}  // namespace

void ComparisonView::draw_configurations(const Painter& painter, const Rect& card,
                                         const ComparedRuns& runs) const {
  const Look& look = painter.look();
  const Configurations& found = runs.configurations();
  Rect inside = painter.card(card, "What differs", "from the traces' headers");
  inside.right = std::min(inside.right, inside.left + painter.px(widest_table));
  const float line = size_of(look.small) + painter.px(line_gap);
  const float column = 0.34f * inside.width();
  float y = inside.top;
  const auto row = [&](const std::string& name, const std::string& a, const std::string& b,
                       ImU32 colour) {
    painter.text(inside.left, y, painter.fitted(name, look.small, column - painter.px(gap) / 2),
                 palette.text_dim, look.small);
    float x = inside.left + column;
    const float width = (inside.width() - column) / 2;
    for (const std::string& each : {a, b}) {
      painter.text(x, y, painter.fitted(each, look.small, width - painter.px(gap) / 2), colour,
                   look.small);
      x += width;
    }
    y += line;
  };
  row("", "A", "B", palette.text_faint);
  // Below the table, lists the equal entries, and names what the traces do not contain.
  std::string same = found.same.empty() ? "Nothing else is known to be the same." : "The same: ";
  for (std::size_t i = 0; i < found.same.size(); ++i)
    same += (i > 0 ? ", " : "") + found.same[i] + (i + 1 == found.same.size() ? "." : "");
  if (!found.without_model.empty())
    same = fmt::format("Model and batch are unknown: the trace of {} does not name them. ",
                       found.without_model) +
           same;
  const std::size_t room = whole_number((inside.bottom - y) / line);
  const std::size_t below = 3;  // lines
  const std::size_t most = std::max<std::size_t>(room > below ? room - below : 1, 1);
  // Hovering over a row shows its values in full; hovering over the last one also lists the rows
  // that do not fit.
  const auto full = [](const ConfigurationEntry& each) {
    return fmt::format("{}: {} in A, {} in B", each.name, each.a.empty() ? none : each.a,
                       each.b.empty() ? none : each.b);
  };
  for (std::size_t i = 0; i < found.different.size(); ++i) {
    const Rect at{inside.left, y, inside.right, y + line};
    if (i + 1 == most && i + 1 < found.different.size()) {
      painter.text(inside.left, y, fmt::format("and {} more", found.different.size() - i),
                   palette.accent, look.small);
      std::vector<std::string> rest;
      for (; i < found.different.size(); ++i) rest.push_back(full(found.different[i]));
      tip(painter, at, rest);
      y += line;
      break;
    }
    const ConfigurationEntry& each = found.different[i];
    tip(painter, at, {full(each)});
    row(each.name, each.a.empty() ? none : each.a, each.b.empty() ? none : each.b, palette.text);
  }
  if (found.different.empty()) {
    painter.text(inside.left, y, "nothing that the headers record", palette.text, look.small);
    y += line;
  }
  paragraph(painter, {inside.left, y + painter.px(line_gap), inside.right, inside.bottom}, same,
            palette.text_faint);
}

void ComparisonView::draw_values(const Painter& painter, const Rect& card,
                                 const ComparedRuns& runs) const {
  const Look& look = painter.look();
  Rect inside = painter.card(card,
                             fmt::format("Step {} of A, step {} of B", runs.metrics(Side::a).step,
                                         runs.metrics(Side::b).step),
                             "parts: means over ranks");
  inside.right = std::min(inside.right, inside.left + painter.px(widest_table));
  // If not all values fit, the smallest parts are left out.
  std::vector<ComparedValue> values = runs.values();
  const float least = size_of(look.small) + painter.px(1);
  const std::size_t room = whole_number(inside.height() / least);
  while (values.size() + 1 > room) {
    auto smallest = values.end();
    const auto size = [](const ComparedValue& value) {
      return std::max(value.a.value_or(0), value.b.value_or(0));
    };
    for (auto at = values.begin(); at != values.end(); ++at)
      if (at->part && (smallest == values.end() || size(*at) < size(*smallest))) smallest = at;
    if (smallest == values.end()) break;
    values.erase(smallest);
  }
  const float line = std::min(size_of(look.small) + painter.px(line_gap),
                              inside.height() / static_cast<float>(values.size() + 1));
  // The columns are as wide as their words, and share the space that the names leave.
  constexpr std::size_t columns = 4;
  using Cells = std::array<std::string, columns>;
  std::vector<Cells> rows{{"A", "B", "B - A", "%"}};
  float names = 0;
  for (const ComparedValue& value : values) {
    rows.push_back({value_words(value.unit, value.a), value_words(value.unit, value.b),
                    difference_words(value), relative_words(value)});
    const float indent = value.part ? painter.px(gap) : 0;
    names = std::max(names, indent + painter.text_width(value.name, look.small));
  }
  std::array<float, columns> widths{};
  for (const Cells& row : rows)
    for (std::size_t i = 0; i < columns; ++i)
      widths[i] = std::max(widths[i], painter.text_width(row[i], look.small));
  const float taken = std::accumulate(widths.begin(), widths.end(), 0.0f);
  const float between =
      std::max(painter.px(least_gap), (inside.width() - names - taken) / float{columns});
  std::array<float, columns> ends{};
  float end = inside.right;
  for (std::size_t i = columns; i-- > 0; end -= widths[i] + between) ends[i] = end;
  const auto cell = [&](std::size_t row, std::size_t column, float at, ImU32 colour) {
    painter.text(ends[column], at, rows[row][column], colour, look.small, Align::right);
  };
  float y = inside.top;
  for (std::size_t i = 0; i < columns; ++i) cell(0, i, y, palette.text_faint);
  for (std::size_t row = 1; row < rows.size(); ++row) {
    const ComparedValue& value = values[row - 1];
    y += line;
    if (y + size_of(look.small) > inside.bottom + 1) break;
    const float indent = value.part ? painter.px(gap) : 0;
    painter.text(inside.left + indent, y,
                 painter.fitted(value.name, look.small, end - inside.left - indent),
                 value.part ? palette.text_faint : palette.text_dim, look.small);
    for (std::size_t i = 0; i < 2; ++i)
      cell(row, i, y, value.part ? palette.text_dim : palette.text);
    for (std::size_t i = 2; i < columns; ++i) cell(row, i, y, colour_of_difference(value));
  }
}

void ComparisonView::draw_ranks(const Painter& painter, const Rect& card,
                                const ComparedRuns& runs) {
  const Look& look = painter.look();
  Rect inside = painter.card(card, "Ranks", "bars: memory");
  inside.right = std::min(inside.right, inside.left + painter.px(widest_table));
  const auto& ranks = runs.ranks();
  const float line = size_of(look.small) + painter.px(line_gap);
  const float name = painter.px(48);
  // If not all columns fit, the bytes sent are left out first, and then the idle time.
  struct Column {
    const char* name;
    ComparedValue ComparedRank::*value;
    float width = 0, right = 0;
  };
  std::vector<Column> columns{{"compute", &ComparedRank::compute},
                              {"idle", &ComparedRank::idle},
                              {"sent", &ComparedRank::sent},
                              {"memory", &ComparedRank::memory}};
  float taken = 0;
  for (Column& column : columns) {
    column.width = painter.text_width(column.name, look.small);
    for (const ComparedRank& rank : ranks)
      column.width =
          std::max(column.width, painter.text_width(brief_words(rank.*column.value), look.small));
    taken += column.width;
  }
  const auto between = [&] {
    return (inside.width() - name - taken) / static_cast<float>(columns.size());
  };
  while (columns.size() > 1 && between() < painter.px(least_gap)) {
    const auto left_out = columns.size() > 2 ? columns.end() - 2 : columns.end() - 1;
    taken -= left_out->width;
    columns.erase(left_out);
  }
  float right = inside.left + name;
  for (Column& column : columns) column.right = right += between() + column.width;
  const auto cell = [&](const Column& column, float at, const std::string& words, ImU32 colour) {
    painter.text(column.right, at, words, colour, look.small, Align::right);
  };
  float y = inside.top;
  for (const Column& column : columns) cell(column, y, column.name, palette.text_faint);
  y += line;
  double top = 0;
  for (const ComparedRank& rank : ranks)
    top = std::max({top, rank.memory.a.value_or(0), rank.memory.b.value_or(0)});
  const float bars = 2 * painter.px(bar_thickness) + painter.px(4);
  const std::size_t room = whole_number((inside.bottom - y) / line);
  const bool with_bars =
      top > 0 && static_cast<float>(ranks.size()) * (line + bars) <= inside.bottom - y;
  const std::size_t shown = with_bars ? ranks.size() : std::min(room, ranks.size());
  const Rect bar_place{inside.right + painter.px(4), y, card.right - painter.px(4), inside.bottom};
  const std::size_t first = rank_rows_.update(painter, card, bar_place, ranks.size(), shown);
  for (std::size_t i = first; i < first + shown; ++i) {
    const ComparedRank& rank = ranks[i];
    painter.text(inside.left, y, fmt::format("rank {}", rank.rank),
                 rank.marked() ? palette.accent : palette.text_dim, look.small);
    for (const Column& column : columns)
      cell(column, y, brief_words(rank.*column.value), colour_of_difference(rank.*column.value));
    std::vector<std::string> lines;
    for (const ComparedValue* value : {&rank.compute, &rank.idle, &rank.sent, &rank.memory})
      lines.push_back(fmt::format("rank {}, {}: {} in A, {} in B", rank.rank, value->name,
                                  value_words(value->unit, value->a),
                                  value_words(value->unit, value->b)));
    tip(painter, {inside.left, y, inside.right, y + line + (with_bars ? bars : 0)}, lines);
    y += line;
    if (!with_bars) continue;
    const auto bar = [&](std::optional<double> bytes, bool solid) {
      if (!bytes) return;
      const float width = inside.width() * static_cast<float>(*bytes / top);
      const Rect box{inside.left, y, inside.left + width, y + painter.px(bar_thickness)};
      if (solid) {
        painter.fill(box, colour_of(MemoryCategory::activations));
      } else {
        painter.frame(box, colour_of(MemoryCategory::activations));
      }
    };
    y -= painter.px(1);
    bar(rank.memory.a, false);
    y += painter.px(bar_thickness + 1);
    bar(rank.memory.b, true);
    y += painter.px(bar_thickness + 4);
  }
}

void ComparisonView::draw_sentences(const Painter& painter, const Rect& card,
                                    const ComparedRuns& runs) const {
  const Look& look = painter.look();
  Rect inside = painter.card(card, "Differences");
  // Uses the larger font if there is room.
  float height = 0;
  for (const Sentence& sentence : runs.sentences())
    height += paragraph_height(painter, sentence.text, inside.width(), look.body) +
              painter.px(2 * line_gap);
  ImFont* font = height <= inside.height() ? look.body : look.small;
  for (const Sentence& sentence : runs.sentences()) {
    const bool detail = sentence.claim == Claim::changed_parts ||
                        sentence.claim == Claim::changed_rank ||
                        sentence.claim == Claim::weight_gradients;
    inside.top =
        paragraph(painter, inside, sentence.text, detail ? palette.text_dim : palette.text, font);
    inside.top += painter.px(2 * line_gap);
  }
}

}  // namespace lockstep::viz
