// Keys, clicks and drags on the whole screen, without a window: each changes a named state.
#include <doctest/doctest.h>

#include <set>

#include "tests/viz/interactive.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// Below the bar, the toolbar, the overview, the axis and the steps.
constexpr float lanes_top = 50 + 34 + 8 + 34 + 2 + 24 + 18 + 2;

}  // namespace

TEST_CASE("P and its button show the critical path") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  CHECK_FALSE(viewer.model.view.critical_path);
  viewer.press(keys::p);
  CHECK(viewer.model.view.critical_path);
  viewer.press(keys::p);
  CHECK_FALSE(viewer.model.view.critical_path);
  viewer.click(40, 50 + 17);  // the first button
  CHECK(viewer.model.view.critical_path);
}

TEST_CASE("a click on an action selects it and its chain, and Escape clears both") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const TimelineSpan forward = viewer.action(1, 1, Category::forward, 2);
  viewer.click_on(1, forward);
  REQUIRE(viewer.model.selected.kind == Finding::Kind::span);
  CHECK(viewer.model.selected.span.start == forward.start);
  REQUIRE(viewer.model.chain.chain);
  CHECK(viewer.model.chain.chain->before.size() == 1);     // F2 on stage 0
  CHECK(viewer.model.chain.chain->after.size() == 2 + 4);  // F2 on 2 and 3, B2 on 3 to 0
  CHECK(viewer.model.chain.has(3, viewer.action(3, 1, Category::backward, 2)));
  CHECK_FALSE(viewer.model.chain.has(3, viewer.action(3, 1, Category::backward, 3)));
  viewer.press(keys::escape);
  CHECK(viewer.model.selected.kind == Finding::Kind::nothing);
  CHECK_FALSE(viewer.model.chain.chain);
}

TEST_CASE("a drag selects a range and its statistics, F focuses on it, M marks it") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const StepWindow step = viewer.model.timeline.steps()[1];
  const float y = viewer.y_of(1, (step.start + step.end) / 2);
  const float from = viewer.x_of(step.start), to = viewer.x_of(step.start + 5'000'000'000);
  viewer.drag(to, y, from, y);
  REQUIRE(viewer.model.view.range);
  const Interval range = viewer.model.view.range->range;
  const double pixel = viewer.model.viewport.window().width() / 1400;
  CHECK(static_cast<double>(range.start) ==
        doctest::Approx(static_cast<double>(step.start)).epsilon(pixel / 1e10));
  CHECK(static_cast<double>(range.end - range.start) == doctest::Approx(5e9).epsilon(0.02));
  Picoseconds compute = 0;
  for (const TimelineSpan& span :
       viewer.model.timeline.ranks()[0]->compute()->rows(Band::action)[0])
    if (span.category == Category::forward || span.category == Category::backward)
      compute += std::max<Picoseconds>(
          std::min(span.end, range.end) - std::max(span.start, range.start), 0);
  CHECK(viewer.model.view.range->ranks[0].sums.compute == compute);
  CHECK(viewer.model.selected.kind == Finding::Kind::nothing);
  viewer.press(keys::m);
  REQUIRE(viewer.model.view.marks.size() == 1);
  CHECK(viewer.model.view.marks[0] == range);
  viewer.press(keys::f);
  CHECK(viewer.model.viewport.window().width() == doctest::Approx(1.5 * 5e9).epsilon(0.02));
  viewer.press(keys::escape);
  CHECK_FALSE(viewer.model.view.range);
  CHECK(viewer.model.view.marks.size() == 1);
  viewer.press(keys::f);  // nothing is selected: the whole run
  CHECK(viewer.model.viewport.window().begin <= 0);
  CHECK(viewer.model.viewport.window().end >= static_cast<double>(viewer.model.timeline.end()));
}

TEST_CASE("a click on a step selects the step of the rank on which it takes longest") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const Timeline& timeline = viewer.model.timeline;
  const StepAccount account = step_account(timeline, timeline.steps()[1].step);
  const RankAccount& longest = account.ranks[0];
  REQUIRE(longest.time.end - longest.time.start == account.length);
  const float x = viewer.x_of((longest.time.start + longest.time.end) / 2);
  for (float y = 90; y < 180 && !viewer.model.view.range; y += 4) viewer.click(x, y);
  REQUIRE(viewer.model.view.range);
  const RangeStatistics& range = *viewer.model.view.range;
  CHECK(range.range == longest.time);
  CHECK(range.axes == account.axes);
  CHECK(range.ranks[0].sums == longest.sums);
  for (const RankStatistics& rank : range.ranks)
    CHECK(rank.sums.total() + rank.in_no_step == range.length());
}

