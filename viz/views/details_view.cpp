#include "viz/views/details_view.h"
#include "viz/data/step_sentences.h"
#include "viz/data/words.h"
#include "viz/views/tip.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace lockstep::viz {
namespace {

constexpr float line_gap = 4;
constexpr float row_gap = 6;  // between a row and its tooltip

/// Describes a finding and, if the prediction is shown, how the two differ.
std::vector<std::string> all_words(Model& model, const Finding& finding) {
  auto lines = finding_words(model.timeline, finding, model.origin);
  if (model.described && finding.kind == Finding::Kind::span)
    if (std::string late = late_words(*model.described, finding.span); !late.empty())
      lines.push_back(std::move(late));
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

/// A table of what each rank did in a range: shares of its length, and bytes.
void draw_range(const Painter& painter, const Rect& card, const RangeStatistics& range,
                Picoseconds origin) {
  const Look& look = painter.look();
  const auto start = static_cast<double>(range.range.start - origin);
  const auto end = static_cast<double>(range.range.end - origin);
  const double grain = std::max((end - start) / 100, 1.0);
  const Rect inside =
      painter.card(card, "Range of " + duration_words(end - start),
                   fmt::format("{} to {}", axis_words(start, grain), axis_words(end, grain)));
  if (range.ranks.empty()) return;  // while it is being dragged
  constexpr const char* heads[] = {"compute", "idle", "waiting", "comm.", "hidden", "sent"};
  const float first = painter.px(64);
  const float column = (inside.width() - first) / static_cast<float>(std::size(heads));
  const float line = size_of(look.small) + painter.px(line_gap);
  const auto cell = [&](std::size_t i, float y, const std::string& words, ImU32 colour) {
    painter.text(inside.left + first + column * static_cast<float>(i + 1), y, words, colour,
                 look.small, Align::right);
  };
  float y = inside.top;
  for (std::size_t i = 0; i < std::size(heads); ++i) cell(i, y, heads[i], colours::text_faint);
  const auto row = [&](const std::string& name, const RankStatistics& rank, double ranks) {
    y += line;
    painter.text(inside.left, y, name, colours::text, look.small);
    const auto share = [&](Picoseconds part, double of) {
      return of > 0 ? percent_words(static_cast<double>(part) / of) : "-";
    };
    const double length = static_cast<double>(range.length()) * ranks;
    const Picoseconds parts[] = {rank.compute, rank.idle, rank.waiting, rank.communication};
    for (std::size_t i = 0; i < 4; ++i) cell(i, y, share(parts[i], length), colours::text_dim);
    cell(4, y, share(rank.hidden, static_cast<double>(rank.communication)), colours::text_dim);
    cell(5, y, bytes_words(rank.sent), colours::text_dim);
  };
  RankStatistics sum;
  for (const RankStatistics& each : range.ranks) {
    sum.compute = plus(sum.compute, each.compute);
    sum.waiting = plus(sum.waiting, each.waiting);
    sum.idle = plus(sum.idle, each.idle);
    sum.communication = plus(sum.communication, each.communication);
    sum.hidden = plus(sum.hidden, each.hidden);
    sum.sent = plus(sum.sent, each.sent);
  }
  row("all", sum, static_cast<double>(range.ranks.size()));
  for (const RankStatistics& each : range.ranks) {
    if (y + 2 * line > inside.bottom) break;
    row(fmt::format("rank {}", each.rank), each, 1);
  }
}

ImU32 mark_of(const Finding& finding) {
  if (finding.kind == Finding::Kind::idle) return colours::text_faint;
  if (finding.span.category == Category::wait) return colours::trouble;
  return colour_of(finding.span.category);
}

}  // namespace

bool DetailsView::has_selection(const Model& model) {
  return model.view.range || model.selected.kind != Finding::Kind::nothing;
}

void DetailsView::draw_selection(const Painter& painter, const Rect& card, Model& model) const {
  if (model.view.range) return draw_range(painter, card, *model.view.range, model.origin);
  const Look& look = painter.look();
  const auto lines = all_words(model, model.selected);
  const Rect inside = painter.card(card, lines.front(), "Esc clears");
  float y = inside.top;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    painter.text(inside.left, y, lines[i], colours::text_dim, look.small);
    y += size_of(look.small) + painter.px(line_gap);
  }
  if (!model.chain.chain) return;
  const DataChain& chain = *model.chain.chain;
  const std::string words =
      fmt::format("{} actions before it lead here from the data; {} after it depend on its result",
                  chain.before.size(), chain.after.size());
  painter.text(inside.left, y + painter.px(line_gap), words, colours::text_dim, look.small);
}

void DetailsView::draw_tooltip(const Painter& painter, Model& model) const {
  if (model.hovered.kind == Finding::Kind::nothing) return;
  const float gap = painter.px(row_gap);
  draw_tip(painter, model.hovered_top - gap, model.hovered_bottom + gap,
           all_words(model, model.hovered), mark_of(model.hovered));
}

}  // namespace lockstep::viz
