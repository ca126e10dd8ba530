// The timeline's rows: identical ranks share a row, and no rank that differs is hidden.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "tests/viz/sample_run.h"
#include "viz/data/layout/alike_ranks.h"
#include "viz/data/layout/row_plan.h"
#include "viz/data/layout/strip_layout.h"
#include "viz/data/step/straggler.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

constexpr std::chrono::hours patience{1};

/// A run of several classes of ranks with the same random spans, within `noise` of each other.
struct RandomRanks {
  int ranks = 0, classes = 0;
  std::vector<std::vector<std::vector<TimelineSpan>>> spans;  ///< by rank and lane

  RandomRanks(std::mt19937& random, double noise, Timeline& timeline)
      : ranks(3 + static_cast<int>(random() % 12)), classes(1 + static_cast<int>(random() % 3)) {
    std::vector<std::vector<std::vector<TimelineSpan>>> models;
    for (int i = 0; i < classes; ++i) {
      auto& lanes = models.emplace_back(2);
      for (auto& lane : lanes) {
        Picoseconds at = 0;
        for (int step = 0; step < 3; ++step) {
          at = step * 100'000;
          for (int k = 0; k < 8; ++k) {
            TimelineSpan span{.start = at + static_cast<Picoseconds>(random() % 500)};
            span.end = span.start + 2000 + static_cast<Picoseconds>(random() % 8000);
            span.name = timeline.intern(fmt::format("{} {}", i, random() % 4));
            span.category = &lane == &lanes[0] ? Category::forward : Category::communication;
            span.step = step;
            at = span.end + 200;
            lane.push_back(span);
          }
        }
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      spans.push_back(models[static_cast<std::size_t>(rank % classes)]);
      for (auto& lane : spans.back())
        for (TimelineSpan& span : lane) {
          std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
          span.end = span.start + static_cast<Picoseconds>(static_cast<double>(span.duration()) *
                                                           factor(random));
        }
    }
  }
  void add_to(Timeline& timeline) const {
    timeline.run().ranks = ranks;
    for (int rank = 0; rank < ranks; ++rank)
      for (int lane = 0; lane < 2; ++lane)
        for (const TimelineSpan& span :
             spans[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)])
          timeline.add(rank, lane, span);
    timeline.settle();
  }
};

/// Compares two ranks as Likeness describes it, without RankComparison.
bool are_identical(const Timeline& timeline, const RankTimeline& a, const RankTimeline& b,
                   const Likeness& likeness) {
  if (a.lanes.size() != b.lanes.size()) return false;
  for (std::size_t lane = 0; lane < a.lanes.size(); ++lane)
    for (const Band band : {Band::action, Band::kernel}) {
      std::vector<TimelineSpan> of_a, of_b;
      for (const SpanRow& row : a.lanes[lane]->rows(band))
        of_a.insert(of_a.end(), row.begin(), row.end());
      for (const SpanRow& row : b.lanes[lane]->rows(band))
        of_b.insert(of_b.end(), row.begin(), row.end());
      if (of_a.size() != of_b.size()) return false;
      for (std::size_t i = 0; i < of_a.size(); ++i) {
        const StepWindow* step = timeline.find_step(of_a[i].step);
        const auto length = static_cast<double>(step->end - step->start);
        const auto da = static_cast<double>(of_a[i].duration());
        const auto db = static_cast<double>(of_b[i].duration());
        const auto apart = std::abs(static_cast<double>(of_a[i].start - of_b[i].start));
        if (of_a[i].name != of_b[i].name || of_a[i].category != of_b[i].category ||
            of_a[i].step != of_b[i].step ||
            std::abs(da - db) >
                std::max(likeness.duration * std::max(da, db), likeness.of_step() * length) ||
            apart > likeness.start() * length)
          return false;
      }
    }
  return true;
}

/// The ranks that a plan hides, each with the rank that stands for it.
std::vector<std::pair<std::size_t, std::size_t>> hidden_in(const RowPlan& plan) {
  std::vector<std::pair<std::size_t, std::size_t>> hidden;
  for (const PlannedGroup& group : plan.groups)
    for (const PlannedRow& row : group.rows)
      for (const std::size_t each : row.alike) hidden.emplace_back(each, row.rank);
  return hidden;
}

RowPlan plan_of(const Timeline& timeline, const RowChoices& choices, const Likeness& likeness,
                int straggler) {
  const MeshPlaces places{timeline.run()};
  AlikeRanks alike;
  alike.update(timeline, likeness, foldable_groups(timeline, places, choices, straggler), patience);
  return plan_rows(timeline, places, choices, &alike.leaders(), straggler);
}

