#include "viz/views/comparison_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "viz/views/imgui_shim.h"
#include "viz/views/status_view.h"

namespace lockstep::viz {
namespace {

constexpr float edge = 16;
constexpr float gap = 12;
constexpr float least_gap = 8;  // between two columns
constexpr float line_gap = 4;
constexpr float badge_size = 20;
/// A wider table would be hard to read across.
constexpr float widest_table = 480;
constexpr float bar_thickness = 5;  // of a rank's memory
constexpr const char* none = "-";

const char* letter_of(Side side) {
  return side == Side::a ? "A" : "B";
}

/// Draws a run's letter in a box; A's is hollow. Returns its width.
float badge(const Painter& painter, float x, float middle, Side side) {
  const Look& look = painter.look();
  const float half = painter.px(badge_size) / 2;
  const Rect box{x, middle - half, x + 2 * half, middle + half};
  const bool solid = side == Side::b;
  if (solid) {
    painter.fill(box, colours::text, painter.px(4));
  } else {
    painter.frame(box, colours::text, painter.px(4), painter.px(1.5f));
  }
  painter.text((box.left + box.right) / 2, middle - size_of(look.bold) / 2, letter_of(side),
               solid ? colours::text_on_box : colours::text, look.bold, Align::centre);
  return 2 * half;
}

/// Returns how much of a text fits into a line, broken between words.
std::size_t first_line(const Painter& painter, std::string_view words, ImFont* font, float width) {
  std::size_t end = beginning(words).size();
  while (painter.text_width(words.substr(0, end), font) > width) {
    const std::size_t space = words.substr(0, end).rfind(' ');
    if (space == std::string_view::npos) break;
    end = space;
  }
  return end;
}

/// Returns the height of a text in lines of at most `width`.
float height_of(const Painter& painter, std::string_view words, ImFont* font, float width) {
  float height = 0;
  while (!words.empty()) {
    height += size_of(font) + painter.px(line_gap);
    words.remove_prefix(std::min(first_line(painter, words, font, width) + 1, words.size()));
  }
  return height;
}

/// Draws a text in lines, as far as `rect` has room. Returns the y below it.
float paragraph(const Painter& painter, const Rect& rect, float y, std::string_view words,
                ImU32 colour, ImFont* font) {
  const float line = size_of(font) + painter.px(line_gap);
  while (!words.empty() && y + size_of(font) <= rect.bottom) {
    const std::size_t end = first_line(painter, words, font, rect.width());
    // The last line that has room ends with an ellipsis if there is more.
    const bool last = y + line + size_of(font) > rect.bottom;
    painter.text(
        rect.left, y,
        last ? painter.fitted(words, font, rect.width()) : std::string{words.substr(0, end)},
        colour, font);
    y += line;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return y;
}

/// Shows lines of text above a row of a card, if the cursor is on the row.
void tip(const Painter& painter, const Rect& row, const std::vector<std::string>& lines) {
  if (!row.contains(ImGui::GetIO().MousePos)) return;
  const Painter front{ImGui::GetForegroundDrawList(), painter.look()};
  const Look& look = front.look();
  float width = 0;
  for (const std::string& each : lines) width = std::max(width, front.text_width(each, look.small));
  const float line = size_of(look.small) + front.px(line_gap);
  const float left =
      std::max(0.0f, std::min(row.left, ImGui::GetIO().DisplaySize.x - width - front.px(2 * gap)));
  const float top = row.top - line * static_cast<float>(lines.size()) - front.px(gap);
  front.fill({left, top, left + width + front.px(2 * gap), row.top - front.px(line_gap)},
             colours::tip, front.px(4));
  for (std::size_t i = 0; i < lines.size(); ++i)
    front.text(left + front.px(gap), top + front.px(line_gap) + line * static_cast<float>(i),
               lines[i], colours::text, look.small);
}

/// The difference in few letters: "-41 %", "-0.3 %", "=", or in units if A is 0.
std::string brief_words(const ComparedValue& value) {
  const auto by = value.relative();
  if (!by || *by == 0) return difference_words(value);
  return std::abs(*by) >= 0.1 && *by < 9 ? fmt::format("{:+.0f} %", 100 * *by)
                                         : relative_words(value);
}

ImU32 colour_of_difference(const ComparedValue& value) {
  const auto by = value.difference();
  const double size = std::abs(value.relative().value_or(by.value_or(0)));
  return by && *by != 0 && size >= (value.unit == ComparedValue::Unit::share ? 5e-4 : least_marked)
             ? colours::text
             : colours::text_faint;
}

}  // namespace

bool ComparisonView::draw_bar(const Painter& painter, const Rect& rect, ComparedRuns& runs) const {
  const Look& look = painter.look();
  painter.fill(rect, colours::panel);
  painter.line(rect.left, rect.bottom, rect.right, rect.bottom, colours::panel_edge);
  const float middle = (rect.top + rect.bottom) / 2;
  const std::string layout = "V  One run at a time";
  const std::string exchange = runs.alternates()
                                   ? fmt::format("X  Show {}", runs.shows(Side::a) ? "B" : "A")
                                   : "X  Show B alone";
  const float buttons = ButtonRow::width_of(painter, layout) +
                        ButtonRow::width_of(painter, exchange) - ButtonRow::gap_of(painter);
  ButtonRow row{painter, rect, rect.right - painter.px(edge) - buttons};
  if (row.button(layout, runs.alternates(), "both runs, A above B, or one of them at a time"))
    runs.toggle_layout();
  if (row.button(exchange, false, "exchange A and B in the same place: what moves differs"))
    runs.exchange();

  float x = rect.left + painter.px(edge);
  const float right = rect.right - painter.px(2 * edge) - buttons;
  for (const Side side : both_sides) {
    const RunInfo& run = runs.model(side).timeline.run();
    if (side == Side::b)
      x += painter.text(x, middle - size_of(look.body) / 2, "compared with", colours::text_dim,
                        look.body) +
           painter.px(gap);
    x += badge(painter, x, middle, side) + painter.px(gap) / 2;
    const std::string name =
        painter.fitted(run.lesson.empty() ? runs.model(side).source.name : run.lesson, look.large,
                       (right - rect.left) / 4);
    x += painter.text(x, middle - size_of(look.large) / 2, name, colours::text, look.large) +
         painter.px(gap);
  }
  const float pill_top = middle - (size_of(look.small) + painter.px(7)) / 2;
  const float warning = painter.text_width(runs.warning(), look.small) + painter.px(2 * gap);
  if (!runs.warning().empty() && x + warning <= right) {
    painter.pill(x, pill_top, runs.warning(), colours::trouble, true);
    return true;
  }
  const std::string clock = clock_words(runs.model(Side::a).timeline.run());
  if (runs.configurations().clocks_differ || clock.empty() ||
      x + painter.text_width(clock, look.small) + painter.px(2 * gap) > right)
    return runs.warning().empty();
  const bool wall = runs.model(Side::a).timeline.run().clock == "wall";
  painter.pill(x, pill_top, clock, wall ? colours::wall_clock : colours::modelled_clock, false);
  return runs.warning().empty();
}

void ComparisonView::draw_warning(const Painter& painter, const Rect& rect,
                                  const ComparedRuns& runs) const {
  const Look& look = painter.look();
  painter.fill(rect, faded(colours::trouble, 0.18f));
  painter.text(rect.left + painter.px(edge), (rect.top + rect.bottom - size_of(look.bold)) / 2,
               painter.fitted(runs.warning(), look.bold, rect.width() - painter.px(2 * edge)),
               colours::trouble, look.bold);
}

void ComparisonView::draw_head(const Painter& painter, const Rect& rect, ComparedRuns& runs,
                               Side side) const {
  const Look& look = painter.look();
  const Timeline& timeline = runs.model(side).timeline;
  const StepMetrics& metrics = runs.metrics(side);
  const float middle = (rect.top + rect.bottom) / 2;
  ImGui::PushID(letter_of(side));
  float x = rect.left + painter.px(edge);
  x += badge(painter, x, middle, side) + painter.px(gap) / 2;
  const std::string& schedule = timeline.prediction(metrics.step).schedule;
  const std::string name = schedule.empty() ? timeline.run().lesson : schedule;
  x += painter.text(x, middle - size_of(look.bold) / 2,
                    painter.fitted(name, look.bold, painter.px(200)), colours::text, look.bold) +
       painter.px(gap);
  ButtonRow row{painter, rect, x};
  if (row.button("<", false, "an earlier step of this run")) runs.go_by_steps(side, -1);
  row.text(fmt::format("step {}", metrics.step), colours::text);
  if (row.button(">", false, "a later step of this run")) runs.go_by_steps(side, 1);
  ImGui::PopID();

  std::string facts = duration_words(metrics.time());
  if (metrics.bubble) facts += fmt::format("   bubble {:.1f} %", 100 * metrics.bubble->share());
  if (const RankMetrics* most = metrics.most_memory())
    facts += fmt::format("   peak memory {} on rank {}", bytes_words(*most->memory), most->rank);
  if (runs.configurations().clocks_differ) facts += "   " + clock_words(timeline.run());
  painter.text(rect.right - painter.px(edge), middle - size_of(look.small) / 2,
               painter.fitted(facts, look.small, 0.6f * rect.width()), colours::text_dim,
               look.small, Align::right);
}

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
                 colours::text_dim, look.small);
    float x = inside.left + column;
    const float width = (inside.width() - column) / 2;
    for (const std::string& each : {a, b}) {
      painter.text(x, y, painter.fitted(each, look.small, width - painter.px(gap) / 2), colour,
                   look.small);
      x += width;
    }
    y += line;
  };
  row("", "A", "B", colours::text_faint);
  // Below the table, what is the same; and a line about what the traces do not say.
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
  // The cursor on a row shows its values in full, and those of the rows that have no room.
  const auto full = [](const ConfigurationEntry& each) {
    return fmt::format("{}: {} in A, {} in B", each.name, each.a.empty() ? none : each.a,
                       each.b.empty() ? none : each.b);
  };
  for (std::size_t i = 0; i < found.different.size(); ++i) {
    const Rect at{inside.left, y, inside.right, y + line};
    if (i + 1 == most && i + 1 < found.different.size()) {
      painter.text(inside.left, y, fmt::format("and {} more", found.different.size() - i),
                   colours::accent, look.small);
      std::vector<std::string> rest;
      for (; i < found.different.size(); ++i) rest.push_back(full(found.different[i]));
      tip(painter, at, rest);
      y += line;
      break;
    }
    const ConfigurationEntry& each = found.different[i];
    tip(painter, at, {full(each)});
    row(each.name, each.a.empty() ? none : each.a, each.b.empty() ? none : each.b, colours::text);
  }
  if (found.different.empty()) {
    painter.text(inside.left, y, "nothing", colours::text, look.small);
    y += line;
  }
  paragraph(painter, inside, y + painter.px(line_gap), same, colours::text_faint, look.small);
}

