// Keys, clicks and drags of the habits: statistics by name, rows, notes, bookmarks, copying.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "tests/viz/interactive.h"
#include "viz/data/selection/rank_mention.h"
#include "viz/data/window/copied_text.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// A run of dp 16 × tp 4 whose rank 13 computes for twice as long as the others; they wait for it.
void add_64_ranks(Timeline& timeline) {
  timeline.run().run = "made-up";
  timeline.run().clock = "modelled";
  timeline.run().ranks = 64;
  timeline.run().mesh = {{"dp", 16}, {"tp", 4}};
  const auto add = [&](int rank, int step, Category category, Picoseconds start, Picoseconds end,
                       const char* name) {
    TimelineSpan span{
        .start = start * us, .end = end * us, .name = timeline.intern(name), .step = step};
    span.category = category;
    timeline.add(rank, 0, span);
  };
  for (int rank = 0; rank < 64; ++rank) {
    timeline.rank(rank).name = fmt::format("rank {}", rank);
    timeline.lane(rank, 0).set_name("compute");
    for (int step = 0; step < 3; ++step) {
      const Picoseconds begin = step * 100, done = begin + (rank == 13 ? 80 : 40);
      add(rank, step, Category::forward, begin, done, "forward");
      if (rank != 13) add(rank, step, Category::wait, done, begin + 80, "all_reduce");
      add(rank, step, Category::optimizer, begin + 80, begin + 100, "AdamW");
      add(rank, step, Category::step, begin, begin + 100, "step");
    }
    timeline.end(rank, timeline.rank(rank).spans);
  }
}

void key_with(Interactive& viewer, decltype(keys::c) key, bool ctrl, bool shift) {
  set_modifiers(ctrl, shift);
  viewer.press(key);
  set_modifiers(false, false);
  viewer.frame();
}

float middle_y(const Rect& rect) {
  return (rect.top + rect.bottom) / 2;
}

}  // namespace

TEST_CASE("of 64 ranks, the straggler is named and on the screen, and the others share a row") {
  Interactive viewer{add_64_ranks};
  viewer.frame();
  REQUIRE(viewer.model.straggler());
  CHECK(viewer.model.straggler()->rank == 13);
  CHECK(viewer.model.straggler()->ratio() == doctest::Approx(100.0 / 60));
  const auto& groups = viewer.screen.lanes().groups();
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].alike.size() + groups[1].alike.size() == 62);
  CHECK(viewer.screen.lanes().find(13));
  // Without folding, the rows scroll, and the straggler is pinned.
  viewer.press(keys::i);
  CHECK(viewer.screen.lanes().groups().size() == 64);
  CHECK(viewer.screen.lanes().groups().front().rank->rank == 13);
  for (int i = 0; i < 20; ++i) viewer.wheel(-5);
  CHECK(viewer.screen.lanes().groups().front().rank->rank == 13);
  viewer.press(keys::i);
  CHECK(viewer.screen.lanes().groups().size() == 2);
  // Grouped by tp, each of the four groups shows one rank, and the straggler as well.
  viewer.press(keys::o);
  CHECK(viewer.screen.lanes().choices().axis == Axis::dp);
  viewer.press(keys::o);
  CHECK(viewer.screen.lanes().choices().axis == Axis::tp);
  viewer.frame();
  CHECK(viewer.screen.lanes().groups().size() == 5);
  CHECK(viewer.screen.lanes().headings().size() == 4);
  viewer.press(keys::o);
  CHECK_FALSE(viewer.screen.lanes().choices().axis);
}

TEST_CASE("a click on the straggler's name in the status line goes to its row") {
  Interactive viewer{add_64_ranks};
  viewer.press(keys::i);
  viewer.frame();
  CHECK_FALSE(viewer.model.view.marked_rank);
  for (float y = 840; y < 896 && !viewer.model.view.marked_rank; y += 8)
    for (float x = 1584; x > 1300 && !viewer.model.view.marked_rank; x -= 8) {
      viewer.click(x, y);
      viewer.model.view.panel.reset();
    }
  REQUIRE(viewer.model.view.marked_rank);
  CHECK(*viewer.model.view.marked_rank == 13);
  viewer.press(keys::escape);
  CHECK_FALSE(viewer.model.view.marked_rank);
}

