#include "viz/app/comparison_screen.h"

#include <algorithm>
#include <array>

#include "viz/app/screen_parts.h"
#include "viz/views/imgui_shim.h"

namespace lockstep::viz {
namespace {

constexpr float cards_height = 300;
constexpr float cards_share = 0.35f;  // of the window height, at most
constexpr float edge = 12;
constexpr float between = 6;  // the two timelines
/// The cards' shares of the width: the differences, the step, the ranks, and the explanations.
constexpr std::array card_shares{0.21f, 0.28f, 0.19f, 0.32f};
/// The same in a narrow window, which has no room for the ranks.
constexpr float narrow = 1150;
constexpr std::array narrow_shares{0.25f, 0.4f, 0.0f, 0.35f};

/// Returns the y between the two timelines. If only A's timeline has a time axis, it is taller by
/// the height of this axis, so that the lanes of both are equally tall.
float middle_of(const Painter& painter, const Rect& rect, const ComparedRuns& runs) {
  const float axis = runs.configurations().clocks_differ ? 0 : TimelineView::axis_height;
  return (rect.top + rect.bottom + painter.px(axis - between)) / 2;
}

}  // namespace

void ComparisonScreen::draw(ComparedRuns& runs, const Look& look) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  begin_screen();
  if (runs.leader().view.opening) ImGui::GetIO().WantTextInput = true;
  const Painter painter{ImGui::GetWindowDrawList(), look};
  for (const Side side : both_sides)
    runs.model(side).contents = contents_of(runs.model(side).timeline);
  std::vector<std::string> axes = runs.metrics(Side::a).account.axes;
  join_axes(axes, runs.metrics(Side::b).account.axes);
  auto [bar, toolbar, middle, row, line, column] = screen_parts(
      painter, {.bar = ComparisonView::bar_height,
                .cards = cards_height,
                .cards_share = cards_share,
                .line = StatusView::height_of_line(painter, size.x, runs.model(Side::a), axes,
                                                   &runs.model(Side::b))});

  take_comparison_keys(runs);
  if (!comparison_.draw_bar(painter, bar, runs)) {
    const Rect warning{0, middle.top, size.x,
                       middle.top + painter.px(ComparisonView::warning_height)};
    comparison_.draw_warning(painter, warning, runs);
    middle.top = warning.bottom;
  }
  choose_leader(painter, middle, runs);
  for (const Side side : both_sides) {
    Model& model = runs.model(side);
    model.places = MeshPlaces{model.timeline.run()};
    model.view.refresh(model.timeline);
  }
  const Side leads = runs.leads();
  const int jump = toolbar_.draw(painter, toolbar, runs.leader());
  draw_timelines(painter, middle, runs);
  if (jump != 0) timelines_[static_cast<std::size_t>(leads)].go_to_match(jump, runs.leader());

  const bool is_narrow = row.width() < painter.px(narrow);
  const auto& shares = is_narrow ? narrow_shares : card_shares;
  float left = row.left;
  const float room = row.width() - (is_narrow ? 2 : 3) * painter.px(edge);
  const auto next_card = [&](float share) {
    const Rect card{left, row.top, left + share * room, row.bottom};
    left = card.right + painter.px(edge);
    return card;
  };
  comparison_.draw_configurations(painter, next_card(shares[0]), runs);
  comparison_.draw_values(painter, next_card(shares[1]), runs);
  if (!is_narrow) comparison_.draw_ranks(painter, next_card(shares[2]), runs);
  draw_last_card(painter, next_card(shares[3]), runs);
  status_.draw_line(painter, line, runs.model(Side::a), axes, &runs.model(Side::b));
  const Painter front{ImGui::GetForegroundDrawList(), look};
  open_.draw(look, size, runs.leader());
  if (runs.leader().view.opening) {
    // Covers everything else.
  } else if (runs.leader().view.exports) {
    export_.draw(look, size, runs.leader());
  } else if (runs.leader().view.help) {
    help_.draw(front, size, HelpView::Place::two_runs);
  } else {
    for (const Side side : both_sides)
      if (runs.shows(side)) details_.draw_tooltip(front, runs.model(side));
  }
  ImGui::End();
}

void ComparisonScreen::draw_last_card(const Painter& painter, const Rect& card,
                                      ComparedRuns& runs) const {
  Model &leader = runs.leader(), &other = runs.model(other_side(runs.leads()));
  if (leader.view.range && other.view.range) {
    Rect half = card;
    for (const Side side : both_sides) {
      half.bottom =
          side == Side::a ? (card.top + card.bottom - painter.px(between)) / 2 : card.bottom;
      details_.draw_selection(painter, half, runs.model(side));
      comparison_.draw_letter(painter, half, side);
      half.top = half.bottom + painter.px(between);
    }
  } else if (DetailsView::has_selection(leader)) {
    details_.draw_selection(painter, card, leader);
  } else if (DetailsView::has_selection(other)) {
    details_.draw_selection(painter, card, other);
  } else {
    comparison_.draw_sentences(painter, card, runs);
  }
}

void ComparisonScreen::choose_leader(const Painter& painter, const Rect& rect,
                                     ComparedRuns& runs) const {
  if (runs.alternates()) {
    runs.lead(runs.shows(Side::a) ? Side::a : Side::b);
    return;
  }
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  // A drag that leaves its timeline still belongs to it.
  if (!rect.contains(mouse) || ImGui::IsAnyMouseDown()) return;
  runs.lead(mouse.y < middle_of(painter, rect, runs) ? Side::a : Side::b);
}

void ComparisonScreen::draw_timelines(const Painter& painter, const Rect& rect,
                                      ComparedRuns& runs) {
  const auto leads = static_cast<std::size_t>(runs.leads());
  timelines_[1 - leads].mirror(timelines_[leads]);
  const float middle = middle_of(painter, rect, runs);
  for (const Side side : both_sides) {
    Model& model = runs.model(side);
    if (!runs.shows(side)) {
      model.hovered = {};
      continue;
    }
    Rect part = rect;
    if (!runs.alternates() && side == Side::a) part.bottom = middle;
    if (!runs.alternates() && side == Side::b) part.top = middle + painter.px(between);
    Rect head = part;
    head.bottom = part.top = head.top + painter.px(ComparisonView::head_height);
    comparison_.draw_head(painter, head, runs, side);
    if (part.height() < 1) {  // in a very small window
      model.hovered = {};
      continue;
    }
    ImGui::PushID(static_cast<int>(side));
    const ComparedTimeline compared = ComparisonView::timeline_of(runs, side);
    TimelineView& timeline = timelines_[static_cast<std::size_t>(side)];
    timeline.draw(painter, part, model, &compared);
    if (const auto time = timeline.take_chosen_time()) runs.choose_at(side, *time);
    ImGui::PopID();
  }
}

}  // namespace lockstep::viz
