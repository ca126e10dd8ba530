#include <doctest/doctest.h>

#include "viz/read/explain/counterfactual_table.h"
#include "viz/read/report/where_it_goes.h"

using namespace lockstep;

namespace {

constexpr Picoseconds ms_ = 1'000'000'000;

/// Two ranks whose step takes 10 ms: rank 1 waits for tp, and ends before rank 0.
StepAccount account_by_hand() {
  StepAccount account{.step = 3, .length = 10 * ms_, .axes = {"tp", "dp"}};
  account.ranks = {{.rank = 0, .time = {0, 10 * ms_}, .pieces = {}, .sums = {}, .overlaps = {}},
                   {.rank = 1, .time = {0, 8 * ms_}, .pieces = {}, .sums = {}, .overlaps = {}}};
  account.ranks[0].sums = {
      .compute = 9 * ms_, .optimizer = 1 * ms_, .axes = {Exposed{}, Exposed{}}};
  account.ranks[1].sums = {.compute = 2 * ms_,
                           .optimizer = 1 * ms_,
                           .axes = {Exposed{3 * ms_, 1 * ms_, 1 * ms_}, Exposed{}},
                           .ended = 2 * ms_};
  account.ranks[0].overlaps = {{2 * ms_, 2 * ms_}, {4 * ms_, 4 * ms_}};
  account.ranks[1].overlaps = {{6 * ms_, 0}, {4 * ms_, 4 * ms_}};
  return account;
}

bool has_part(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a row per rank adds up to the step; exposed communication by axis as means") {
  const Console console{.width = 60};
  const std::string text = where_it_goes({{.phase = "", .last = account_by_hand(), .means = {}}},
                                         console, /*modelled_clock=*/true);
  CAPTURE(text);
  CHECK(has_part(text, "where step 3 goes, ms     step   compute   optimizer      tp   ended"));
  CHECK(has_part(text, "rank 0                  10.000     9.000       1.000   0.000   0.000"));
  CHECK(has_part(text, "rank 1                  10.000     2.000       1.000   5.000   2.000"));
  CHECK(has_part(text, "  mean    compute 55.0 %"));
  CHECK(has_part(text, "tp     "));
  CHECK(has_part(text, "2.500      1.500     0.500       0.500          4.000    25.0 %"));
  CHECK(has_part(text, "0.000      0.000     0.000       0.000          4.000   100.0 %"));
  CHECK_FALSE(has_part(text, "bubble"));
}

TEST_CASE("with many unequal ranks, each row is the mean of as many ranks") {
  StepAccount account{.step = 0, .length = 64 * ms_};
  for (int rank = 0; rank < 32; ++rank)
    account.ranks.push_back({.rank = rank,
                             .time = {},
                             .pieces = {},
                             .sums = {.compute = rank * ms_, .other = (64 - rank) * ms_},
                             .overlaps = {}});
  const std::string text =
      where_it_goes({{.phase = "", .last = account, .means = {}}}, Console{}, true);
  CAPTURE(text);
  CHECK(has_part(text, "mean of ranks 0 to 1     64.000     0.500   63.500"));
  CHECK(has_part(text, "mean of ranks 30 to 31   64.000    30.500   33.500"));
  CHECK_FALSE(has_part(text, "  rank 0"));
}

TEST_CASE("phases are compared in one table; a part that only one of them has counts as 0") {
  StepAccount other = account_by_hand();
  other.axes = {"dp"};
  for (RankAccount& rank : other.ranks) {
    rank.sums = {.compute = 6 * ms_, .axes = {Exposed{4 * ms_, 0, 0}}};
    rank.overlaps.resize(1);
  }
  const std::string text = where_it_goes({{.phase = "a", .last = account_by_hand(), .means = {}},
                                          {.phase = "b", .last = other, .means = {}}},
                                         Console{}, true);
  CAPTURE(text);
  CHECK(has_part(
      text,
      "a (step 3)                       10.000     5.500       1.000   2.500   0.000   1.000"));
  CHECK(has_part(
      text,
      "b (step 3)                       10.000     6.000       0.000   0.000   4.000   0.000"));
  CHECK(has_part(text, "tp, a"));
  CHECK(has_part(text, "dp, b"));
}

TEST_CASE(
    "what would help: the shortest step first; equal ones share a row; small ones are left out") {
  Counterfactuals found{.step = 3, .length = 10 * ms_};
  const auto add = [&](const char* what, Picoseconds step) {
    found.all.push_back({.claim = Claim::free_axis, .what = what, .step = step});
  };
  add("tp communication free", 8 * ms_);
  add("all links within nodes free", 8 * ms_);
  add("rank 1 at the median pace of its peers", 9 * ms_);
  add("dp communication free", 10 * ms_ - ms_ / 1000);
  const std::string text = counterfactual_table(found);
  CAPTURE(text);
  CHECK(has_part(text, "step 3, which takes 10.000 ms"));
  CHECK(has_part(text,
                 "8.000 ms  -20.0 %  tp communication free; likewise all links within nodes free"));
  CHECK(has_part(text, "9.000 ms  -10.0 %  rank 1"));
  CHECK_FALSE(has_part(text, "dp communication"));
  CHECK(counterfactual_table({.step = 3, .length = 10 * ms_}).empty());

  found.all = {{.claim = Claim::free_axis,
                .what = "tp communication free",
                .step = 8 * ms_,
                .estimated = true,
                .least = ms_,
                .most = 3 * ms_}};
  CHECK(has_part(counterfactual_table(found), "tp communication free (1.000 to 3.000 ms less)"));
  CHECK(has_part(counterfactual_table(found), "estimates"));
  CHECK(has_part(found.sentences()[0].text,
                 "about 8.000 ms, 20.0 % less (a rough estimate: 1.000 ms to 3.000 ms less"));
}