/// A mesh of pp 2, dp 2 and tp 2, with hardly any spans.
void add_mesh(Timeline& timeline) {
  timeline.run().ranks = 8;
  timeline.run().mesh = {{"pp", 2}, {"dp", 2}, {"tp", 2}};
  for (int rank = 0; rank < 8; ++rank) {
    TimelineSpan span{.start = 0, .end = 1000, .name = timeline.intern("work"), .step = 0};
    span.category = Category::forward;
    timeline.add(rank, 0, span);
    timeline.rank(rank).name = fmt::format("rank {}", rank);
    timeline.lane(rank, 0).set_name("compute");
  }
  timeline.settle();
}

}  // namespace

TEST_CASE(
    "every hidden rank is identical to the one that is shown, and a perturbed rank is shown") {
  std::mt19937 random{2026};
  std::size_t hidden_ranks = 0;
  for (int round = 0; round < 300; ++round) {
    Timeline timeline;
    const double noise = round % 3 == 0 ? 0 : 0.03;
    RandomRanks ranks{random, noise, timeline};
    const Likeness likeness{round % 2 == 0 ? 0.05 : 0.2};
    // One span of one rank takes clearly longer, or has another name.
    const auto perturbed =
        static_cast<std::size_t>(random()) % static_cast<std::size_t>(ranks.ranks);
    auto& lane = ranks.spans[perturbed][random() % 2];
    TimelineSpan& span = lane[random() % lane.size()];
    if (round % 5 == 0)
      span.name = timeline.intern("another name");
    else
      span.end += 60'000;
    ranks.add_to(timeline);
    const RowPlan plan = plan_of(timeline, {}, likeness, -1);
    CHECK(plan.shown == static_cast<std::size_t>(ranks.ranks));
    const auto hidden = hidden_in(plan);
    hidden_ranks += hidden.size();
    for (const auto& [rank, shown] : hidden) {
      CHECK(are_identical(timeline, *timeline.ranks()[rank], *timeline.ranks()[shown], likeness));
      CHECK(rank != perturbed);
      CHECK(shown != perturbed);
    }
    if (noise > 0) continue;
    // Without noise, all others are folded.
    const auto expected = static_cast<std::size_t>(ranks.ranks) - 1;
    std::set<std::size_t> rows;
    for (std::size_t i = 0; i < static_cast<std::size_t>(ranks.ranks); ++i)
      if (i != perturbed) rows.insert(i % static_cast<std::size_t>(ranks.classes));
    CHECK(hidden.size() == expected - rows.size());
  }
  CHECK(hidden_ranks > 300);
}

TEST_CASE("comparing a little at a time finds the same identical ranks") {
  std::mt19937 random{4};
  Timeline timeline;
  RandomRanks ranks{random, 0.02, timeline};
  ranks.add_to(timeline);
  const std::vector<int> groups(static_cast<std::size_t>(ranks.ranks), 0);
  AlikeRanks at_once, slowly;
  at_once.update(timeline, {}, groups, patience);
  int calls = 0;
  for (; calls == 0 || !slowly.complete(); ++calls)
    slowly.update(timeline, {}, groups, std::chrono::microseconds{0});
  CHECK(slowly.leaders() == at_once.leaders());
  CHECK(next_tolerance(0.05) == 0.2);
  CHECK(next_tolerance(0.5) == 0.01);
}

TEST_CASE("the straggler, pinned and unfolded ranks keep rows of their own") {
  Timeline timeline;
  add_mesh(timeline);
  RowChoices choices;
  CHECK(hidden_in(plan_of(timeline, choices, {}, -1)).size() == 7);
  for (int straggler = 0; straggler < 8; ++straggler)
    for (const auto& [rank, shown] : hidden_in(plan_of(timeline, choices, {}, straggler))) {
      CHECK(timeline.ranks()[rank]->rank != straggler);
      CHECK(timeline.ranks()[shown]->rank != straggler);
    }
  choices.pinned = {2};
  choices.unfolded = {3};
  choices.hidden = {4};
  const RowPlan plan = plan_of(timeline, choices, {}, 0);
  CHECK(plan.pinned == std::vector<std::size_t>{2});
  CHECK(hidden_in(plan).size() == 3);  // 5, 6 and 7, or two of them and 1
  // Leaders of an earlier comparison do not hide a rank that has become the straggler.
  AlikeRanks alike;
  alike.update(timeline, {}, std::vector<int>(8, 0), patience);
  const RowPlan stale = plan_rows(timeline, MeshPlaces{timeline.run()}, {}, &alike.leaders(), 0);
  CHECK(hidden_in(stale).empty());  // rank 0 was the first of the class
}

