// The statistics of a range by name equal those that a direct loop over all spans computes.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "tests/viz/random_timeline.h"
#include "tests/viz/sample_run.h"
#include "viz/data/selection/exports.h"
#include "viz/data/selection/name_statistics.h"
#include "viz/data/selection/range_statistics.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

constexpr std::chrono::hours no_limit{1};

struct Seen {
  RankTimeline* rank;
  int lane;
  TimelineSpan span;
};

/// All spans of the action and kernel bands.
std::vector<Seen> all_spans(const Timeline& timeline) {
  std::vector<Seen> all;
  for (const auto& rank : timeline.ranks())
    for (const auto& lane : rank->lanes)
      for (const Band band : {Band::action, Band::kernel})
        for (const SpanRow& row : lane->rows(band))
          for (const TimelineSpan& span : row) all.push_back({rank.get(), lane->tid(), span});
  return all;
}

/// The spans that count together, implemented from the description of SpanKind.
using KindKey = std::tuple<Category, std::string, std::string, int, int>;
KindKey key_of(const Timeline& timeline, const Seen& seen, bool by_rank) {
  const TimelineSpan& span = seen.span;
  const bool computing = span.category == Category::forward || span.category == Category::backward;
  const bool action = computing && span.stage >= 0;
  return {span.category, action ? "" : timeline.name(span.name),
          action ? "" : timeline.name(span.group), action ? span.stage : -1,
          by_rank ? seen.rank->rank : -1};
}
KindKey key_of(const Timeline& timeline, const SpanKind& kind) {
  return {kind.category, timeline.name(kind.name), timeline.name(kind.group), kind.stage,
          kind.rank};
}

struct Expected {
  std::int64_t count = 0;
  Picoseconds inside = 0, whole = 0;
  std::vector<Picoseconds> durations;
};
std::map<KindKey, Expected> expected_totals(const Timeline& timeline, const Interval& range,
                                            bool by_rank) {
  std::map<KindKey, Expected> all;
  for (const Seen& seen : all_spans(timeline)) {
    const TimelineSpan& span = seen.span;
    const bool point = span.start == span.end;
    if (span.start >= range.end || (point ? span.start < range.start : span.end <= range.start))
      continue;
    Expected& total = all[key_of(timeline, seen, by_rank)];
    ++total.count;
    total.inside += std::min(span.end, range.end) - std::max(span.start, range.start);
    total.whole += span.end - span.start;
    total.durations.push_back(span.end - span.start);
  }
  return all;
}

Interval random_range(std::mt19937& random) {
  std::uniform_int_distribution<Picoseconds> time(-200, 4600);
  Interval range{time(random), time(random)};
  if (range.end < range.start) std::swap(range.start, range.end);
  ++range.end;
  return range;
}

}  // namespace

