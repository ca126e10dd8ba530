// The ranks that store each slice of a tensor: compared with examples worked out by hand and with
// plans, and in a context without a window.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/viz/interactive.h"
#include "viz/data/step/shards.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

using Sentences = std::vector<std::string>;

/// Returns sentences as one text, so that a failed check prints them.
std::string lines(const Sentences& sentences) {
  return fmt::format("{}", fmt::join(sentences, "\n"));
}

/// Columns of a matrix of 8 x 32, in two parts.
Slice half_of_columns(int part) {
  const DimensionCut cut{.dimension = 1, .part = part, .parts = 2};
  return Slice{Shape{8, 32}, std::span{&cut, 1}};
}

/// Four ranks with two blocks. Ranks 0 and 2 store the left columns of "h.*.w", ranks 1 and 3 the
/// right ones; rank 0 keeps optimizer state for the upper half of its part, rank 2 for the lower
/// half, and so on. All ranks store "ln.bias" in full, without its gradient.
void tell_shards(Timeline& timeline) {
  for (int rank = 0; rank < 4; ++rank) {
    StoredSlices stored;
    const Slice part = half_of_columns(rank % 2);
    for (const int block : {0, 1}) {
      const std::string name = "h." + std::to_string(block) + ".w";
      stored.add(name, part, StoredKind::parameters, 4);
      stored.add(name, part, StoredKind::gradients, 4);
      stored.add(name, part.range(rank / 2 * 64, 64), StoredKind::optimizer, 8);
    }
    stored.add("ln.bias", Slice{Shape{500}}, StoredKind::parameters, 4);
    timeline.rank(rank).slices = stored.json();
  }
}

/// Records the time during which rank 0 holds all of block 0.
void tell_whole(Timeline& timeline) {
  const NameId name = timeline.intern(whole_parameters_counter);
  const auto tell = [&](Picoseconds at, const char* module, double bytes) {
    timeline.rank(0).counters.push_back(
        {.at = at * us, .name = name, .step = 0, .series = {{timeline.intern(module), bytes}}});
  };
  tell(30, "h.0", 2048);
  tell(50, "h.0", 0);
  tell(60, "h.1", 0);  // begins before the trace
  tell(70, "h.0", 2048);
  tell(80, "h.0", 0);
  tell(95, "ln.bias", 2000);  // to the step's end
}

/// A step of one rank of 100 µs, with 1000 bytes of parameters and, from 20 to 50 µs, 3000.
void gather_parameters(Timeline& timeline) {
  const auto memory = [&](Picoseconds at, std::int64_t bytes) {
    MemorySample point{.at = at * us};
    point.bytes[0] = bytes;
    timeline.sample_memory(0, point);
  };
  memory(-5, 1000);
  memory(20, 3000);
  memory(50, 1000);
  TimelineSpan span{.start = 0, .end = 100 * us, .step = 0};
  span.category = Category::step;
  timeline.add(0, 0, span);
  span = {.start = 20 * us, .end = 30 * us, .step = 0};
  span.name = timeline.intern("all_gather");
  span.category = Category::communication;
  timeline.add(0, 1, span);
  span.start = 25 * us;
  span.end = 35 * us;
  timeline.add(0, 2, span);
  timeline.settle();
}

}  // namespace