TEST_CASE("rows are grouped by an axis, identical ranks within each group, and groups fold") {
  Timeline timeline;
  add_mesh(timeline);
  const MeshPlaces places{timeline.run()};
  CHECK(places.words(5) == "pp1 dp0 tp1");
  CHECK(places.words(std::vector{4, 5}) == "pp1 dp0 tp*");
  RowChoices choices{.axis = Axis::dp};
  RowPlan plan = plan_of(timeline, choices, {}, -1);
  REQUIRE(plan.groups.size() == 2);
  for (const PlannedGroup& group : plan.groups) {
    CHECK(group.ranks == 4);
    CHECK(group.rows.size() == 1);
    CHECK(group.rows[0].alike.size() == 3);
  }
  CHECK(hidden_in(plan).size() == 6);
  choices.folded = {1};
  plan = plan_of(timeline, choices, {}, 6);  // on dp 1
  CHECK(plan.groups[1].folded);
  REQUIRE(plan.groups[1].rows.size() == 1);
  CHECK(plan.groups[1].rows[0].rank == 6);
}

TEST_CASE("places on the mesh follow Mesh, in any order of axes, and ambiguous meshes have none") {
  std::mt19937 random{9};
  for (int round = 0; round < 100; ++round) {
    const auto size = [&] { return 1 + static_cast<int>(random() % 3); };
    const std::array<int, axis_count> sizes{size(), size(), size(), size()};
    const char* orders[] = {"tp,cp,dp,pp", "pp,dp,cp,tp", "dp,tp,pp,cp"};
    const std::string order = orders[round % 3];
    int ranks = 1;
    for (const int each : sizes) ranks *= each;
    const Mesh mesh{ranks, sizes, order};
    RunInfo run;
    run.ranks = ranks;
    for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp})
      if (mesh.size(axis) > 1) run.mesh.emplace_back(name_of(axis), mesh.size(axis));
    if (round % 3 > 0) run.config.emplace_back("order", order);
    const MeshPlaces places{run};
    for (const Axis axis : places.axes())
      for (int rank = 0; rank < ranks; ++rank)
        CHECK(places.coordinate(rank, axis) == mesh.coordinate(rank, axis));
  }
  RunInfo run;
  run.ranks = 8;
  run.mesh = {{"pp", 3}, {"dp", 2}};
  CHECK(MeshPlaces{run}.empty());
  run.mesh = {{"sideways", 8}};
  CHECK(MeshPlaces{run}.empty());
  run.mesh = {{"pp", -8}};
  CHECK(MeshPlaces{run}.empty());
  run.mesh = {{"dp", 8}, {"ep", 3}};
  CHECK(MeshPlaces{run}.empty());
}

TEST_CASE("a filter takes ranks, coordinates and names, and says which keys it knows") {
  Timeline timeline;
  add_mesh(timeline);
  const MeshPlaces places{timeline.run()};
  const auto shown = [&](const char* text) {
    std::vector<int> ranks;
    const RowFilter filter{text};
    for (const auto& rank : timeline.ranks())
      if (filter.shows(*rank, places)) ranks.push_back(rank->rank);
    return ranks;
  };
  CHECK(shown("5") == std::vector{5});
  CHECK(shown("rank:5") == std::vector{5});
  CHECK(shown("2-4") == std::vector{2, 3, 4});
  CHECK(shown("pp0 tp1") == std::vector{1, 3});
  CHECK(shown("PP:1 dp:0") == std::vector{4, 5});
  CHECK(shown("rank").size() == 8);
  CHECK(shown("compute").size() == 8);
  CHECK(shown("send").empty());
  CHECK(RowFilter{"pp0 5"}.trouble(places).empty());
  CHECK(RowFilter{"foo:3"}.trouble(places) == "unknown key foo; the keys are rank, pp, dp and tp");
  CHECK(RowFilter{"pp:x"}.trouble(places) == "pp: needs a number, such as pp:0");
}

