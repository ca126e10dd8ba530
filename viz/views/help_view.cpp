#include "viz/views/help_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <vector>

namespace lockstep::viz {
namespace {

using Place = HelpView::Place;

/// The places in which a control works.
class Places {
 public:
  constexpr Places(std::initializer_list<Place> places) {
    for (const Place each : places) bits_ |= bit(each);
  }
  constexpr bool contain(Place place) const { return (bits_ & bit(place)) != 0; }

 private:
  static constexpr unsigned bit(Place place) { return 1u << static_cast<unsigned>(place); }
  unsigned bits_ = 0;
};
constexpr Places everywhere{Place::one_run,   Place::two_runs, Place::lab_schedules,
                            Place::lab_board, Place::lab_live, Place::lab_lessons};
constexpr Places timelines{Place::one_run, Place::two_runs, Place::lab_live};
constexpr Places timeline_of_one{Place::one_run, Place::lab_live};
constexpr Places runs{Place::one_run, Place::two_runs};
constexpr Places one_run{Place::one_run}, two_runs{Place::two_runs};
constexpr Places lab{Place::lab_schedules, Place::lab_board, Place::lab_live, Place::lab_lessons};
constexpr Places lab_settings{Place::lab_schedules, Place::lab_board};
constexpr Places lab_schedules{Place::lab_schedules}, lab_board{Place::lab_board};

/// A key or a mouse action, what it does, and where. Both the help in the window and --help show
/// these.
struct Control {
  const char* section;
  const char* keys;
  const char* effect;
  Places places;
};
constexpr const char *move = "Move in time", *select = "Select", *jump = "Jump",
                     *rows = "Rows of ranks", *show = "Show", *runs_of_two = "Two runs",
                     *in_lab = "The lab", *on_board = "The lab's board", *program = "The viewer";
constexpr Control controls[] = {
    {move, "Ctrl+wheel, W S", "zoom at the cursor", timelines},
    {move, "Shift+wheel, A D", "pan", timelines},
    {move, "Shift+drag, middle drag", "pan", timelines},
    {move, "Drag in the overview", "move the window through the run", timeline_of_one},
    {move, "F", "focus on the selection, or show the whole run", timelines},
    {move, "Home", "show the whole run", timelines},
    {move, "Page up, Page down", "previous and next step", timelines},
    {move, "L", "follow a live run", timeline_of_one},
    {move, "Space", "replay the run slowly, or pause", timelines},
    {move, "Drag in the time axis", "scrub through the replay", timelines},
    {select, "Click", "select a span or idle time", timelines},
    {select, "Drag", "select a range of time: its statistics", timelines},
    {select, "Click on a step", "lock the cards to it: its statistics; again: unlock", one_run},
    {select, "Click in the statistics",
     "heading: sort; name: its durations; min, max or bin: go to the span", one_run},
    {select, "Wheel in the statistics", "scroll through the names", one_run},
    {select, "← →", "previous and next span of the lane", timelines},
    {select, "↑ ↓", "span of the lane above and below", timelines},
    {select, "M", "mark the selection or the time at the cursor, or remove the mark", timelines},
    {select, "Ctrl+C", "copy the name of the selection", timeline_of_one},
    {select, "Ctrl+Shift+C", "copy the values of the selection", timeline_of_one},
    {select, "U", "write a note at the cursor's rank and time", timeline_of_one},
    {select, "Esc", "clear the selection, the search and the replay", runs},
    {jump, "J", "to what the selection waited for", timeline_of_one},
    {jump, "Shift+J", "to what it led to", timeline_of_one},
    {jump, "Backspace", "back to where you were", timeline_of_one},
    {jump, "Shift+Backspace", "forward again", timeline_of_one},
    {jump, "Ctrl+1 to Ctrl+9", "set a bookmark, or remove it", timeline_of_one},
    {jump, "1 to 9", "go to a bookmark", timeline_of_one},
    {jump, "/", "search: F3, rank:1, step:2, stage:0, or a part of a name", runs},
    {jump, "N, Shift+N", "next and previous span that the search finds", runs},
    {jump, "Click on \"rank 3\"", "in a sentence: go to its row", one_run},
    {rows, "Wheel", "scroll", timelines},
    {rows, "Click on a name", "show or collapse its lanes", timelines},
    {rows, "Drag a name", "move the row", timeline_of_one},
    {rows, "Right click", "menu of the span and the row under the cursor", timeline_of_one},
    {rows, "C", "collapse the lanes of all ranks, or show them", timelines},
    {rows, "T, H", "pin the rank under the cursor to the top; hide it", timelines},
    {rows, "Shift+H", "show all ranks", timelines},
    {rows, "I", "one row for identical ranks, or a row for each", timeline_of_one},
    {rows, "O", "group the rows by the next axis of the mesh", timeline_of_one},
    {rows, "Click on a heading", "fold the rows of a group", timeline_of_one},
    {rows, "Shift+F", "filter: 5, 4-7, pp:0, or a part of a name", timeline_of_one},
    {show, "R", "next panel in the last card", one_run},
    {show, "P", "critical path", timelines},
    {show, "G", "predicted schedule, below the observed one", timelines},
    {runs_of_two, "V", "both, or one at a time", two_runs},
    {runs_of_two, "X", "exchange A and B in the same place", two_runs},
    {runs_of_two, "Shift+Page up, down", "step of the run under the cursor only", two_runs},
    {runs_of_two, "Click on a step", "compare this step", two_runs},
    {in_lab, "Drag a slider", "change a setting; schedules and times follow", lab_settings},
    {in_lab, "Click on A or B", "show a schedule as A or as B", lab_schedules},
    {in_lab, "Point at a schedule", "its formulas", lab_schedules},
    {in_lab, "Point at an action", "its times", lab_settings},
    {in_lab, "Esc", "back to the timeline, if a run is open", lab},
    {on_board, "Click a filled action", "its rank runs it next", lab_board},
    {on_board, "Point at another action", "what it waits for", lab_board},
    {on_board, "Click an F, then a B or I", "with Join F with B: both start together", lab_board},
    {on_board, "Click on Next of ...", "make the next move of this schedule", lab_board},
    {on_board, "Shift+click on Next of ...", "make all its moves", lab_board},
    {on_board, "Ctrl+Z, Ctrl+Y", "undo, redo", lab_board},
    {program, "Ctrl+O, drop a file", "open another run, or compare it with this one", everywhere},
    {program, "E", "export: a picture, SVG, or the statistics as CSV", runs},
    {program, "B", "dark or light background", everywhere},
    {program, "+, -, 0", "larger, smaller, or as the screen asks", everywhere},
    {program, "?", "this list", everywhere},
    {program, "Q", "quit", everywhere},
};
constexpr float padding = 20;
constexpr float line_gap = 5;
constexpr float column_gap = 18, between_columns = 36;
constexpr float screen_share = 0.96f;
constexpr float least_shrink = 0.5f;

/// A line of the list: a section's title, a control, or nothing.
struct HelpLine {
  const Control* control = nullptr;
  const char* title = nullptr;
};

/// Divides the controls into columns of about equal height, without separating a title from its
/// first control.
std::vector<std::vector<HelpLine>> columns_of(const std::vector<HelpLine>& lines,
                                              std::size_t count) {
  std::vector<std::vector<HelpLine>> columns(1);
  const std::size_t most = (lines.size() + count - 1) / count + 1;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::vector<HelpLine>& column = columns.back();
    const bool full = column.size() >= most || (lines[i].title && column.size() + 2 > most);
    const bool blank = !lines[i].control && !lines[i].title;
    if (full && columns.size() < count) columns.emplace_back();
    if (blank && columns.back().empty()) continue;
    columns.back().push_back(lines[i]);
  }
  return columns;
}

}  // namespace