TEST_CASE("who stores which part, worked by hand") {
  Timeline timeline;
  tell_shards(timeline);
  const Shards all{timeline};
  CHECK(all.tensors() == Sentences{"h.0.w", "h.1.w", "ln.bias"});
  CHECK(all.first_choice() == 0);
  CHECK(all.omitted() == 0);
  const TensorShards shards = all.shards_of("h.1.w");
  CHECK(shards.whole == Shape{8, 32});
  REQUIRE(shards.layouts.size() == 2);
  const ShardLayout& values = shards.layouts[0];
  CHECK(kinds_words(values) == "parameters and gradients");
  REQUIRE(values.holders.size() == 2);
  CHECK(values.holders[0] == Holders{{0, 2}, {Box{.begin = {0, 0}, .extent = {8, 16}}}, 128});
  CHECK(values.holders[1] == Holders{{1, 3}, {Box{.begin = {0, 16}, .extent = {8, 16}}}, 128});
  CHECK(values.copies(shards.whole) == 2);
  CHECK(values.bytes(values.holders[0]) == 128 * 8);
  const ShardLayout& state = shards.layouts[1];
  CHECK(kinds_words(state) == "optimizer state");
  REQUIRE(state.holders.size() == 4);
  CHECK(state.holders[2] == Holders{{2}, {Box{.begin = {4, 0}, .extent = {4, 16}}}, 64});
  CHECK(state.copies(shards.whole) == 1);
  CHECK(lines(shard_sentences(shards)) ==
        lines(Sentences{"8 × 32, 256 elements",
                        "parameters and gradients: in 2 parts of 1.02 kB, 2 copies in the run",
                        "optimizer state: in 4 parts of 512 B, one copy in the run"}));
  CHECK(lines(holders_words(shards, values, values.holders[0])) ==
        lines(Sentences{
            "ranks 0, 2 store the same",
            "parameters and gradients: 128 elements, 50.0 % of the tensor, 1.02 kB each",
            "[0:8, 0:16]", "parameters: 4 bytes per element", "gradients: 4 bytes per element"}));
  CHECK(lines(shard_sentences(all.shards_of("ln.bias"))) ==
        lines(Sentences{"500, 500 elements",
                        "parameters: whole on ranks 0-3, 2.00 kB each, 4 copies in the run",
                        "gradients: not stored between steps",
                        "optimizer state: not stored between steps"}));
  CHECK(all.shards_of("unknown").layouts.empty());
}

TEST_CASE("flat ranges of a column slice cover the tensor once") {
  // Each of 2 x 3 ranks stores a third of the elements of its columns; 128 is not a multiple of 3.
  Timeline timeline;
  for (int rank = 0; rank < 6; ++rank) {
    const std::int64_t third = rank / 2, first = third * 128 / 3;
    StoredSlices stored;
    stored.add("w", half_of_columns(rank % 2).range(first, (third + 1) * 128 / 3 - first),
               StoredKind::parameters, 2);
    timeline.rank(rank).slices = stored.json();
  }
  const TensorShards shards = Shards{timeline}.shards_of("w");
  REQUIRE(shards.layouts.size() == 1);
  const ShardLayout& layout = shards.layouts[0];
  CHECK(layout.copies(shards.whole) == 1);
  REQUIRE(layout.holders.size() == 6);
  std::vector<Box> boxes;
  for (const Holders& each : layout.holders)
    boxes.insert(boxes.end(), each.boxes.begin(), each.boxes.end());
  CHECK(cover_once(boxes, shards.whole));
  CHECK(layout.holders[0].elements == 42);
  CHECK(layout.holders[5].elements == 43);
  CHECK(layout.bytes(layout.holders[5]) == 86);
  CHECK(shard_sentences(shards)[1] ==
        "parameters: in 6 parts of 84 B to 86 B, one copy in the run");
}

TEST_CASE("a box of a tensor as parts of its matrix") {
  // Heads 2 and 3 of a (4, 4, 5) tensor in full are one part. Only rows 1 and 2 of each head are
  // two parts.
  const Shape whole{4, 4, 5};
  CHECK(in_matrix({.begin = {2, 0, 0}, .extent = Shape{2, 4, 5}}, whole, 9) ==
        std::vector<MatrixBox>{{8, 0, 8, 5}});
  CHECK(in_matrix({.begin = {2, 1, 3}, .extent = Shape{2, 2, 1}}, whole, 9) ==
        std::vector<MatrixBox>{{9, 3, 2, 1}, {13, 3, 2, 1}});
  CHECK(in_matrix({.begin = {3}, .extent = Shape{4}}, Shape{9}, 9) ==
        std::vector<MatrixBox>{{0, 3, 1, 4}});
  CHECK(in_matrix({.begin = {0, 0, 0}, .extent = Shape{4, 2, 5}}, whole, 2).size() <= 4);
}