TEST_CASE("going to a folded, hidden or filtered rank shows its row") {
  Interactive viewer{add_64_ranks};
  viewer.frame();
  CHECK_FALSE(viewer.screen.lanes().find(40));
  const auto goes_to_40 = [&] {
    viewer.model.view.wanted_rank = 40;
    viewer.frame();
    viewer.frame();
    return viewer.screen.lanes().find(40) != nullptr;
  };
  CHECK(goes_to_40());
  viewer.screen.lanes().hide(40);
  viewer.frame();
  CHECK_FALSE(viewer.screen.lanes().find(40));
  CHECK(goes_to_40());
  viewer.screen.lanes().choices().filter = RowFilter{"1"};
  viewer.frame();
  CHECK_FALSE(viewer.screen.lanes().find(40));
  CHECK(goes_to_40());
}

TEST_CASE("dragging selects a range, whose names sort and lead to their spans") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const float y = viewer.y_of(1, viewer.action(1, 1, Category::forward, 2).start);
  viewer.drag(300, y, 1400, y);
  viewer.frame();
  REQUIRE(viewer.model.view.range);
  REQUIRE(viewer.model.view.by_name);
  REQUIRE(viewer.model.view.names.complete());
  REQUIRE(viewer.screen.names().rows().size() > 3);
  REQUIRE(viewer.model.view.chosen_kind);

  // A click on a name shows its durations, and nothing else changes.
  const TimeWindow window = viewer.model.viewport.window();
  const SpanKind before = *viewer.model.view.chosen_kind;
  const auto row = viewer.screen.names().rows()[1];
  viewer.click(row.left + 20, middle_y(row));
  const Interval range = viewer.model.view.range->range;
  const SpanKind kind = *viewer.model.view.chosen_kind;
  CHECK_FALSE(kind == before);
  CHECK(viewer.model.selected.kind == Finding::Kind::nothing);
  CHECK(viewer.model.viewport.window() == window);

  // One click leads to the longest span of a name: in its row, or below its histogram.
  const auto longest_of = [&](const SpanKind& wanted) {
    return viewer.model.view.names.find(wanted)->longest;
  };
  REQUIRE(viewer.screen.names().links_to_longest().size() ==
          viewer.screen.names().rows().size() + 1);
  for (const bool below : {true, false}) {
    const auto& links = viewer.screen.names().links_to_longest();
    const Rect link = below ? links.back() : links.front();
    viewer.click((link.left + link.right) / 2, middle_y(link));
    REQUIRE(viewer.model.selected.kind == Finding::Kind::span);
    const SpanKind wanted = below ? kind : before;
    CHECK(kind_of_span(viewer.model.selected.span) == wanted);
    CHECK(viewer.model.selected.span.duration() == longest_of(wanted));
    CHECK(overlaps(viewer.model.selected.span, range));
    CHECK(viewer.model.view.chosen_kind == wanted);
    CHECK(viewer.model.view.range);
  }

  // A bin of the histogram leads to the spans in it.
  const auto& counts = viewer.model.view.durations.counts();
  const auto bin = static_cast<std::size_t>(
      std::ranges::find_if(counts, [](std::int64_t count) { return count > 0; }) - counts.begin());
  const auto [shortest, longest] = viewer.model.view.durations.bounds(bin);
  const Rect column = viewer.screen.names().bins()[bin];
  viewer.click((column.left + column.right) / 2, middle_y(column));
  CHECK(viewer.model.selected.span.duration() >= shortest);
  CHECK(viewer.model.selected.span.duration() <= longest);

  const auto count_heading = viewer.screen.names().headings()[1];
  viewer.click(count_heading.right - 10, middle_y(count_heading));
  CHECK(viewer.screen.names().sorted_by() == NameColumn::count);

  const std::string text = copied_values(viewer.model);
  CHECK(text.starts_with("name\tcount\ttotal"));
  CHECK(std::ranges::count(text, '\n') ==
        static_cast<std::ptrdiff_t>(viewer.model.view.names.totals().size()) + 1);
  viewer.press(keys::escape);
  CHECK_FALSE(viewer.model.view.range);
}

TEST_CASE("Ctrl+C copies the name, and with Shift the values") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  viewer.click_on(1, viewer.action(1, 1, Category::backward, 2));
  key_with(viewer, keys::c, true, false);
  CHECK(std::string{ImGui::GetClipboardText()} == "PP:1B2");
  CHECK_FALSE(viewer.screen.lanes().groups().front().collapsed);  // C alone collapses
  key_with(viewer, keys::c, true, true);
  const std::string values = ImGui::GetClipboardText();
  CHECK(values.starts_with("backward of microbatch 2 on stage 1\n"));
  CHECK(values.find("2.00 ms") != std::string::npos);
}