TEST_CASE("a click on a step locks the cards to it until the next click or the button") {
  Interactive viewer{sample_1f1b(4, 8, 6)};
  Model& model = viewer.model;
  model.viewport.fit_steps(model.timeline, 1, 4);
  model.viewport.advance(model.timeline, 0, true);
  const StepWindow locked = model.timeline.steps()[2];
  const auto click = [&] {
    viewer.click(viewer.x_of((locked.start + locked.end) / 2), lanes_top - 11);
  };
  click();
  CHECK(model.view.locked_step == 2);
  // The cards stay with the step, wherever the window is.
  model.viewport.fit_steps(model.timeline, 5, 5);
  model.viewport.advance(model.timeline, 0, true);
  viewer.frame();
  REQUIRE(model.described);
  CHECK(model.described->step == 2);
  viewer.press(keys::escape);  // clears the range, not the lock
  CHECK(model.view.locked_step == 2);
  model.viewport.fit_steps(model.timeline, 1, 4);
  model.viewport.advance(model.timeline, 0, true);
  click();
  CHECK_FALSE(model.view.locked_step);
  model.viewport.fit_steps(model.timeline, 5, 5);
  model.viewport.advance(model.timeline, 0, true);
  viewer.frame();
  REQUIRE(model.described);
  CHECK(model.described->step == 5);
}

TEST_CASE("the wheel scrolls the memory panel to all ranks") {
  Interactive viewer{sample_1f1b(32, 32, 2)};
  const MemoryView& memory = viewer.screen.memory();
  REQUIRE(memory.shown() > 3);
  REQUIRE(memory.shown() < 32);
  viewer.move(900, 800);
  std::set<std::size_t> seen;
  for (int i = 0; i < 40; ++i) {
    for (std::size_t rank = 0; rank < memory.shown(); ++rank) seen.insert(memory.first() + rank);
    viewer.wheel(-1);
  }
  CHECK(seen.size() == 32);
  CHECK(memory.first() == 32 - memory.shown());
  viewer.wheel(1);
  CHECK(memory.first() < 32 - memory.shown());
}

TEST_CASE("the wheel scrolls, with Ctrl it zooms at the cursor, with Shift it pans") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const TimeWindow before = viewer.model.viewport.window();
  viewer.move(700, 300);
  viewer.wheel(2);
  CHECK(viewer.model.viewport.window() == before);
  const double share = (700 - static_cast<double>(TimelineView::names_width)) /
                       (1600 - static_cast<double>(TimelineView::names_width) - 12);
  const double under = before.begin + share * before.width();
  viewer.wheel(2, true);
  const TimeWindow zoomed = viewer.model.viewport.window();
  CHECK(zoomed.width() == doctest::Approx(0.85 * 0.85 * before.width()));
  CHECK(zoomed.begin + share * zoomed.width() == doctest::Approx(under));
  viewer.wheel(-1, false, true);
  const TimeWindow panned = viewer.model.viewport.window();
  CHECK(panned.width() == doctest::Approx(zoomed.width()));
  CHECK(panned.begin > zoomed.begin);
}

TEST_CASE("panning pauses following, and a visible button resumes it") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  viewer.model.source.live = true;
  viewer.model.timeline.run().ranks = 5;  // one rank has not connected, so the run goes on
  viewer.model.viewport.follow(true);
  viewer.frame();
  viewer.press(keys::d);
  CHECK_FALSE(viewer.model.viewport.following());
  viewer.click(1440, 50 + 17);  // to the left of "?  Keys"
  CHECK(viewer.model.viewport.following());
  viewer.move(700, 300);
  viewer.wheel(1, true);
  CHECK_FALSE(viewer.model.viewport.following());
  viewer.press(keys::l);
  CHECK(viewer.model.viewport.following());
}

