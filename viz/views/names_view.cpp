#include "viz/views/names_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "viz/data/step/words.h"
#include "viz/views/button.h"
#include "viz/views/details_view.h"

namespace lockstep::viz {
namespace {

constexpr float tabs_height = 34;
constexpr float inset = 8;
constexpr float line_gap = 4;
constexpr float column_width = 66;
constexpr float least_name = 110;       // pixels of the column of names
constexpr float least_histogram = 190;  // pixels of width beside the table
constexpr float table_share = 0.64f;
constexpr float least_bar = 1.5f;  // pixels of height of a bin that is not empty
constexpr float widest_bar = 40;
constexpr std::size_t most_rows = 5000;  // names that are sorted and can be scrolled to

struct ColumnInfo {
  NameColumn column;
  const char* title;
  const char* tip;
  int priority;  ///< columns with higher numbers are left out first
};
constexpr std::array columns{
    ColumnInfo{NameColumn::count, "count", "the spans that overlap the range", 0},
    ColumnInfo{NameColumn::total, "total", "the sum of their parts inside the range", 0},
    ColumnInfo{NameColumn::share, "of time",
               "the total as a share of all ranks' time in the range; spans within others count, "
               "too",
               2},
    ColumnInfo{NameColumn::mean, "mean", "of the whole spans", 1},
    ColumnInfo{NameColumn::min, "min", "of the whole spans; click on a time: go to the span", 3},
    ColumnInfo{NameColumn::max, "max", "of the whole spans; click on a time: go to the span", 1}};

std::string cell_words(const NameTotal& total, NameColumn column, double share) {
  switch (column) {
    case NameColumn::count:
      return fmt::format("{}", total.count);
    case NameColumn::share:
      return percent_words(share);
    case NameColumn::mean:
      return duration_words(total.mean());
    case NameColumn::min:
      return duration_words(total.shortest);
    case NameColumn::max:
      return duration_words(total.longest);
    case NameColumn::total:
    case NameColumn::name:
      break;
  }
  return duration_words(total.inside);
}

/// Draws an invisible button and returns whether it was clicked.
bool is_clicked(const Rect& rect, int id) {
  if (rect.width() < 1 || rect.height() < 1) return false;
  ImGui::PushID(id);
  ImGui::SetCursorScreenPos(rect.min());
  const bool clicked = ImGui::InvisibleButton("cell", {rect.width(), rect.height()});
  ImGui::PopID();
  return clicked;
}

/// Returns the duration of the span that a click on a cell leads to.
std::optional<Picoseconds> linked_duration(const NameTotal& total, NameColumn column) {
  if (column == NameColumn::min) return total.shortest;
  if (column == NameColumn::max) return total.longest;
  return std::nullopt;
}

/// Draws words that a click activates, and returns whether they were clicked.
bool link(const Painter& painter, const Rect& rect, const std::string& words, Align align, int id) {
  const bool clicked = is_clicked(rect, id);
  ImFont* small = painter.look().small;
  const bool hovered = rect.contains(ImGui::GetIO().MousePos);
  const float x = align == Align::right ? rect.right : rect.left;
  painter.text(x, rect.top, words, hovered ? palette.text : palette.accent, small, align);
  return clicked;
}

std::string kind_and_rank(const Timeline& timeline, const SpanKind& kind) {
  const std::string words = kind_words(timeline, kind);
  return kind.rank < 0 ? words : fmt::format("{}: {}", kind.rank, words);
}

}  // namespace

Rect NamesView::draw_tabs(const Painter& painter, const Rect& card, Model& model) const {
  ViewState& view = model.view;
  Rect inside = painter.card(card, "");
  inside.top = card.top + painter.px(tabs_height + 2);
  const Rect tabs{card.left, card.top, card.right, card.top + painter.px(tabs_height)};
  ButtonRow row{painter, tabs, tabs.left + painter.px(inset)};
  if (row.button("By name", view.by_name, "the statistics of the range by name"))
    view.by_name = true;
  if (row.button("By rank", !view.by_name, "where each rank's time goes in the range"))
    view.by_name = false;
  if (view.by_name &&
      row.button("Each rank", view.names_by_rank, "count the names of each rank separately"))
    view.names_by_rank = !view.names_by_rank;
  const Interval& range = view.range->range;
  const auto start = static_cast<double>(range.start - model.origin);
  const auto end = static_cast<double>(range.end - model.origin);
  const double grain = std::max((end - start) / 100, 1.0);
  const float left = row.space(0).left;
  const std::string whole = fmt::format("{}: {} to {}", duration_words(end - start),
                                        axis_words(start, grain), axis_words(end, grain));
  ImFont* small = painter.look().small;
  const std::string note =
      painter.text_width(whole, small) <= inside.right - left ? whole : duration_words(end - start);
  painter.text(inside.right, (tabs.top + tabs.bottom - size_of(small)) / 2,
               painter.fitted(note, small, inside.right - left), palette.text_faint, small,
               Align::right);
  return inside;
}

std::optional<Finding> NamesView::span_of_duration(const Model& model, const SpanKind& kind,
                                                   Picoseconds duration) {
  return next_of_kind(model.timeline, {kind, model.view.range->range, duration, duration},
                      model.selected);
}

void NamesView::sort(const Model& model) {
  const NameStatistics& names = model.view.names;
  if (version_ == names.version()) return;
  version_ = names.version();
  rows_ = sorted_totals(model.timeline, names.totals(), sort_, reversed_, most_rows);
}

std::optional<Finding> NamesView::draw(const Painter& painter, const Rect& card, Model& model) {
  row_rects_.clear();
  heading_rects_.clear();
  bin_rects_.clear();
  longest_rects_.clear();
  ViewState& view = model.view;
  const Rect inside = draw_tabs(painter, card, model);
  if (view.dragging()) return {};
  if (!view.by_name) {
    if (view.computing())
      painter.text(inside.left, inside.top, "adding up the steps in the range ...",
                   palette.text_dim, painter.look().small);
    DetailsView::draw_ranks(painter, inside, *view.range);
    return {};
  }
  sort(model);
  if (view.names.complete() && !view.chosen_kind && !rows_.empty())
    view.chosen_kind = rows_.front().kind;
  Rect table = inside, histogram = inside;
  const bool beside = inside.width() * (1 - table_share) >= painter.px(least_histogram);
  if (beside) {
    table.right = inside.left + table_share * inside.width();
    histogram.left = table.right + painter.px(14);
  } else {
    table.bottom = inside.top + 0.55f * inside.height();
    histogram.top = table.bottom + painter.px(4);
  }
  auto jump = draw_table(painter, table, model);
  if (const auto from_bin = draw_histogram(painter, histogram, model)) jump = from_bin;
  return jump;
}

void NamesView::draw_headings(const Painter& painter, const Rect& rect,
                              const std::vector<float>& rights) {
  ImFont* small = painter.look().small;
  const float height = size_of(small) + painter.px(line_gap);
  float left = rect.left;
  std::size_t at = 0;
  const auto heading = [&](NameColumn column, const char* title, const char* words, float right,
                           bool is_name) {
    const Rect cell{left, rect.top, right, rect.top + height};
    left = right;
    heading_rects_.push_back(cell);
    const bool on = sort_ == column;
    const std::string text = on ? fmt::format("{} {}", title, reversed_ ? "^" : "v") : title;
    painter.text(is_name ? cell.left : cell.right, cell.top, text,
                 on ? palette.text_dim : palette.text_faint, small,
                 is_name ? Align::left : Align::right);
    if (is_clicked(cell, static_cast<int>(column))) {
      reversed_ = on && !reversed_;
      sort_ = column;
      version_ = -1;
    }
    tip(painter, cell, {words});
  };
  heading(NameColumn::name, "name", "pipeline actions count by kind and stage", rights[at++], true);
  for (const ColumnInfo& column : columns)
    if (at < rights.size() && rights[at] > 0)
      heading(column.column, column.title, column.tip, rights[at++], false);
    else
      ++at;
}

std::optional<Finding> NamesView::draw_table(const Painter& painter, const Rect& rect,
                                             Model& model) {
  ViewState& view = model.view;
  ImFont* small = painter.look().small;
  // Leaves out the columns for which there is no room.
  const float width = painter.px(column_width);
  int highest = 3;
  const auto is_shown = [&](const ColumnInfo& column) { return column.priority <= highest; };
  const auto shown_width = [&] {
    return width * static_cast<float>(std::ranges::count_if(columns, is_shown));
  };
  while (highest > 0 && rect.width() - shown_width() < painter.px(least_name)) --highest;
  const float name_right = rect.right - shown_width();
  std::vector<float> rights{name_right};
  float right = name_right;
  for (const ColumnInfo& column : columns)
    rights.push_back(is_shown(column) ? (right += width) : 0.0f);
  draw_headings(painter, rect, rights);

  const float line = size_of(small) + painter.px(line_gap);
  const std::size_t room = whole_number((rect.height() - line) / line);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const float notches = rect.contains(mouse) ? ImGui::GetIO().MouseWheel : 0;
  const auto last_first = rows_.size() - std::min(rows_.size(), std::max<std::size_t>(room, 1));
  scrolled_ = notches != 0 && last_first > 0;
  if (notches > 0) first_ -= std::min<std::size_t>(first_, 3);
  if (notches < 0) first_ += 3;
  first_ = std::min(first_, last_first);
  const std::size_t ranks = view.names_by_rank ? 1 : model.timeline.ranks().size();
  std::optional<Finding> jump;
  float y = rect.top + line;
  for (std::size_t i = first_; i < std::min(rows_.size(), first_ + room); ++i, y += line) {
    const NameTotal& total = rows_[i];
    const Rect row{rect.left, y, rect.right, y + line};
    row_rects_.push_back(row);
    const bool chosen = view.chosen_kind == total.kind;
    const bool hovered = row.contains(mouse);
    if (chosen || hovered)
      painter.fill({row.left - painter.px(4), row.top - painter.px(2), row.right + painter.px(4),
                    row.bottom - painter.px(2)},
                   faded(chosen ? palette.accent : palette.text_faint, chosen ? 0.25f : 0.15f),
                   painter.px(3));
    const float size = painter.px(8), top = y + (size_of(small) - size) / 2 + 1;
    painter.fill({row.left, top, row.left + size, top + size}, colour_of(total.kind.category),
                 painter.px(2));
    const float name = row.left + size + painter.px(5);
    painter.text(
        name, y,
        painter.fitted(kind_and_rank(model.timeline, total.kind), small, name_right - name),
        palette.text, small);
    const double share = share_of_time(total, view.range->range, ranks);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (rights[c + 1] <= 0) continue;
      const std::string words = cell_words(total, columns[c].column, share);
      const auto duration = linked_duration(total, columns[c].column);
      if (!duration) {
        painter.text(rights[c + 1], y, words, palette.text_dim, small, Align::right);
        continue;
      }
      const Rect cell{rights[c + 1] - painter.text_width(words, small), y, rights[c + 1],
                      row.bottom};
      if (columns[c].column == NameColumn::max) longest_rects_.push_back(cell);
      if (link(painter, cell, words, Align::right,
               static_cast<int>(20'000 + columns.size() * i + c))) {
        view.chosen_kind = total.kind;
        jump = span_of_duration(model, total.kind, *duration);
      }
    }
    if (is_clicked(row, static_cast<int>(100 + i))) view.chosen_kind = total.kind;
  }
  if (rows_.empty())
    painter.text(rect.left, y, view.names.complete() ? "no spans in this range" : "counting ...",
                 palette.text_dim, small);
  return jump;
}

std::optional<Finding> NamesView::draw_histogram(const Painter& painter, const Rect& rect,
                                                 Model& model) {
  ViewState& view = model.view;
  ImFont* small = painter.look().small;
  const float line = size_of(small) + painter.px(line_gap);
  const DurationHistogram& histogram = view.durations;
  const NameTotal* chosen = view.chosen_kind ? view.names.find(*view.chosen_kind) : nullptr;
  const auto& counts = histogram.counts();
  if (!view.names.complete() || !chosen || counts.empty()) {
    painter.text(
        rect.left, rect.top,
        view.names.complete() ? "" : fmt::format("counting: {} names so far", rows_.size()),
        palette.text_dim, small);
    return {};
  }
  const std::string title =
      fmt::format("durations of {}{}", kind_and_rank(model.timeline, chosen->kind),
                  histogram.geometric() ? ", logarithmic" : "");
  painter.text(rect.left, rect.top, painter.fitted(title, small, rect.width()), palette.text_dim,
               small);
  const Rect plot{rect.left, rect.top + line, rect.right, rect.bottom - line};
  const std::int64_t most = std::max<std::int64_t>(std::ranges::max(counts), 1);
  if (plot.height() < painter.px(8)) return {};
  const float width =
      std::min(plot.width() / static_cast<float>(counts.size()), painter.px(widest_bar));
  std::optional<Finding> jump;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const float left = plot.left + width * static_cast<float>(i);
    const Rect column{left, plot.top, left + width, plot.bottom};
    bin_rects_.push_back(column);
    float height = plot.height() *
                   static_cast<float>(static_cast<double>(counts[i]) / static_cast<double>(most));
    if (counts[i] > 0) height = std::max(height, painter.px(least_bar));
    const bool hovered = column.contains(ImGui::GetIO().MousePos);
    if (hovered) painter.fill(column, faded(palette.text_faint, 0.2f));
    painter.fill({left, plot.bottom - height, left + std::max(width - 1, 1.0f), plot.bottom},
                 faded(colour_of(chosen->kind.category), hovered ? 1 : 0.8f));
    if (counts[i] == 0) continue;
    const auto [shortest, longest] = histogram.bounds(i);
    tip(painter, column,
        {fmt::format("{} span{} from {} to {}", counts[i], counts[i] == 1 ? "" : "s",
                     duration_words(histogram.limits()[i]),
                     duration_words(histogram.limits()[i + 1])),
         "click: jump to the next of them"});
    if (is_clicked(column, static_cast<int>(10'000 + i)))
      jump = next_of_kind(model.timeline, {chosen->kind, view.range->range, shortest, longest},
                          model.selected);
  }
  painter.line(plot.left, plot.bottom, plot.right, plot.bottom, palette.panel_edge);
  const float y = plot.bottom + painter.px(3);
  const Picoseconds ends[] = {histogram.limits().front(), histogram.limits().back()};
  float room = plot.width();
  for (const bool last : {false, true}) {
    const std::string words =
        fmt::format("{} {}", last ? "longest" : "shortest", duration_words(ends[last ? 1 : 0]));
    const float width_of_words = painter.text_width(words, small);
    room -= width_of_words + painter.px(line_gap);
    const float at = last ? plot.right - width_of_words : plot.left;
    const Rect place{at, y, at + width_of_words, y + line};
    if (last) longest_rects_.push_back(place);
    if (link(painter, place, words, Align::left, last ? 9'999 : 9'998))
      jump = span_of_duration(model, chosen->kind, ends[last ? 1 : 0]);
  }
  const std::string highest = fmt::format("most: {}", most);
  if (painter.text_width(highest, small) <= room)
    painter.text((plot.left + plot.right) / 2, y, highest, palette.text_faint, small,
                 Align::centre);
  return jump;
}

}  // namespace lockstep::viz