TEST_CASE("damaged lists of slices give no impossible sizes, and take no time") {
  // Each of 2,000 entries stands for some 50,000 names, which the other entries name, too.
  std::string entries;
  for (int i = 0; i < 2000; ++i)
    entries += fmt::format(
        R"({}{{"name":"h.*.w","blocks":[[0,{}]],"shape":[1099511627776],"boxes":[[{},1099511600000]],"bytes":{{"parameters":1024}}}})",
        i > 0 ? "," : "", 50'000 + i, i);
  Timeline timeline;
  for (const int rank : {0, 1})
    timeline.rank(rank).slices =
        R"({"tensors":[)" + entries + R"(],"omitted":9223372036854775807})";
  const Shards shards{timeline};
  CHECK(shards.omitted() == std::int64_t{2} << 40);
  const TensorShards shown = shards.shards_of("h.3.w");
  REQUIRE(shown.layouts.size() == 1);
  const ShardLayout& layout = shown.layouts.front();
  CHECK(layout.holders.front().elements == shown.whole.elements());
  CHECK(layout.bytes(layout.holders.front()) == shown.whole.elements() * 1024);
}

TEST_CASE("a rank's memory for parameters through a step") {
  Timeline timeline;
  tell_shards(timeline);
  gather_parameters(timeline);
  const auto memory = parameter_memory(timeline, 0, 0);
  REQUIRE(memory);
  CHECK(memory->window == Interval{0, 100 * us});
  using Samples = std::vector<ParameterMemory::Sample>;
  CHECK(memory->samples == Samples{{0, 1000}, {20 * us, 3000}, {50 * us, 1000}});
  CHECK(memory->gathers == Intervals{{20 * us, 35 * us}});
  CHECK(memory->at(49 * us) == 3000);
  CHECK(memory->at(50 * us) == 1000);
  CHECK(memory->most == memory_peak(timeline, *timeline.find_rank(0), 0)->bytes[0]);
  const TensorShards shards = Shards{timeline}.shards_of("h.0.w");
  const std::string range =
      "Rank 0's parameters take 1.00 kB, and up to 3.00 kB with gathered ones.";
  CHECK(lines(memory_sentences(*memory, shards)) == range);
  CHECK(
      moment_sentence(*memory, shards, 30 * us, 0) ==
      "At 30.0 µs, rank 0 holds 3.00 kB, 2.00 kB of it gathered from other ranks; an all-gather is "
      "in flight.");
  CHECK(moment_sentence(*memory, shards, 60 * us, 10 * us) ==
        "At 50.0 µs, rank 0 holds 1.00 kB, only its own slices.");
  CHECK(moment_sentence(*memory, shards, 101 * us, 0).empty());
  CHECK_FALSE(parameter_memory(timeline, 1, 0));
  CHECK_FALSE(parameter_memory(timeline, 0, 1));

  // If the trace contains them, also shows which tensors are held in full, and when.
  CHECK(memory->whole.empty());
  tell_whole(timeline);
  const auto told = parameter_memory(timeline, 0, 0);
  REQUIRE(told);
  CHECK(told->whole_times("h.0.w") == Intervals{{30 * us, 50 * us}, {70 * us, 80 * us}});
  CHECK(told->whole_times("h.1.w").empty());
  CHECK(told->whole_times("h.01.w").empty());
  CHECK(told->whole_times("ln.bias") == Intervals{{95 * us, 100 * us}});
  CHECK(told->is_whole("h.0.w", 30 * us));
  CHECK_FALSE(told->is_whole("h.0.w", 50 * us));
  CHECK(lines(memory_sentences(*told, shards)) ==
        range + "\nIt holds all of this tensor 2 times in the step, for 30.0 µs in total.");
  CHECK(moment_sentence(*told, shards, 40 * us, 0) ==
        "At 40.0 µs, rank 0 holds 3.00 kB, 2.00 kB of it gathered from other ranks, all of this "
        "tensor among it.");
  CHECK(moment_sentence(*told, shards, 25 * us, 0) ==
        "At 25.0 µs, rank 0 holds 3.00 kB, 2.00 kB of it gathered from other ranks, but not this "
        "tensor; an all-gather is in flight.");

  // Without a change of memory, no gather in the step counts as one of parameters.
  ParameterMemory flat = *memory;
  flat.most = flat.least;
  CHECK(lines(memory_sentences(flat, shards)) ==
        "Rank 0's parameters take 1.00 kB throughout the step: no gather makes this tensor whole.");
  CHECK(lines(memory_sentences(flat, Shards{timeline}.shards_of("ln.bias"))) ==
        "Rank 0's parameters take 1.00 kB throughout the step: this tensor is always stored in "
        "full.");
}

TEST_CASE("the shards panel shows when a gather makes the tensor whole") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  viewer.model.timeline.clear();
  tell_shards(viewer.model.timeline);
  tell_whole(viewer.model.timeline);
  gather_parameters(viewer.model.timeline);
  for (int rank = 0; rank < 4; ++rank) viewer.model.timeline.end(rank, 1);
  viewer.model.viewport.fit(viewer.model.timeline);
  viewer.model.view.panel = Panel::shards;
  viewer.frame();
  viewer.frame();
  const ShardsView& view = viewer.screen.shards();
  REQUIRE(view.memory());
  CHECK(view.shown().tensor == "h.0.w");
  CHECK_FALSE(view.shows_whole());
  const Picoseconds origin = viewer.model.origin;
  for (const auto& [time, whole] : {std::pair{25, false}, {31, true}, {55, false}, {75, true}}) {
    viewer.move(viewer.x_of(time * us), viewer.y_of(0, 0));
    CHECK(viewer.model.cursor_time.value_or(-1) / us - (time - origin / us) <= 1);
    CHECK(view.shows_whole() == whole);
    CHECK(view.explanation()[1].starts_with("At "));
  }
}