TEST_CASE("only a pipeline has buttons for the critical path and the prediction") {
  {
    Interactive pipeline{sample_1f1b(4, 8, 3)};
    pipeline.click(40, 50 + 17);
    CHECK(pipeline.model.view.critical_path);
  }
  Interactive alone{sample_1f1b(1, 8, 3)};
  alone.click(40, 50 + 17);  // "Space  Play" comes first
  CHECK_FALSE(alone.model.view.critical_path);
  CHECK(alone.model.playback.active());
}

TEST_CASE("spans that overlap on one lane get rows of their own, and the cursor finds each") {
  Interactive viewer{sample_1f1b(1, 1, 1)};
  Timeline timeline;
  for (int i = 0; i < 4; ++i) {
    TimelineSpan span{.start = i * ms, .end = (10 + i) * ms, .step = 0};
    span.category = Category::communication;
    timeline.add(0, 1, span);
  }
  timeline.settle();
  viewer.model.timeline = std::move(timeline);
  viewer.model.viewport.fit(viewer.model.timeline);
  viewer.frame();
  std::set<Picoseconds> found;
  for (float y = 100; y < 640; y += 1) {
    viewer.move(viewer.x_of(5 * ms), y);
    if (viewer.model.hovered.kind == Finding::Kind::span)
      found.insert(viewer.model.hovered.span.start);
  }
  CHECK(found == std::set<Picoseconds>{0, 1 * ms, 2 * ms, 3 * ms});
}

TEST_CASE("arrow keys go from span to span, and to other lanes") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const TimelineSpan first = viewer.action(1, 1, Category::forward, 0);
  viewer.click_on(1, first);
  const auto selected = [&] { return viewer.model.selected.span; };
  viewer.press(keys::right);
  CHECK(selected().start == viewer.action(1, 1, Category::forward, 1).start);
  viewer.press(keys::left);
  CHECK(selected().start == first.start);
  viewer.press(keys::down);
  CHECK(viewer.model.selected.rank->rank == 1);
  CHECK_FALSE(viewer.model.selected.lane->is_compute());
  for (int i = 0; i < 20; ++i) viewer.press(keys::down);
  CHECK(viewer.model.selected.rank->rank == 3);
  for (int i = 0; i < 20; ++i) viewer.press(keys::up);
  CHECK(viewer.model.selected.rank->rank == 0);
  // The window follows the selection.
  for (int i = 0; i < 40; ++i) viewer.press(keys::right);
  CHECK(selected().step == 2);
  CHECK(static_cast<double>(selected().start) >= viewer.model.viewport.window().begin);
  CHECK(static_cast<double>(selected().end) <= viewer.model.viewport.window().end);
}

TEST_CASE("/ searches, N goes to the next match, ? lists the keys, Escape closes both") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  ViewState& view = viewer.model.view;
  viewer.type("/");
  CHECK(view.searching);
  viewer.frame();
  viewer.type("F5 rank:2");
  CHECK(view.query == "F5 rank:2");
  CHECK(view.found == 3);
  // Letters typed into the box are not keys.
  CHECK_FALSE(view.critical_path);
  viewer.press(keys::escape);
  CHECK_FALSE(view.searching);
  CHECK(view.search.empty());
  view.set_query("F5 rank:2", viewer.model.timeline);
  viewer.press(keys::n);
  CHECK(viewer.model.selected.span.start == viewer.action(2, 1, Category::forward, 5).start);
  viewer.press(keys::n);
  CHECK(viewer.model.selected.span.step == 2);
  viewer.type("?");
  CHECK(view.help);
  viewer.press(keys::escape);
  CHECK_FALSE(view.help);
  CHECK(viewer.model.selected.kind == Finding::Kind::span);  // Escape closed only the list
}

TEST_CASE("page keys go from step to step") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  viewer.press(keys::page_down);
  CHECK(viewer.model.viewport.step_in_view(viewer.model.timeline) == 2);
  viewer.press(keys::page_up);
  viewer.press(keys::page_up);
  CHECK(viewer.model.viewport.step_in_view(viewer.model.timeline) == 0);
}