TEST_CASE("bookmarks are set with Ctrl and visited without") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const TimeWindow before = viewer.model.viewport.window();
  key_with(viewer, digit_key(3), true, false);
  CHECK(viewer.model.notes.bookmarks[2] == before);
  viewer.press(keys::home);
  viewer.frame();
  CHECK_FALSE(viewer.model.viewport.window() == before);
  viewer.type("3");
  viewer.frame();
  CHECK(viewer.model.viewport.window() == before);
  key_with(viewer, digit_key(3), true, false);  // again: removes it
  CHECK_FALSE(viewer.model.notes.bookmarks[2]);
}

TEST_CASE("U writes a note at the cursor's rank and time") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const TimelineSpan action = viewer.action(2, 1, Category::forward, 4);
  const float y = viewer.y_of(2, action.start + action.duration() / 2);
  viewer.press(keys::u);
  viewer.frame();
  viewer.type("late?");
  viewer.press(keys::enter);
  REQUIRE(viewer.model.notes.notes.size() == 1);
  const Note note = viewer.model.notes.notes[0];
  CHECK(note.rank == 2);
  CHECK(note.at > action.start);
  CHECK(note.at < action.end);
  CHECK(note.text == "late?");
  viewer.move(viewer.x_of(note.at) + 3, y);
  viewer.press(keys::u);  // near the note: changes it
  viewer.frame();
  viewer.type("!");
  viewer.press(keys::enter);
  REQUIRE(viewer.model.notes.notes.size() == 1);
  CHECK(viewer.model.notes.notes[0].at == note.at);
}

TEST_CASE("a dragged name moves its row, and a right click opens the menu") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  viewer.frame();
  const auto y_of_rank = [&](int rank) {
    const StripLayout& lanes = viewer.screen.lanes();
    const viz::RankGroup& group = *lanes.find(rank);
    return 172 + group.top + lanes.strips()[group.first].height / 2;
  };
  viewer.drag(60, y_of_rank(3), 60, y_of_rank(1));
  std::vector<int> order;
  for (const viz::RankGroup& group : viewer.screen.lanes().groups())
    order.push_back(group.rank->rank);
  CHECK(order == std::vector{0, 3, 1, 2});

  const TimelineSpan action = viewer.action(2, 1, Category::forward, 4);
  const Picoseconds middle = action.start + action.duration() / 2;
  viewer.move(viewer.x_of(middle), viewer.y_of(2, middle));
  CHECK_FALSE(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel));
  set_button(1, true);
  viewer.frame();
  set_button(1, false);
  viewer.frame();
  CHECK(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel));
}

TEST_CASE("a search for an unknown key says so and lists the keys") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  viewer.model.view.set_query("foo:3", viewer.model.timeline);
  CHECK(viewer.model.view.search_trouble ==
        "unknown key foo; the keys are rank, step, stage, microbatch, layer and peer");
  viewer.model.view.set_query("rank:x", viewer.model.timeline);
  CHECK(viewer.model.view.search_trouble == "rank needs a number, such as rank:0");
  for (const char* fine : {"rank:1", "F3", "send", "PP:0F1", "pp:1b", "a::b", ":", ""}) {
    viewer.model.view.set_query(fine, viewer.model.timeline);
    CHECK(viewer.model.view.search_trouble.empty());
  }
}

TEST_CASE("Shift+F filters the rows as the user types, and Escape ends the filter") {
  Interactive viewer{add_64_ranks};
  viewer.press(keys::i);
  viewer.frame();
  REQUIRE(viewer.screen.lanes().groups().size() == 64);
  key_with(viewer, keys::f, false, true);
  viewer.type("tp1 dp:2");
  viewer.frame();
  CHECK(viewer.screen.lanes().choices().filter_text == "tp1 dp:2");
  REQUIRE(viewer.screen.lanes().groups().size() == 1);
  CHECK(viewer.screen.lanes().groups()[0].rank->rank == 9);
  CHECK(viewer.screen.lanes().filtered() == 63);
  viewer.press(keys::escape);
  viewer.frame();
  CHECK(viewer.screen.lanes().groups().size() == 64);
}

TEST_CASE("mentions of ranks in a sentence") {
  const auto ranks = [](std::string_view text) {
    std::vector<int> found;
    std::size_t at = 0;
    for (const RankMention& part : rank_mentions(text)) {
      CHECK(part.begin == at);  // the parts cover the text
      at += part.size;
      if (part.rank >= 0) found.push_back(part.rank);
    }
    CHECK(at == text.size());
    return found;
  };
  CHECK(ranks("Rank 3 waits for rank 12, and rank 0.") == std::vector{3, 12, 0});
  CHECK(ranks("frank 3, ranks 1 and 2, rank x, rank -1, rank").empty());
  CHECK(ranks("").empty());
  CHECK(ranks("rank 7") == std::vector{7});
}