TEST_CASE("statistics by name equal a loop over all spans, of random timelines and ranges") {
  std::mt19937 random{43};
  for (int round = 0; round < 150; ++round) {
    Timeline timeline;
    add_random_spans(timeline, random, 1 + round % 5, 20 + 10 * round);
    const Interval range = random_range(random);
    const bool by_rank = round % 2 == 1;
    NameStatistics names;
    // The totals must not depend on how small the counted pieces are.
    const std::chrono::microseconds budget{round % 3 == 0 ? 0 : 1'000'000};
    for (int calls = 0; calls == 0 || !names.complete(); ++calls) {
      REQUIRE(calls < 10'000);
      names.update(timeline, range, by_rank, budget);
    }
    const auto expected = expected_totals(timeline, range, by_rank);
    REQUIRE(names.totals().size() == expected.size());
    for (const NameTotal& total : names.totals()) {
      const auto found = expected.find(key_of(timeline, total.kind));
      REQUIRE(found != expected.end());
      const Expected& each = found->second;
      CHECK(total.count == each.count);
      CHECK(total.inside == each.inside);
      CHECK(total.whole == each.whole);
      CHECK(total.shortest == std::ranges::min(each.durations));
      CHECK(total.longest == std::ranges::max(each.durations));
      CHECK(total.mean() ==
            doctest::Approx(static_cast<double>(each.whole) / static_cast<double>(each.count)));
      CHECK(names.find(total.kind) == &total);

      DurationHistogram histogram;
      for (int calls = 0; calls == 0 || !histogram.complete(); ++calls) {
        REQUIRE(calls < 10'000);
        histogram.update(timeline, range, total, budget);
      }
      REQUIRE(histogram.limits().size() == histogram.counts().size() + 1);
      CHECK(std::ranges::is_sorted(histogram.limits()));
      std::int64_t sum = 0;
      for (std::size_t bin = 0; bin < histogram.counts().size(); ++bin) {
        const auto [shortest, longest] = histogram.bounds(bin);
        const auto in_bin = std::ranges::count_if(each.durations, [&](Picoseconds duration) {
          return duration >= shortest && duration <= longest;
        });
        CHECK(histogram.counts()[bin] == in_bin);
        sum += histogram.counts()[bin];
      }
      CHECK(sum == each.count);
    }
  }
}

TEST_CASE("the totals of adjacent ranges add up, and those by category are the range's") {
  std::mt19937 random{7};
  for (int round = 0; round < 50; ++round) {
    Timeline timeline;
    add_random_spans(timeline, random, 3, 400);
    const Interval whole = random_range(random);
    const Interval first{whole.start, whole.start + (whole.end - whole.start) / 3};
    const auto inside = [&](const Interval& range) {
      NameStatistics names;
      names.update(timeline, range, false, no_limit);
      std::map<Category, Picoseconds> sums;
      for (const NameTotal& total : names.totals()) sums[total.kind.category] += total.inside;
      return sums;
    };
    auto a = inside(first), b = inside({first.end, whole.end}), all = inside(whole);
    const RangeStatistics statistics = range_statistics(timeline, whole);
    for (auto& [category, sum] : all) {
      CHECK(a[category] + b[category] == sum);
      if (category != Category::kernel)
        CHECK(statistics.totals[static_cast<std::size_t>(category)].time == sum);
    }
  }
}

TEST_CASE("jumps visit each span of a kind and a bin once, in order, and begin again") {
  std::mt19937 random{11};
  for (int round = 0; round < 60; ++round) {
    Timeline timeline;
    add_random_spans(timeline, random, 1 + round % 4, 150);
    const Interval range = random_range(random);
    NameStatistics names;
    names.update(timeline, range, round % 2 == 0, no_limit);
    for (const NameTotal& total : names.totals()) {
      const Picoseconds middle = (total.shortest + total.longest) / 2;
      const KindSearch search{total.kind, range, total.shortest, middle};
      std::size_t expected = 0;
      for (const Seen& seen : all_spans(timeline)) {
        KindKey key = key_of(timeline, seen, total.kind.rank >= 0);
        expected += key == key_of(timeline, total.kind) && overlaps(seen.span, range) &&
                    seen.span.duration() <= middle;
      }
      Finding at;
      Picoseconds last = std::numeric_limits<Picoseconds>::min();
      for (std::size_t i = 0; i < expected; ++i) {
        const auto next = next_of_kind(timeline, search, at);
        REQUIRE(next);
        CHECK(next->span.start >= last);
        const bool stays = i > 0 && next->lane == at.lane && next->span.start == at.span.start &&
                           next->span.end == at.span.end;
        CHECK_FALSE(stays);
        last = next->span.start;
        at = *next;
      }
      const auto again = next_of_kind(timeline, search, at);
      const auto first = next_of_kind(timeline, search, {});
      REQUIRE(again.has_value() == (expected > 0));
      if (!again) continue;
      CHECK(again->span.start == first->span.start);
      CHECK(again->lane == first->lane);
    }
  }
}

TEST_CASE("the columns sort, and shares are of the ranks' time") {
  Timeline timeline;
  read_sample(sample_traces(sample_1f1b(4, 8, 2)), timeline);
  const Interval range{timeline.start(), timeline.end()};
  NameStatistics names;
  names.update(timeline, range, false, no_limit);
  const auto sorted = [&](NameColumn by, bool reversed) {
    return sorted_totals(timeline, names.totals(), by, reversed, 1000);
  };
  const auto by_total = sorted(NameColumn::total, false);
  CHECK(by_total.size() == names.totals().size());
  for (std::size_t i = 1; i < by_total.size(); ++i)
    CHECK(by_total[i - 1].inside >= by_total[i].inside);
  const auto by_mean = sorted(NameColumn::mean, true);
  for (std::size_t i = 1; i < by_mean.size(); ++i)
    CHECK(by_mean[i - 1].mean() <= by_mean[i].mean());
  CHECK(sorted_totals(timeline, names.totals(), NameColumn::count, false, 3).size() == 3);
  // 8 microbatches of 2 ms in 2 steps, on one of 4 ranks.
  const auto backward = std::ranges::find_if(by_total, [&](const NameTotal& total) {
    return kind_words(timeline, total.kind) == "backward, stage 2";
  });
  REQUIRE(backward != by_total.end());
  CHECK(backward->count == 16);
  CHECK(backward->inside == 32 * ms);
  CHECK(share_of_time(*backward, range, 4) ==
        doctest::Approx(32e9 / (4 * static_cast<double>(range.end - range.start))));
  CHECK(std::ranges::count_if(by_total, [&](const NameTotal& total) {
          return kind_words(timeline, total.kind) == "wait: recv";
        }) == 1);
}

TEST_CASE("names that arrive are counted, and the last complete statistics stay meanwhile") {
  std::mt19937 random{3};
  Timeline timeline;
  add_random_spans(timeline, random, 2, 30'000);
  const Interval range{0, 10'000};
  NameStatistics names;
  names.update(timeline, range, false, no_limit);
  REQUIRE(names.complete());
  const auto count_of = [&] {
    std::int64_t count = 0;
    for (const NameTotal& total : names.totals()) count += total.count;
    return count;
  };
  CHECK(count_of() == 30'000);
  TimelineSpan span{.start = 9000, .end = 9100, .name = timeline.intern("new")};
  timeline.add(0, 0, span);
  timeline.settle();
  names.update(timeline, range, false, std::chrono::microseconds{0});
  CHECK_FALSE(names.complete());
  CHECK(count_of() == 30'000);
  names.update(timeline, range, false, no_limit);
  CHECK(count_of() == 30'001);
}

TEST_CASE("the exported names add up to the totals, per rank") {
  std::mt19937 random{5};
  Timeline timeline;
  add_random_spans(timeline, random, 3, 300);
  const std::string csv = names_csv(timeline, {100, 3000});
  NameStatistics names;
  names.update(timeline, {100, 3000}, true, no_limit);
  CHECK(static_cast<std::size_t>(std::ranges::count(csv, '\n')) == names.totals().size() + 1);
  CHECK(
      csv.starts_with("selection_start,selection_seconds,rank,name,category,group,stage,count,"
                      "total_seconds,share,mean_seconds,min_seconds,max_seconds\n"));
}