TEST_CASE("moved rows keep their new order") {
  Timeline timeline;
  add_mesh(timeline);
  RowChoices choices;
  const auto order = [&] {
    const RowPlan plan = plan_rows(timeline, MeshPlaces{timeline.run()}, choices, nullptr, -1);
    std::vector<int> ranks;
    for (const PlannedRow& row : plan.groups[0].rows)
      ranks.push_back(timeline.ranks()[row.rank]->rank);
    return ranks;
  };
  choices.move(6, 1, timeline);
  CHECK(order() == std::vector{0, 6, 1, 2, 3, 4, 5, 7});
  choices.move(0, -1, timeline);
  CHECK(order() == std::vector{6, 1, 2, 3, 4, 5, 7, 0});
  choices.move(5, 5, timeline);
  choices.move(99, 1, timeline);
  CHECK(order() == std::vector{6, 1, 2, 3, 4, 5, 7, 0});
}

TEST_CASE("the straggler is the rank whose computing costs most") {
  const auto account = [](std::vector<Picoseconds> compute) {
    StepAccount all;
    for (std::size_t i = 0; i < compute.size(); ++i) {
      RankAccount& rank = all.ranks.emplace_back();
      rank.rank = static_cast<int>(10 + i);
      rank.sums.compute = compute[i];
      all.length = std::max(all.length, compute[i]);
    }
    return all;
  };
  // Stage 1 takes longer than stage 0, but only one of its ranks takes longer than its peers.
  const std::vector<std::set<int>> stages{{0}, {0}, {0}, {1}, {1}, {1}};
  const auto found = straggler_of(account({100, 101, 102, 300, 390, 300}), stages);
  REQUIRE(found);
  CHECK(found->rank == 14);
  CHECK(found->ratio() == doctest::Approx(1.3));
  CHECK(found->peers == 2);
  CHECK(straggler_name(*found) == "straggler: rank 14");
  CHECK_FALSE(straggler_of(account({100, 101, 102, 300, 304, 300}), stages));
  // Each rank has a stage of its own.
  const auto stage = straggler_of(account({100, 100, 150}), {{0}, {1}, {2}});
  REQUIRE(stage);
  CHECK(stage->stage == 2);
  CHECK(straggler_name(*stage) == "slow stage: rank 12");
  CHECK(stage->cost() == 50);
  // A large ratio that costs little names nobody, and of two equally slow ranks, neither costs.
  CHECK(straggler_of(account({1, 1, 3, 300, 310, 300}), stages)->rank == 14);
  CHECK(straggler_of(account({10, 10, 30, 300, 360, 300}), stages)->rank == 14);
  CHECK_FALSE(straggler_of(account({1, 1, 3, 300, 300, 300}), stages));
  CHECK_FALSE(straggler_of(account({100, 200, 200, 300, 300, 300}), stages));
  CHECK_FALSE(straggler_of(account({}), {}));
  CHECK_FALSE(straggler_of(account({100}), {{0}}));
}

TEST_CASE("rows that do not fit share rows, and the straggler does not scroll") {
  Timeline timeline;
  std::vector<std::size_t> leaders;
  for (int rank = 0; rank < 64; ++rank) {
    TimelineSpan span{.start = 0, .end = 1000, .name = timeline.intern("work"), .step = 0};
    timeline.add(rank, 0, span);
    leaders.push_back(static_cast<std::size_t>(rank % 40));
  }
  timeline.settle();
  StripLayout layout;
  const RowContext context{{}, &leaders, 50};
  layout.update(timeline, 5000, 1, context);  // all fit
  CHECK_FALSE(layout.folds());
  CHECK(layout.groups().size() == 64);
  CHECK(layout.pinned_height() == 0);
  layout.update(timeline, 400, 1, context);
  CHECK(layout.folds());
  CHECK(layout.groups().size() == 41);
  CHECK(layout.shown() == 64);
  REQUIRE(layout.height() > 400);
  CHECK(layout.groups().front().rank->rank == 50);
  CHECK(layout.groups().front().straggler);
  CHECK(layout.pinned_height() > layout.groups().front().height);
  layout.choices().fold = RowChoices::Fold::off;
  layout.update(timeline, 400, 1, context);
  CHECK(layout.groups().size() == 64);
  CHECK(layout.groups().front().rank->rank == 50);
  layout.choices().fold = RowChoices::Fold::on;
  layout.update(timeline, 5000, 1, context);
  CHECK(layout.groups().size() == 41);
  // Rank 45 shares the row of rank 5.
  CHECK_FALSE(layout.find(45));
  REQUIRE(layout.find_shared(45));
  CHECK(layout.find_shared(45)->rank->rank == 5);
  CHECK(layout.find_shared(5) == layout.find(5));
  CHECK(layout.find_shared(64) == nullptr);
  layout.reveal(45, {});
  layout.update(timeline, 5000, 1, context);
  CHECK(layout.find(45));
}
