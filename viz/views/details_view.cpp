#include "viz/views/details_view.h"
#include "viz/data/step/mean_step.h"
#include "viz/data/step/words.h"
#include "viz/views/paragraph.h"
#include "viz/views/tip.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

namespace lockstep::viz {
namespace {

constexpr float line_gap = 4;
constexpr float row_gap = 6;  // between a row and its tooltip

/// Describes a finding and, if the prediction is shown, how the two differ.
std::vector<std::string> all_words(Model& model, const Finding& finding) {
  auto lines = finding_words(model.timeline, finding, model.origin);
  const StepWindow* step = model.timeline.find_step(finding.span.step);
  if (!model.view.ghost || finding.kind != Finding::Kind::span || finding.open || !step)
    return lines;
  const Ghost* ghost = model.ghosts.find(model.timeline, *step);
  const auto rank = std::ranges::find_if(
      model.timeline.ranks(), [&](const auto& each) { return each.get() == finding.rank; });
  if (!ghost || rank == model.timeline.ranks().end()) return lines;
  const auto index = static_cast<std::size_t>(rank - model.timeline.ranks().begin());
  if (const GhostAction* predicted = ghost->find(index, finding.span))
    lines.push_back(ghost_words(*predicted, finding.span));
  return lines;
}

/// A column of a range's table: a part of the steps in it.
struct RangeColumn {
  std::string name;
  std::function<Picoseconds(const RankStatistics&)> time;
};

/// Returns the columns that are needed, at most `most`: if there is no room for all, exposed
/// communication gets a single column.
std::vector<RangeColumn> range_columns(const RangeStatistics& range, std::size_t most) {
  using Rank = RankStatistics;
  std::vector<RangeColumn> axes, parts{{"compute", [](const Rank&r) { return r.sums.compute; }},
                                       {"optim.", [](const Rank&r) { return r.sums.optimizer; }}};
  for (std::size_t axis = 0; axis < range.axes.size(); ++axis)
    axes.push_back({range.axes[axis], [axis](const Rank& r) { return r.sums.axes[axis].sum(); }});
  const RangeColumn exposed{"exposed", [](const Rank& r) { return r.sums.exposed().sum(); }};
  const RangeColumn rest[] = {{"bubble", [](const Rank& r) { return r.sums.bubble(); }},
                              {"other", [](const Rank& r) { return r.sums.other; }},
                              {"no step", [](const Rank& r) { return r.in_no_step; }}};
  const auto used = [&](const RangeColumn& column) {
    return std::ranges::any_of(range.ranks, [&](const Rank& r) { return column.time(r) != 0; });
  };
  parts.insert(parts.end(), std::begin(rest), std::end(rest));
  std::erase_if(parts, [&](const RangeColumn& column) { return !used(column); });
  std::erase_if(axes, [&](const RangeColumn& column) { return !used(column); });
  if (parts.size() + axes.size() > most && axes.size() > 1) axes = {exposed};
  const auto place = std::ranges::find_if(parts, [](const RangeColumn& column) {
    return column.name != "compute" && column.name != "optim.";
  });
  parts.insert(place, axes.begin(), axes.end());
  if (parts.size() > most) parts.resize(std::max<std::size_t>(most, 1));
  return parts;
}

ImU32 mark_of(const Finding& finding) {
  if (finding.piece) return colour_of(finding.piece->part);
  if (finding.kind == Finding::Kind::idle) return palette.text_faint;
  if (finding.span.category == Category::wait) return palette.trouble;
  return colour_of(finding.span.category);
}

}  // namespace

void DetailsView::draw_ranks(const Painter& painter, const Rect& inside,
                             const RangeStatistics& range) {
  const Look& look = painter.look();
  if (range.ranks.empty()) return;  // while it is being dragged
  if (!range.added_up) {
    painter.text(inside.left, inside.top,
                 painter.fitted("too many spans to add up; select a shorter range", look.small,
                                inside.width()),
                 palette.text_dim, look.small);
    return;
  }
  const float first = painter.px(52), last = painter.px(78);
  const float least = painter.text_width("compute", look.small) + painter.px(6);
  const auto columns = range_columns(range, whole_number((inside.width() - first - last) / least));
  const float column = std::min((inside.width() - first - last) /
                                    static_cast<float>(std::max<std::size_t>(columns.size(), 1)),
                                painter.px(90));
  const float line = size_of(look.small) + painter.px(line_gap);
  const float right = inside.left + first + column * static_cast<float>(columns.size()) + last;
  float y = inside.top;
  const auto cell = [&](std::size_t i, const std::string& words, ImU32 colour) {
    const float at =
        i == columns.size() ? right : inside.left + first + column * static_cast<float>(i + 1);
    painter.text(at, y, words, colour, look.small, Align::right);
  };
  for (std::size_t i = 0; i < columns.size(); ++i)
    cell(i, painter.fitted(columns[i].name, look.small, column - painter.px(4)),
         palette.text_faint);
  cell(columns.size(), "sent", palette.text_faint);
  const auto row = [&](const std::string& name, const RankStatistics& rank, double ranks) {
    y += line;
    painter.text(inside.left, y, name, palette.text, look.small);
    const double length = static_cast<double>(range.length()) * ranks;
    for (std::size_t i = 0; i < columns.size(); ++i)
      cell(i, length > 0 ? percent_words(static_cast<double>(columns[i].time(rank)) / length) : "-",
           palette.text_dim);
    cell(columns.size(), bytes_words(rank.sent), palette.text_dim);
  };
  RankStatistics sum;
  for (const RankStatistics& each : range.ranks) {
    sum.sums += each.sums;
    sum.in_no_step = plus(sum.in_no_step, each.in_no_step);
    sum.sent = plus(sum.sent, each.sent);
  }
  row("all", sum, static_cast<double>(range.ranks.size()));
  for (std::size_t i = 0; i < range.ranks.size(); ++i) {
    const std::size_t left = range.ranks.size() - i;
    if (y + (left > 1 ? 3 : 2) * line > inside.bottom) {
      painter.text(inside.left, y + line,
                   painter.fitted(fmt::format("and {} more; the exported CSV has all ranks", left),
                                  look.small, inside.width()),
                   palette.text_faint, look.small);
      break;
    }
    row(fmt::format("rank {}", range.ranks[i].rank), range.ranks[i], 1);
  }
}

bool DetailsView::has_selection(const Model& model) {
  return model.view.range || model.selected.kind != Finding::Kind::nothing;
}

void DetailsView::draw_selection(const Painter& painter, const Rect& card, Model& model) const {
  if (model.view.range) {
    const RangeStatistics& range = *model.view.range;
    const auto start = static_cast<double>(range.range.start - model.origin);
    const auto end = static_cast<double>(range.range.end - model.origin);
    const double grain = std::max((end - start) / 100, 1.0);
    return draw_ranks(
        painter,
        painter.card(card, "Range of " + duration_words(end - start),
                     fmt::format("{} to {}", axis_words(start, grain), axis_words(end, grain))),
        range);
  }
  const Look& look = painter.look();
  const auto lines = all_words(model, model.selected);
  const Rect inside = painter.card(card, lines.front(), "Esc clears");
  float y = inside.top;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    text_with_links(painter, inside.left, y, lines[i], palette.text_dim, look.small,
                    model.view.wanted_rank);
    y += size_of(look.small) + painter.px(line_gap);
  }
  if (!model.chain.chain) return;
  painter.text(inside.left, y + painter.px(line_gap), chain_words(*model.chain.chain),
               palette.text_dim, look.small);
}

void DetailsView::draw_tooltip(const Painter& painter, Model& model) const {
  if (model.hovered.kind == Finding::Kind::nothing) return;
  const float gap = painter.px(row_gap);
  draw_tip(painter, model.hovered_top - gap, model.hovered_bottom + gap,
           all_words(model, model.hovered), mark_of(model.hovered));
}

}  // namespace lockstep::viz
