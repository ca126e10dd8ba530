#include "exercises/22_global_norm/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "For each axis, one must know whether its ranks have parts or copies: parts are added, copies "
    "count once, and the root comes after all sums. One number per rank is enough for it.";

namespace {

struct Case {
  int dp, pp, tp;
  int most;  // numbers of a whole gradient
  int ranks() const { return dp * pp * tp; }
  Mesh mesh() const { return Mesh{ranks(), {tp, 1, dp, pp}}; }
};

/// The whole gradients of each stage.
struct Whole {
  Case sizes;
  std::vector<std::vector<Gradient>> stages;
  double limit = 0;
};

std::vector<Gradient> part_of(const Whole& whole, int stage, int tp) {
  std::vector<Gradient> own = whole.stages[stage];
  for (Gradient& each : own)
    if (each.divided) {
      const std::span<float> part = chunk(std::span{each.numbers}, tp, whole.sizes.tp);
      each.numbers = std::vector<float>(part.begin(), part.end());
    }
  return own;
}

/// The sum of the squares of divided gradients, or of the others.
double squares_of(const std::vector<Gradient>& gradients, bool divided) {
  double squares = 0;
  for (const Gradient& each : gradients)
    if (each.divided == divided)
      for (const double number : each.numbers) squares += number * number;
  return squares;
}

double norm_of(const Whole& whole) {
  double squares = 0;
  for (const auto& stage : whole.stages)
    squares += squares_of(stage, true) + squares_of(stage, false);
  return std::sqrt(squares);
}

bool is_near(double found, double expected) {
  return std::abs(found - expected) <= 1e-5 * std::abs(expected);
}

Whole random_whole(Check& check, const Case& sizes, double limit_by_norm) {
  Whole whole{sizes, {}, 0};
  for (int stage = 0; stage < sizes.pp; ++stage) {
    const auto numbers = [&](int count) {
      std::vector<float> all(count);
      for (float& each : all)
        each = static_cast<float>(check.number_from(1, 9) * (check.number_from(0, 1) ? 1 : -1));
      return all;
    };
    const auto name = [&](const char* of) { return fmt::format("h.{}.{}", stage, of); };
    whole.stages.push_back(
        {{name("ln_1.weight"), false, numbers(2)},
         {name("mlp.c_fc.weight"), true, numbers(sizes.most)},
         {name("mlp.c_proj.weight"), true, numbers(check.number_from(0, sizes.most))},
         {name("mlp.c_proj.bias"), false, numbers(check.number_from(1, 3))}});
  }
  whole.limit = limit_by_norm * norm_of(whole);
  return whole;
}

std::string diagnose_failure(const Failure&) {
  return "All ranks of a group must call the same collectives in the same order, with the same "
         "number of elements; also those whose contribution is 0.";
}

/// Why `found` is not the norm, on the rank of this stage and this place along tp.
std::string why_not_norm(const Whole& whole, int stage, int t, double found) {
  const auto& [dp, pp, tp, most] = whole.sizes;
  const auto is = [&](double squares) { return is_near(found, std::sqrt(squares)); };
  double parts = 0, copies = 0, own_parts = 0;
  double norms = 0, norms_once = 0, norms_of_stages = 0;
  for (int s = 0; s < pp; ++s) {
    const double divided = squares_of(whole.stages[s], true);
    const double whole_ones = squares_of(whole.stages[s], false);
    parts += divided;
    copies += whole_ones;
    norms_of_stages += std::sqrt(divided + whole_ones);
    for (int i = 0; i < tp; ++i) {
      const double its = squares_of(part_of(whole, s, i), true);
      if (i == t) own_parts += its;
      norms += std::sqrt(its + whole_ones);
      norms_once += std::sqrt(its + (i == 0 ? whole_ones : 0));
    }
  }
  const double copies_of_first = t == 0 ? copies : 0;
  const double stage_parts = squares_of(whole.stages[stage], true);
  const double stage_copies = squares_of(whole.stages[stage], false);
  const double rank_parts = squares_of(part_of(whole, stage, t), true);

  if (is_near(found, (parts + copies) * (parts + copies)) || is_near(found, parts + copies))
    return "This is the sum of the squares: the norm is its root.";
  if (tp > 1 && is(parts + tp * copies))
    return fmt::format(
        "The gradients that are not divided, such as a LayerNorm's, are counted {} times: once for "
        "each rank along tp. All of these have the same copy, of which only one may count.",
        tp);
  if (dp > 1 && is(dp * (parts + copies)))
    return fmt::format(
        "Everything is counted {} times, once for each rank along dp. After data parallelism has "
        "averaged the gradients, these ranks have the same ones: don't add along dp.",
        dp);
  if (dp > 1 && tp > 1 && is(dp * (parts + tp * copies)))
    return "Copies are counted more than once: everything once for each rank along dp, and what is "
           "not divided also once for each rank along tp.";
  if (pp > 1 && (is(stage_parts + stage_copies) || is(stage_parts + tp * stage_copies)))
    return "This is the norm of one stage. The norm of the model needs the squares of all stages: "
           "add them along pp.";
  if (tp > 1 && (is(own_parts + copies) || is(own_parts + copies_of_first)))
    return "This contains the parts of a single rank along tp. Divided gradients are different on "
           "each of these ranks: add their squares along tp.";
  if (pp * tp > 1 && (is(rank_parts + stage_copies) || (t == 0 && is(rank_parts))))
    return "This is the norm of what this rank has. The norm of the model needs the squares of all "
           "stages and of all parts: add them along pp and tp.";
  if (is(parts))
    return "The gradients that are not divided are missing: one of their copies counts.";
  if (pp * tp > 1 &&
      (is_near(found, norms) || is_near(found, norms_once) || is_near(found, norms_of_stages)))
    return "This is a sum of norms. Norms can't be added, their squares can: take the root once, "
           "after all sums.";
  return "The norm is the root of the sum of the squares of all numbers, each of which counts "
         "once: "
         "add along tp and pp, but only one copy of what is not divided, and not along dp.";
}

/// Why a gradient on the rank of this stage and this place along tp has been multiplied by `found`.
std::string why_not_factor(const Whole& whole, const Gradient& before, int stage, int t,
                           double found) {
  const double norm = norm_of(whole), factor = whole.limit / norm;
  if (norm <= whole.limit)
    return is_near(found, factor)
               ? "The norm is below the limit, and nothing may change then: limit / norm makes the "
                 "gradients larger."
               : "The norm is below the limit: nothing may change then.";
  if (is_near(found, 1))
    return before.divided
               ? "The norm is above the limit, and these gradients are not clipped: multiply them "
                 "by limit / norm."
               : "Gradients that are not divided are not clipped. All gradients are multiplied, "
                 "also those that do not count in this rank's sum.";
  if (is_near(found, factor * factor)) return "This is clipped twice.";
  if (is_near(found, 1 / norm))
    return "This divides by the norm. The gradients should have the norm `limit`, and not 1.";
  const double parts = squares_of(part_of(whole, stage, t), true);
  const double copies = squares_of(whole.stages[stage], false);
  for (const double own : {parts, parts + copies})
    if (is_near(found, whole.limit / std::sqrt(own)))
      return "This rank has a factor of its own, from the norm of its own gradients. The ranks "
             "would no longer agree on their copies, and the whole gradient would change its "
             "direction: all need the factor limit / norm with the norm that is returned.";
  return fmt::format(
      "All numbers are multiplied by limit / norm, which is {:.4g}, and here the "
      "factor is {:.4g}.",
      factor, found);
}

void check_one(Check& check, const Case& sizes, double limit_by_norm) {
  const Whole whole = random_whole(check, sizes, limit_by_norm);
  const Mesh mesh = sizes.mesh();
  const double norm = norm_of(whole), factor = std::min(1.0, whole.limit / norm);
  const std::string what =
      fmt::format("{}, dp {}, pp {}, tp {}, limit {:.4g}", count_of(sizes.ranks(), "rank"),
                  sizes.dp, sizes.pp, sizes.tp, whole.limit);
  const auto own_of = [&](int r) {
    return part_of(whole, mesh.coordinate(r, Axis::pp), mesh.coordinate(r, Axis::tp));
  };
  const Outcome outcome = check.run(
      what, mesh,
      [&](World& world) {
        std::vector<Gradient> gradients = own_of(world.rank());
        const std::size_t count = gradients.size();
        std::vector<float> results{
            static_cast<float>(clip_gradients(world, gradients, whole.limit))};
        if (gradients.size() != count)
          throw Wrong{"the list of gradients has another length now", "Only the numbers change."};
        for (const Gradient& each : gradients)
          results.insert(results.end(), each.numbers.begin(), each.numbers.end());
        return results;
      },
      diagnose_failure);

  for (int r = 0; r < sizes.ranks(); ++r) {
    const double found = outcome.results[r][0];
    if (!is_near(found, norm))
      throw Wrong{
          fmt::format("{}: the norm is {:.6g}, and rank {} (dp {}, pp {}, tp {}) returns "
                      "{:.6g}",
                      what, norm, r, mesh.coordinate(r, Axis::dp), mesh.coordinate(r, Axis::pp),
                      mesh.coordinate(r, Axis::tp), found),
          why_not_norm(whole, mesh.coordinate(r, Axis::pp), mesh.coordinate(r, Axis::tp), found)};
  }
  for (int r = 0; r < sizes.ranks(); ++r) {
    std::size_t at = 1;
    for (const Gradient& before : own_of(r)) {
      for (const double number : before.numbers) {
        const double found = outcome.results[r].at(at++), expected = number * factor;
        if (is_near(found, expected)) continue;
        throw Wrong{fmt::format("{}, norm {:.6g}: a number of {} on rank {} was {:g}, should be "
                                "{:.5g}, and is {:.5g}",
                                what, norm, before.name, r, number, expected, found),
                    why_not_factor(whole, before, mesh.coordinate(r, Axis::pp),
                                   mesh.coordinate(r, Axis::tp), found / number)};
      }
    }
  }
  const std::int64_t N = sizes.ranks(), most_bytes = 4 * 3 * N * (N - 1);
  const std::int64_t sent =
      std::accumulate(outcome.bytes_sent.begin(), outcome.bytes_sent.end(), std::int64_t{0});
  if (sent > most_bytes)
    throw Wrong{fmt::format("{}: the ranks send {} B together, and {} B are enough to tell all "
                            "ranks three numbers of each",
                            what, sent, most_bytes),
                "Norm and gradients are right, but gradients are sent. A rank adds the squares of "
                "its own numbers, and sends this sum."};
  if (sizes.dp == 2 && sizes.pp == 2 && sizes.tp == 2 && check.picture().text.empty())
    check.show(
        "Your run on dp 2, pp 2, tp 2: to whom each rank sends its sum of squares. Ranks 0 "
        "and 1 differ along tp, ranks 0 and 2 along dp, ranks 0 and 4 along pp.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  for (const Case& sizes : {Case{1, 1, 1, 3},
                            {1, 1, 2, 4},
                            {1, 2, 1, 4},
                            {2, 1, 1, 4},
                            {1, 1, 3, 2},  // a rank has no part
                            {2, 2, 2, 9},
                            {1, 2, 4, 30},
                            {1, 4, 2, 7},
                            {2, 1, 4, 50},
                            {4, 2, 1, 5},
                            {1, 8, 1, 200}})
    for (const double limit_by_norm : {0.5, 2.0}) check_one(check, sizes, limit_by_norm);
}

}  // namespace lockstep::exercises
