#include "exercises/19_online_softmax/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "A softmax over parts can be merged exactly from each part's result and log-sum-exp, in any "
    "order. So attention needs to hold the scores of one block of keys only, on a GPU as on a ring "
    "of ranks.";

namespace {

constexpr float nothing = -std::numeric_limits<float>::infinity();

/// A query's attention to some keys.
struct Attention {
  std::vector<float> y;
  float lse = nothing;
};

/// The scores and values of the keys of one set.
struct Keys {
  std::vector<double> scores;
  std::vector<std::vector<double>> values;
};

/// Computed in f64 from the definition, with the largest score taken out of every exponential.
Attention attend(const std::vector<Keys>& sets, std::size_t width) {
  double most = nothing;
  for (const Keys& keys : sets)
    for (const double score : keys.scores) most = std::max(most, score);
  if (most == nothing) return {std::vector<float>(width), nothing};
  double sum = 0;
  std::vector<double> y(width);
  for (const Keys& keys : sets)
    for (std::size_t j = 0; j < keys.scores.size(); ++j) {
      const double weight = std::exp(keys.scores[j] - most);
      sum += weight;
      for (std::size_t i = 0; i < width; ++i) y[i] += weight * keys.values[j][i];
    }
  Attention found{std::vector<float>(width), static_cast<float>(most + std::log(sum))};
  for (std::size_t i = 0; i < width; ++i) found.y[i] = static_cast<float>(y[i] / sum);
  return found;
}

bool close(float a, float b, double tolerance) {
  return a == b || std::abs(double{a} - double{b}) <= tolerance;
}
bool close(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  return std::ranges::equal(a, b, [&](float x, float y) { return close(x, y, tolerance); });
}
bool has_nan(const Attention& all) {
  return std::isnan(all.lse) || std::ranges::any_of(all.y, [](float y) { return std::isnan(y); });
}

std::string show(const Attention& all) {
  return fmt::format("y = [{}], lse = {:g}", list(all.y), all.lse);
}

/// a x + b y.
std::vector<float> mix(double a, const std::vector<float>& x, double b,
                       const std::vector<float>& y) {
  std::vector<float> mixed(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) mixed[i] = static_cast<float>(a * x[i] + b * y[i]);
  return mixed;
}

/// Why merging `a` and `b` did not give `expected`.
std::string diagnose(const Attention& a, const Attention& b, const Attention& expected,
                     const Attention& found, double tolerance) {
  const bool empty = a.lse == nothing || b.lse == nothing;
  const bool large = std::max(std::abs(a.lse), std::abs(b.lse)) > 80;
  if (has_nan(found) && empty)
    return "A set without keys has the log-sum-exp -infinity. With two of them, -infinity minus "
           "-infinity is NaN, and so are 0 / 0 and 0 times infinity.";
  if (large && !empty && (has_nan(found) || std::isinf(found.lse)))
    return "exp(score) does not fit into f32 here: above 88 it is infinity, and below -104 it is "
           "0. Take the larger of the two log-sum-exps out of both exponentials before you add "
           "them: log(exp(a) + exp(b)) = a + log(1 + exp(b - a)).";
  const auto y_is = [&](const std::vector<float>& y) { return close(found.y, y, tolerance); };
  if (expected.lse == nothing)
    return "Neither set has keys. The sum of no exponentials is 0, and its logarithm is -infinity, "
           "not a large negative number.";
  if (y_is(expected.y)) {
    if (close(found.lse, a.lse, tolerance))
      return "y is right, but lse is still that of the first set. The next merge needs that of "
             "both.";
    if (close(found.lse, a.lse + b.lse, tolerance))
      return "y is right, but the two log-sum-exps were added. The sums of exponentials add up, "
             "and not their logarithms.";
    if (close(found.lse, std::max(a.lse, b.lse), tolerance))
      return "y is right, but lse is the larger of the two. It must be the logarithm of the sum of "
             "both sums.";
    return "y is right, but lse is not log(exp(lse) + exp(lse_part)).";
  }
  if (empty) return "One of the sets has no keys, so the other one's y and lse are the result.";
  const double mine = std::exp(double{a.lse} - expected.lse), theirs = 1 - mine;
  if (y_is(mix(0.5, a.y, 0.5, b.y)))
    return "This is the mean of the two y's. A set with more keys, or with larger scores, must "
           "weigh more: its weight is its share of the sum of all exponentials.";
  if (y_is(mix(1, a.y, 1, b.y)))
    return "The two y's were added. Each has been divided by the sum of its own set's exponentials "
           "only, so it must be scaled with its share of both sums first.";
  if (y_is(mix(theirs, a.y, mine, b.y)))
    return "The weights are those of the other set: y belongs to lse, and y_part to lse_part.";
  if (y_is(mix(1, a.y, theirs, b.y)))
    return "The second set is weighted, but the first is not: its weight is exp(lse - L) with the "
           "lse from before the merge. Has lse already been overwritten?";
  if (y_is(mix(mine, a.y, 1, b.y))) return "The first set is weighted, but the second one is not.";
  if (y_is(a.y)) return "This is the first set alone.";
  if (y_is(b.y)) return "This is the second set alone.";
  const double sum = double{a.lse} + b.lse;
  if (sum != 0 && y_is(mix(a.lse / sum, a.y, b.lse / sum, b.y)))
    return "The weights are the sets' shares of the log-sum-exps. They must be the shares of the "
           "sums themselves, exp(lse) and exp(lse_part).";
  return "A set's weight is its share of the sum of all exponentials, exp(lse - L), with L = "
         "log(exp(lse) + exp(lse_part)).";
}

/// Scores around `middle`. If they are large, each set has at most one key, whose score is then
/// exactly the set's log-sum-exp.
Keys random_keys(Check& check, int count, std::size_t width, int middle) {
  Keys keys;
  for (int j = 0; j < count; ++j) {
    keys.scores.push_back(middle + check.number_from(-20, 20) / 8.0);
    keys.values.emplace_back();
    for (std::size_t i = 0; i < width; ++i)
      keys.values.back().push_back(check.number_from(-100, 100) / 16.0);
  }
  return keys;
}

/// Merges sets of keys, in order.
void merge_all(const std::string& what, const std::vector<Keys>& sets, std::size_t width) {
  double largest = 0;
  for (const Keys& keys : sets)
    for (const double score : keys.scores) largest = std::max(largest, std::abs(score));
  // The rounding error of the log-sum-exp carries over to the weights.
  const double tolerance = 1e-4 + 2e-6 * largest;
  Attention merged = attend({sets.front()}, width);
  for (std::size_t n = 1; n < sets.size(); ++n) {
    const Attention before = merged, part = attend({sets[n]}, width);
    const Attention expected =
        attend({sets.begin(), sets.begin() + static_cast<long>(n) + 1}, width);
    merge(merged.y, merged.lse, part.y, part.lse);
    if (close(merged.y, expected.y, tolerance) && close(merged.lse, expected.lse, tolerance))
      continue;
    Attention again = before;
    merge(again.y, again.lse, part.y, part.lse);
    if (close(again.y, expected.y, tolerance) && close(again.lse, expected.lse, tolerance))
      throw Wrong{fmt::format("{}{}: two calls with the same arguments give {}, and then {}", what,
                              n > 1 ? fmt::format(", merge {}", n) : "", show(merged), show(again)),
                  "The result depends on the calls before. What is kept in a static or a global "
                  "variable belongs to other queries, or to an earlier merge."};
    throw Wrong{
        fmt::format("{}{}:\n  the first   {}\n  the second  {}\n  expected    {}\n  found     "
                    "  {}",
                    what, n > 1 ? fmt::format(", merge {}", n) : "", show(before), show(part),
                    show(expected), show(merged)),
        diagnose(before, part, expected, merged, tolerance)};
  }
}

/// Merges sets with these numbers of keys. The scores of set i are near middles[i]; all further
/// sets use the last of `middles`. Two sets with one key each and scores near 0 have 0 < lse <
/// lse_part, so that each mistake gives a different lse.
void check_one(Check& check, const std::vector<int>& counts, const std::vector<int>& middles) {
  const auto width = static_cast<std::size_t>(check.number_from(1, 5));
  std::vector<Keys> sets;
  std::string what;
  for (std::size_t n = 0; n < counts.size(); ++n) {
    const int middle = middles[std::min(n, middles.size() - 1)];
    sets.push_back(random_keys(check, counts[n], width, middle));
    what += fmt::format("{}{}", what.empty() ? "" : " and ", count_of(counts[n], "key"));
    if (middles.size() > 1) what += fmt::format(" with scores near {}", middle);
  }
  if (counts == std::vector{1, 1} && middles == std::vector{0}) {
    sets[0].scores[0] = check.number_from(1, 10) / 8.0;
    sets[1].scores[0] = sets[0].scores[0] + check.number_from(1, 10) / 8.0;
  }
  if (middles.size() == 1 && middles[0] != 0)
    what += fmt::format(" with scores near {}", middles[0]);
  check.count_case(what);
  merge_all(what, sets, width);
}

/// Two sets of one key each, with the same score.
void check_equal(Check& check) {
  const auto width = static_cast<std::size_t>(check.number_from(1, 5));
  std::vector<Keys> sets{random_keys(check, 1, width, 1), random_keys(check, 1, width, 1)};
  sets[1].scores = sets[0].scores;
  const std::string what = "1 key and 1 key with the same score";
  check.count_case(what);
  merge_all(what, sets, width);
}

}  // namespace