void HelpView::draw(const Painter& painter, ImVec2 size, Place place) const {
  const Look& look = painter.look();
  std::vector<HelpLine> lines;
  const char* section = nullptr;
  for (const Control& each : controls) {
    if (!each.places.contain(place)) continue;
    if (!section || std::strcmp(section, each.section) != 0) {
      if (section) lines.push_back({});
      lines.push_back({.title = section = each.section});
    }
    lines.push_back({.control = &each});
  }
  const float line = size_of(look.small) + painter.px(line_gap);
  float keys = 0, effects = 0;
  for (const HelpLine& each : lines) {
    if (!each.control) continue;
    keys = std::max(keys, painter.text_width(each.control->keys, look.small));
    effects = std::max(effects, painter.text_width(each.control->effect, look.small));
  }
  // Uses as many columns as the height requires. If the list is still too large, its text shrinks.
  const float width_of_column = keys + effects + painter.px(column_gap);
  std::vector<std::vector<HelpLine>> columns;
  float width = 0, height = 0;
  for (const std::size_t count : {1, 2}) {
    columns = columns_of(lines, count);
    std::size_t most = 0;
    for (const auto& column : columns) most = std::max(most, column.size());
    const auto number = static_cast<float>(columns.size());
    width = number * width_of_column + (number - 1) * painter.px(between_columns) +
            2 * painter.px(padding);
    height = line * static_cast<float>(most + 2) + 2 * painter.px(padding);
    if (height <= screen_share * size.y) break;
  }
  const float shrink = std::clamp(
      std::min(screen_share * size.x / width, screen_share * size.y / height), least_shrink, 1.0f);
  width *= shrink;
  height *= shrink;
  const Rect card{(size.x - width) / 2, (size.y - height) / 2, (size.x + width) / 2,
                  (size.y + height) / 2};
  painter.fill({0, 0, size.x, size.y}, faded(palette.background, 0.6f));
  painter.fill(card, palette.tip, painter.px(6));
  painter.frame(card, palette.text_faint, painter.px(6));
  const auto text = [&](float x, float y, std::string_view words, ImU32 colour, ImFont* font) {
    painter.list()->AddText(font, shrink * size_of(font), {x, y}, colour, words.data(),
                            words.data() + words.size());
  };
  float left = card.left + shrink * painter.px(padding);
  const float top = card.top + shrink * painter.px(padding);
  text(left, top, "Keys and mouse", palette.text, look.bold);
  for (const auto& column : columns) {
    float y = top + 2 * shrink * line;
    for (const HelpLine& each : column) {
      if (each.title) text(left, y, each.title, palette.accent, look.small);
      if (each.control) {
        text(left, y, each.control->keys, palette.text, look.small);
        text(left + shrink * (keys + painter.px(column_gap)), y, each.control->effect,
             palette.text_dim, look.small);
      }
      y += shrink * line;
    }
    left += shrink * (width_of_column + painter.px(between_columns));
  }
}

std::string help_text(std::optional<Place> place) {
  std::string text = "Keys and mouse:\n";
  const char* section = nullptr;
  for (const Control& each : controls) {
    if (place && !each.places.contain(*place)) continue;
    if (!section || std::strcmp(section, each.section) != 0)
      text += fmt::format("\n  {}:\n", section = each.section);
    text += fmt::format("  {:<25} {}\n", each.keys, each.effect);
  }
  return text;
}

}  // namespace lockstep::viz