void ComparisonView::draw_values(const Painter& painter, const Rect& card,
                                 const ComparedRuns& runs) const {
  const Look& look = painter.look();
  Rect inside = painter.card(card,
                             fmt::format("Step {} of A, step {} of B", runs.metrics(Side::a).step,
                                         runs.metrics(Side::b).step),
                             "idle times: means over ranks");
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
  // The columns are as wide as their words, and share what the names leave.
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
  for (std::size_t i = 0; i < columns; ++i) cell(0, i, y, colours::text_faint);
  for (std::size_t row = 1; row < rows.size(); ++row) {
    const ComparedValue& value = values[row - 1];
    y += line;
    if (y + size_of(look.small) > inside.bottom + 1) break;
    const float indent = value.part ? painter.px(gap) : 0;
    painter.text(inside.left + indent, y,
                 painter.fitted(value.name, look.small, end - inside.left - indent),
                 value.part ? colours::text_faint : colours::text_dim, look.small);
    for (std::size_t i = 0; i < 2; ++i)
      cell(row, i, y, value.part ? colours::text_dim : colours::text);
    for (std::size_t i = 2; i < columns; ++i) cell(row, i, y, colour_of_difference(value));
  }
}

void ComparisonView::draw_ranks(const Painter& painter, const Rect& card,
                                const ComparedRuns& runs) const {
  const Look& look = painter.look();
  Rect inside = painter.card(card, "Ranks", "bars: memory");
  inside.right = std::min(inside.right, inside.left + painter.px(widest_table));
  const auto& ranks = runs.ranks();
  const float line = size_of(look.small) + painter.px(line_gap);
  const float name = painter.px(48);
  constexpr float ends[] = {0.3f, 0.62f, 1};  // of the columns, in widths of the rest
  const auto cell = [&](std::size_t i, float at, const std::string& words, ImU32 colour) {
    painter.text(inside.left + name + ends[i] * (inside.width() - name), at, words, colour,
                 look.small, Align::right);
  };
  float y = inside.top;
  const char* heads[] = {"idle", "sent", "memory"};
  for (std::size_t i = 0; i < 3; ++i) cell(i, y, heads[i], colours::text_faint);
  y += line;
  double top = 0;
  for (const ComparedRank& rank : ranks)
    top = std::max({top, rank.memory.a.value_or(0), rank.memory.b.value_or(0)});
  const float bars = 2 * painter.px(bar_thickness) + painter.px(4);
  const std::size_t room = whole_number((inside.bottom - y) / line);
  const bool with_bars =
      top > 0 && static_cast<float>(ranks.size()) * (line + bars) <= inside.bottom - y;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const ComparedRank& rank = ranks[i];
    if (!with_bars && i + 1 == room && i + 1 < ranks.size()) {
      painter.text(inside.left, y, fmt::format("and {} more ranks", ranks.size() - i),
                   colours::text_faint, look.small);
      return;
    }
    painter.text(inside.left, y, fmt::format("rank {}", rank.rank),
                 rank.marked() ? colours::accent : colours::text_dim, look.small);
    const ComparedValue* values[] = {&rank.idle, &rank.sent, &rank.memory};
    for (std::size_t c = 0; c < 3; ++c) {
      cell(c, y, brief_words(*values[c]), colour_of_difference(*values[c]));
    }
    std::vector<std::string> lines;
    for (const ComparedValue* value : values)
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

void ComparisonView::draw_findings(const Painter& painter, const Rect& card,
                                   const ComparedRuns& runs) const {
  const Look& look = painter.look();
  const Rect inside = painter.card(card, "Why");
  // In the larger font, if there is room.
  float height = 0;
  for (const ComparisonFinding& finding : runs.findings())
    height += height_of(painter, finding.claim, look.body, inside.width()) +
              height_of(painter, finding.reason, look.body, inside.width()) + painter.px(line_gap);
  ImFont* font = height <= inside.height() ? look.body : look.small;
  float y = inside.top;
  for (const ComparisonFinding& finding : runs.findings()) {
    y = paragraph(painter, inside, y, finding.claim, colours::text, font);
    y = paragraph(painter, inside, y, finding.reason, colours::text_dim, font);
    y += painter.px(line_gap);
  }
}

void ComparisonView::draw_letter(const Painter& painter, const Rect& card, Side side) const {
  badge(painter, (card.left + card.right) / 2, card.top + painter.px(badge_size - 4), side);
}

ComparedTimeline ComparisonView::timeline_of(const ComparedRuns& runs, Side side) {
  const Side other = other_side(side);
  const StepMetrics &mine = runs.metrics(side), &theirs = runs.metrics(other);
  ComparedTimeline compared{
      .takes_keys = side == runs.leads(),
      .has_axis = side == Side::a || !runs.shows(Side::a) || runs.configurations().clocks_differ,
      .step = mine.window,
      .other_end = mine.window.start + theirs.time()};
  if (!runs.configurations().clocks_differ)
    compared.other_words = mine.time() == theirs.time()
                               ? fmt::format("{} ends here too", letter_of(other))
                               : fmt::format("{} ends here", letter_of(other));
  for (const ComparedRank& rank : runs.ranks()) {
    const ComparedValue* value = rank.marked();
    ComparedTimeline::Note note{.words = "same", .brief = "same", .marked = value != nullptr};
    if (!rank.idle.a || !rank.idle.b) {
      note.words = note.brief = fmt::format("only in {}", letter_of(side));
    } else if (value && side == Side::a) {
      note.brief = value_words(value->unit, value->a);
      note.words = value->name + " " + note.brief;
    } else if (value) {
      const std::string exact = relative_words(*value);
      note.words = value->name + " " + (exact.empty() ? difference_words(*value) : exact);
      note.brief = value->name + " " + brief_words(*value);
    }
    compared.notes.emplace(rank.rank, note);
  }
  return compared;
}

void take_comparison_keys(ComparedRuns& runs) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.WantTextInput) return;
  if (key_pressed(keys::v, false)) runs.toggle_layout();
  if (key_pressed(keys::x, false)) runs.exchange();
  // In the leading run, Escape clears more than the selection, and closes what covers it first.
  const ViewState& view = runs.leader().view;
  if (key_pressed(keys::escape, false) && !view.help && !view.exports) {
    Model& other = runs.model(other_side(runs.leads()));
    other.selected = {};
    other.chain = {};
  }
  for (const auto& [key, by] : {std::pair{keys::page_up, -1}, {keys::page_down, 1}}) {
    if (!key_pressed(key)) continue;
    if (io.KeyShift) {
      runs.go_by_steps(runs.leads(), by);
    } else {
      runs.go_by_steps(by);
    }
  }
}

}  // namespace lockstep::viz