TEST_CASE("the shards panel explains the part under the cursor") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  CHECK(std::ranges::count(viewer.model.panels.choices, Panel::shards) == 0);
  tell_shards(viewer.model.timeline);
  viewer.model.view.panel = Panel::shards;
  viewer.frame();
  const ShardsView& view = viewer.screen.shards();
  CHECK(view.shown().tensor == "h.0.w");
  REQUIRE(view.memory());
  REQUIRE_FALSE(view.explanation().empty());
  CHECK(view.explanation().front() == "8 × 32, 256 elements");
  const auto right = view.point_in(0, 1);
  REQUIRE(right);
  viewer.move(right->x, right->y);
  CHECK(view.explanation().front() == "ranks 1, 3 store the same");
  const auto lower = view.point_in(1, 2);
  REQUIRE(lower);
  viewer.move(lower->x, lower->y);
  CHECK(view.explanation().front() == "rank 2");
  // The wheel moves through the tensors, and stops at both ends.
  viewer.wheel(-1);
  CHECK(view.shown().tensor == "h.1.w");
  viewer.wheel(-1);
  viewer.wheel(-1);
  CHECK(view.shown().tensor == "ln.bias");
  viewer.wheel(1);
  CHECK(view.shown().tensor == "h.1.w");
  // The list opens at a click, and a click on a name chooses it.
  const ImVec2 list = view.list();
  viewer.click(list.x, list.y);
  viewer.click(list.x, list.y + 24);
  CHECK(view.shown().tensor == "h.0.w");
  // If ranks report more slices, the choice is kept.
  viewer.model.timeline.rank(0).slices = viewer.model.timeline.rank(1).slices + " ";
  viewer.move(5, 5);
  CHECK(view.shown().tensor == "h.0.w");
  CHECK(view.shown().layouts[0].holders[0].ranks == std::vector{0, 1, 3});
  // The memory shown is that of the rank under the cursor.
  const TimelineSpan& action = viewer.action(2, 1, Category::forward, 0);
  const float y = viewer.y_of(2, action.start);
  viewer.move(viewer.x_of(action.start) + 2, y);
  CHECK(viewer.model.cursor_time);
  REQUIRE(view.memory());
  CHECK(view.memory()->rank == 2);
}