void check(Check& check) {
  const std::vector<int> cases[]{{1, 1}, {1, 2}, {3, 1},       {2, 5, 4},      {1, 0},
                                 {0, 1}, {0, 0}, {0, 0, 2, 0}, {7, 1, 1, 9, 3}};
  for (const std::vector<int>& counts : cases)
    for (int trial = 0; trial < 4; ++trial) check_one(check, counts, {0});
  for (int trial = 0; trial < 4; ++trial) check_equal(check);
  for (const int middle : {100, -120, 1000, -1000, 5000})
    for (const std::vector<int>& counts : {std::vector{1, 1}, {1, 0}, {0, 1, 1}, {1, 1, 1, 1}})
      check_one(check, counts, {middle});
  // One set outweighs the other by far.
  for (const std::vector<int>& middles :
       {std::vector{0, 30}, {30, 0}, {0, 100}, {100, 0}, {-100, 100}, {2000, -2000}, {-2000, 2000}})
    for (const std::vector<int>& counts : {std::vector{1, 1}, {1, 1, 1}})
      check_one(check, counts, middles);
  for (int trial = 0; trial < 30; ++trial) {
    std::vector<int> counts;
    for (int sets = check.number_from(2, 8); sets > 0; --sets)
      counts.push_back(check.number_from(0, 12));
    check_one(check, counts, {check.number_from(-30, 30)});
  }
}

}  // namespace lockstep::exercises