TEST_CASE("a tooltip covers no part of the row that it explains") {
  for (const float height : {900.0f, 480.0f}) {
    Interactive viewer{sample_1f1b(4, 8, 3)};
    ImGui::GetIO().DisplaySize.y = height;
    viewer.frame();
    for (const int rank : {0, 3}) {
      const TimelineSpan forward = viewer.action(rank, 1, Category::forward, 2);
      REQUIRE(viewer.y_of(rank, (forward.start + forward.end) / 2) > 0);
      viewer.frame();
      // The tooltip is the only object drawn in front.
      const ImDrawList& front = *ImGui::GetForegroundDrawList();
      REQUIRE(front.VtxBuffer.Size > 0);
      float top = 1e9f, bottom = 0;
      for (const ImDrawVert& vertex : front.VtxBuffer) {
        top = std::min(top, vertex.pos.y);
        bottom = std::max(bottom, vertex.pos.y);
      }
      CAPTURE(rank);
      CAPTURE(height);
      CHECK((top >= viewer.model.hovered_bottom || bottom <= viewer.model.hovered_top));
    }
  }
}

TEST_CASE("a rank's lanes are collapsed, pinned and hidden by its name") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const StripLayout& lanes = viewer.screen.lanes();
  const auto y_of = [&](int rank) {
    const viz::RankGroup& group = *lanes.find(rank);
    return lanes_top + group.top + lanes.strips()[group.first].height / 2;
  };
  const std::size_t all = lanes.strips().size();
  viewer.click(60, y_of(1));
  CHECK(lanes.find(1)->collapsed);
  CHECK(lanes.strips().size() < all);
  viewer.click(60, y_of(1));
  CHECK_FALSE(lanes.find(1)->collapsed);

  viewer.click(TimelineView::names_width - 20, y_of(1));  // "hide", at the right end
  CHECK(lanes.hidden() == std::set<int>{1});
  CHECK(lanes.find(1) == nullptr);
  CHECK(lanes.groups().size() == 3);
  viewer.click(120, 50 + 34 + 8 + 34 + 2 + 24 + 9);  // "1 hidden: show"
  CHECK(lanes.hidden().empty());
  CHECK(lanes.groups().size() == 4);

  viewer.move(400, y_of(3));
  viewer.press(keys::t);
  CHECK(lanes.is_pinned(3));
  CHECK(lanes.groups().front().rank->rank == 3);
  viewer.press(keys::h);  // rank 3 is no longer under the cursor
  CHECK(lanes.hidden().size() == 1);
  CHECK(lanes.is_pinned(3));
  viewer.press(keys::c);
  CHECK(lanes.find(3)->collapsed);
}

TEST_CASE("pinned ranks stay while the others scroll") {
  Interactive viewer{sample_1f1b(12, 16, 3)};
  viewer.press(keys::c);  // expand all, so that they do not fit
  const StripLayout& lanes = viewer.screen.lanes();
  const TimelineSpan last = viewer.action(11, 1, Category::backward, 3);
  const auto rank_at = [&](float y) {
    viewer.move(viewer.x_of((last.start + last.end) / 2), y);
    return viewer.model.hovered.rank ? viewer.model.hovered.rank->rank : -1;
  };
  const float top = lanes_top + 12;
  CHECK(rank_at(top) == 0);
  viewer.wheel(-3);
  CHECK(rank_at(top) != 0);
  viewer.wheel(50);
  CHECK(rank_at(top) == 0);
  viewer.press(keys::t);  // pins rank 0
  CHECK(lanes.pinned_height() > 0);
  viewer.wheel(-3);
  CHECK(rank_at(top) == 0);
  viewer.wheel(-1000);
  CHECK(rank_at(top) == 0);
}

TEST_CASE("drawing after the lanes is not clipped to them") {
  // A clip rectangle that is not removed after drawing the lanes would hide the cards and the
  // legend.
  const Interactive viewer{sample_1f1b(4, 8, 3)};
  const ImDrawData& data = *ImGui::GetDrawData();
  int below = 0;
  for (int i = 0; i < data.CmdListsCount; ++i) {
    const ImDrawList& list = *data.CmdLists[i];
    for (const ImDrawCmd& command : list.CmdBuffer) {
      if (command.ClipRect.w < 900) continue;
      for (unsigned at = 0; at < command.ElemCount; ++at) {
        const ImDrawIdx index = list.IdxBuffer[static_cast<int>(command.IdxOffset + at)];
        below += list.VtxBuffer[static_cast<int>(command.VtxOffset + index)].pos.y > 870;
      }
    }
  }
  CHECK(below > 100);
}
