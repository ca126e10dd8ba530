#include "exercises/22_global_norm/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "For each axis, know whether its ranks have parts or copies: parts are added, copies "
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

/// The sum of the squares of the divided gradients, or of the copies if not `divided`.
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

/// The largest relative error that an f32 result may have. A rank adds the squares of up to n
/// numbers, and the ranks' sums are added: each square and each addition rounds by at most 2^-24 of
/// the sum so far, and all terms are positive. The root halves the relative error. A few more
/// roundings (the root, the factor, the product) add to it.
double tolerance(const Whole& whole) {
  std::size_t most = 0;
  for (const auto& stage : whole.stages) {
    std::size_t numbers = 0;
    for (const Gradient& each : stage) numbers += each.numbers.size();
    most = std::max(most, numbers);
  }
  return (0.5 * static_cast<double>(most + static_cast<std::size_t>(whole.sizes.ranks())) + 8) *
         0x1p-24;
}

/// Whether two values are equal up to the rounding of an answer that adds in f32.
struct Near {
  double tolerance;
  bool operator()(double found, double expected) const {
    return std::abs(found - expected) <= tolerance * std::abs(expected);
  }
};

/// The numbers use all bits of an f32, so that their squares and sums are rounded. None is much
/// smaller than the others: counting a single one twice changes the norm by more than rounding.
Whole random_whole(Check& check, const Case& sizes, double limit_by_norm) {
  Whole whole{sizes, {}, 0};
  for (int stage = 0; stage < sizes.pp; ++stage) {
    const auto numbers = [&](int count) {
      std::vector<float> all(count);
      for (float& each : all)
        each = static_cast<float>(check.number_from(1 << 22, (1 << 23) - 1) *
                                  (check.number_from(0, 1) ? 1 : -1)) *
               0x1p-20F;  // 4 to 8
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
         "number of elements, even if their contribution is 0.";
}

/// Names one parameter whose gradient does not count exactly once; "" if the mistake is another
/// one.
std::string parameter_that_counts_wrongly(const Whole& whole, double found) {
  const Near is_near{tolerance(whole)};
  const double norm = norm_of(whole);
  for (const auto& stage : whole.stages)
    for (const Gradient& each : stage) {
      const double its = squares_of({each}, each.divided);
      if (is_near(std::sqrt(norm * norm + its), norm)) continue;  // too small to tell
      for (const int times : {2, 0, whole.sizes.tp, whole.sizes.dp})
        if (times != 1 && is_near(found, std::sqrt(norm * norm + (times - 1) * its)))
          return fmt::format(
              "This is the norm with the gradient of {} {}. Each number counts once{}.", each.name,
              times == 0 ? "left out" : fmt::format("counted {} times", times),
              times == whole.sizes.tp && !each.divided
                  ? ": every rank along tp has a copy of this gradient, and only one may count"
                  : "");
    }
  return "";
}

/// Explains why `found` is not the norm, on the rank of this stage and this place along tp.
std::string why_not_norm(const Whole& whole, int stage, int t, double found) {
  const auto& [dp, pp, tp, most] = whole.sizes;
  const Near is_near{tolerance(whole)};
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
  if (dp > 1 && (is_near(found, norm_of(whole) * dp) || is_near(found, norm_of(whole) / dp)))
    return "The gradients are added or averaged along dp once more. Data parallelism has already "
           "averaged them: the norm is that of the gradients as they are.";
  if (dp > 1 && tp > 1 && is(dp * (parts + tp * copies)))
    return "Copies are counted more than once: everything once for each rank along dp, and what is "
           "not divided also once for each rank along tp.";
  if (pp > 1)
    for (int s = 0; s < pp; ++s)
      if (const double its_parts = squares_of(whole.stages[s], true),
          its_copies = squares_of(whole.stages[s], false);
          is(its_parts + its_copies) || is(its_parts + tp * its_copies))
        return fmt::format(
            "This is the norm of one stage, {}. The norm of the model needs the squares of all "
            "stages: add them along pp.",
            s);
  if (pp > 1 && is((parts + copies) / pp))
    return "This is the root of the average over the stages. They have parameters of their own, "
           "whose squares are added.";
  if (tp > 1 && (is((parts + copies) / tp) || is((parts + tp * copies) / tp)))
    return "The squares are averaged along tp. The ranks have different parts of the divided "
           "gradients: add their squares.";
  if (tp > 1 && (is(own_parts + copies) || is(own_parts + copies_of_first)))
    return "This contains the parts of a single rank along tp. Divided gradients are different on "
           "each of these ranks: add their squares along tp.";
  if (pp * tp > 1 && (is(rank_parts + stage_copies) || (t == 0 && is(rank_parts))))
    return "This is the norm of what this rank has. The norm of the model needs the squares of all "
           "stages and of all parts: add them along pp and tp.";
  if (pp > 1)
    for (int s = 0; s < pp; ++s)
      if (is(parts + squares_of(whole.stages[s], false)))
        return fmt::format(
            "The gradients that are not divided are counted on stage {} only. Each stage has its "
            "own, and one of their copies along tp counts.",
            s);
  if (is(parts))
    return "The gradients that are not divided are missing: one of their copies counts.";
  if (pp * tp > 1 &&
      (is_near(found, norms) || is_near(found, norms_once) || is_near(found, norms_of_stages)))
    return "This is a sum of norms. Norms can't be added, their squares can: take the root once, "
           "after all sums.";
  if (const std::string name = parameter_that_counts_wrongly(whole, found); !name.empty())
    return name;
  if (const double error = std::abs(found / std::sqrt(parts + copies) - 1); error < 0.01)
    return fmt::format(
        "The norm is wrong by {:.2g} of its size, and sums in f32 can be wrong by at most {:.2g}. "
        "Does a single number count twice or not at all? Or is something rounded to fewer bits "
        "than those of an f32?",
        error, is_near.tolerance);
  return "The norm is the root of the sum of the squares of all numbers, each of which counts "
         "once: add along tp and pp, but only one copy of what is not divided, and not along dp.";
}

/// Which of its gradients a rank has changed.
struct Clipped {
  bool divided = false, copies = false;  ///< whether any of these have changed
  bool any() const { return divided || copies; }
};

/// Explains why a gradient on the rank of this stage and this place along tp has been multiplied by
/// `found`. `here` says which of its gradients this rank has changed, and `elsewhere` whether any
/// other rank has changed gradients.
std::string why_not_factor(const Whole& whole, const Gradient& before, int stage, int t,
                           double found, const Clipped& here, bool elsewhere) {
  const double norm = norm_of(whole), factor = whole.limit / norm;
  const Near is_near{tolerance(whole)};
  if (norm <= whole.limit)
    return is_near(found, factor)
               ? "The norm is below the limit, and nothing may change then: limit / norm makes the "
                 "gradients larger."
               : "The norm is below the limit: nothing may change then.";
  if (is_near(found, 1)) {
    if (!here.any() && elsewhere)
      return "The norm is above the limit. Other ranks have clipped their gradients, and this one "
             "has not: it compares something of its own with the limit, such as the norm of its "
             "stage. The norm of the model, which is the same on all ranks, decides for all of "
             "them.";
    if (here.divided && !before.divided)
      return "Gradients that are not divided are not clipped. All gradients are multiplied, "
             "even those that do not count in this rank's sum.";
    return "The norm is above the limit, and these gradients are not clipped: multiply them by "
           "limit / norm. The limit is for the norm of the whole model, not for that of one stage "
           "or one rank.";
  }
  if (is_near(found, factor * factor)) return "This is clipped twice.";
  if (is_near(found, 1 / norm))
    return "This divides by the norm. The gradients should have the norm `limit`, and not 1.";
  const double parts = squares_of(part_of(whole, stage, t), true);
  const double copies = squares_of(whole.stages[stage], false);
  if (whole.sizes.pp > 1 &&
      is_near(found, whole.limit / std::sqrt(squares_of(whole.stages[stage], true) + copies)))
    return "This is the factor from the norm of this stage alone. Each stage would be shortened by "
           "another factor, and the whole gradient would change its direction: all need the factor "
           "limit / norm with the norm that is returned.";
  for (const double own : {parts, parts + copies})
    if (is_near(found, whole.limit / std::sqrt(own)))
      return "This rank has a factor of its own, from the norm of its own gradients. The ranks "
             "would no longer agree on their copies, and the whole gradient would change its "
             "direction: all need the factor limit / norm with the norm that is returned.";
  return fmt::format(
      "All numbers are multiplied by limit / norm, which is {:.6g}, and here the "
      "factor is {:.6g}.",
      factor, found);
}

/// A double as three numbers in f32, which add up to it.
std::array<float, 3> in_f32(double number) {
  std::array<float, 3> parts{};
  for (float& part : parts) {
    part = static_cast<float>(number);
    number -= static_cast<double>(part);
  }
  return parts;
}

constexpr int calls = 2;

/// One rank's results of one call: the norm, followed by its gradients.
struct Returned {
  double norm;
  std::span<const float> numbers;
};

/// A rank's results are those of all its calls, each with the same number of numbers.
Returned returned(const std::vector<float>& results, int call) {
  const std::size_t each = results.size() / calls;
  const auto all = std::span{results}.subspan(at(call) * each, each);
  return {static_cast<double>(all[0]) + static_cast<double>(all[1]) + static_cast<double>(all[2]),
          all.subspan(3)};
}

/// "rank 1 (dp 0, pp 0, tp 1)".
std::string place(const Mesh& mesh, int rank) {
  return fmt::format("rank {} (dp {}, pp {}, tp {})", rank, mesh.coordinate(rank, Axis::dp),
                     mesh.coordinate(rank, Axis::pp), mesh.coordinate(rank, Axis::tp));
}

/// Throws Wrong unless all ranks have returned the norm of `steps[call]`, bitwise the same.
void check_norms(const std::string& what, const std::vector<Whole>& steps, const Outcome& outcome,
                 int call) {
  const Whole& whole = steps[at(call)];
  const Mesh mesh = whole.sizes.mesh();
  const Near is_near{tolerance(whole)};
  const double norm = norm_of(whole);
  const auto of = [&](int r) { return returned(outcome.results[r], call).norm; };
  for (int r = 0; r < mesh.ranks(); ++r) {
    const double found = of(r);
    if (is_near(found, norm)) continue;
    std::string why =
        why_not_norm(whole, mesh.coordinate(r, Axis::pp), mesh.coordinate(r, Axis::tp), found);
    if (call > 0) {
      const double before = norm_of(steps[0]);
      const std::string where = " Is it kept in a static or a global variable?";
      if (is_near(found, before))
        why = "This is the norm of the call before." + where;
      else if (is_near(found, std::hypot(norm, before)))
        why = "The sum still contains the squares of the call before." + where;
      else
        why = "Does something of the call before remain, in a static or a global variable? " + why;
    }
    throw Wrong{fmt::format("{}: the norm is {:.7g}, and {} returns {:.7g}", what, norm,
                            place(mesh, r), found),
                why};
  }
  for (int r = 1; r < mesh.ranks(); ++r)
    if (of(r) != of(0))
      throw Wrong{fmt::format("{}: rank 0 returns the norm {:.12g}, and {} returns {:.12g}", what,
                              of(0), place(mesh, r), of(r)),
                  "Both are right but for rounding, and yet not the same. The ranks would multiply "
                  "copies of the same parameter by different factors, and the copies would drift "
                  "apart. Sums of floats depend on the order: add the same numbers in the same "
                  "order on each rank, as an all-reduce does."};
}

/// Throws Wrong unless all ranks have multiplied their gradients by the right factor.
void check_numbers(const std::string& what, const Whole& whole, const Outcome& outcome, int call) {
  const Mesh mesh = whole.sizes.mesh();
  const Near is_near{tolerance(whole)};
  const double norm = norm_of(whole), factor = std::min(1.0, whole.limit / norm);
  const auto before = [&](int r) {
    return part_of(whole, mesh.coordinate(r, Axis::pp), mesh.coordinate(r, Axis::tp));
  };
  std::vector<Clipped> clipped(static_cast<std::size_t>(mesh.ranks()));
  for (int r = 0; r < mesh.ranks(); ++r) {
    std::size_t next = 0;
    Clipped& its = clipped[at(r)];
    for (const Gradient& each : before(r))
      for (const float number : each.numbers)
        if (returned(outcome.results[r], call).numbers[next++] != number)
          (each.divided ? its.divided : its.copies) = true;
  }
  for (int r = 0; r < mesh.ranks(); ++r) {
    std::size_t next = 0;
    for (const Gradient& each : before(r))
      for (const double number : each.numbers) {
        const double found = returned(outcome.results[r], call).numbers[next++];
        if (const double expected = number * factor;
            factor == 1 ? found == expected : is_near(found, expected))
          continue;
        throw Wrong{fmt::format("{}, norm {:.6g}: a number of {} on rank {} was {:g}, should be "
                                "{:.5g}, and is {:.5g}",
                                what, norm, each.name, r, number, number * factor, found),
                    why_not_factor(whole, each, mesh.coordinate(r, Axis::pp),
                                   mesh.coordinate(r, Axis::tp), found / number, clipped[at(r)],
                                   std::ranges::any_of(clipped, &Clipped::any))};
      }
  }
}

void check_one(Check& check, const Case& sizes, double limit_by_norm) {
  const Mesh mesh = sizes.mesh();
  std::vector<Whole> steps{random_whole(check, sizes, limit_by_norm)};
  // The same sizes, and a limit on the other side of the norm.
  while (steps.size() < calls) {
    steps.push_back(steps.front());
    for (auto& stage : steps.back().stages)
      for (Gradient& each : stage)
        for (float& number : each.numbers) number *= 0.75F;
    steps.back().limit = norm_of(steps.back()) / limit_by_norm;
  }
  const std::string what =
      fmt::format("{}, dp {}, pp {}, tp {}, limit {:.4g}", count_of(sizes.ranks(), "rank"),
                  sizes.dp, sizes.pp, sizes.tp, steps.front().limit);
  const Outcome outcome = check.run(
      what, mesh,
      [&](World& world) {
        const int r = world.rank();
        std::vector<float> results;
        for (const Whole& whole : steps) {
          std::vector<Gradient> gradients =
              part_of(whole, mesh.coordinate(r, Axis::pp), mesh.coordinate(r, Axis::tp));
          std::vector<std::size_t> counts;
          for (const Gradient& each : gradients) counts.push_back(each.numbers.size());
          const auto norm = in_f32(clip_gradients(world, gradients, whole.limit));
          results.insert(results.end(), norm.begin(), norm.end());
          if (!std::ranges::equal(gradients, counts, {},
                                  [](const Gradient& each) { return each.numbers.size(); }))
            throw Wrong{"the gradients have other sizes now", "Only the numbers change."};
          for (const Gradient& each : gradients)
            results.insert(results.end(), each.numbers.begin(), each.numbers.end());
        }
        return results;
      },
      diagnose_failure);
  for (int call = 0; call < calls; ++call) {
    const Whole& whole = steps[at(call)];
    const std::string which =
        call == 0 ? what
                  : fmt::format(
                        "{}; a second call, with 0.75 times the gradients and the limit "
                        "{:.4g}",
                        what, whole.limit);
    check_norms(which, steps, outcome, call);
    check_numbers(which, whole, outcome, call);
  }
  // One sum per gradient costs little compared with the large gradients of some cases.
  const std::int64_t N = sizes.ranks(), numbers = std::ssize(steps[0].stages[0]) + 2;
  const std::int64_t most_bytes = calls * 4 * numbers * N * (N - 1);
  const std::int64_t sent = outcome.all_bytes_sent();
  if (sent > most_bytes)
    throw Wrong{fmt::format("{}: in {} calls, the ranks send {} B together, and {} B are enough to "
                            "tell all ranks {} numbers of each in every call",
                            what, calls, sent, most_bytes, numbers),
                "Norm and gradients are right, but gradients are sent. A rank adds the squares of "
                "its own numbers, and sends this sum."};
  if (sizes.dp == 2 && sizes.pp == 2 && sizes.tp == 2 && check.picture().text.empty())
    check.show(
        "Your run on dp 2, pp 2, tp 2, two calls: to whom each rank sends its sum of squares. "
        "Ranks 0 and 1 differ along tp, ranks 0 and 2 along dp, ranks 0 and 4 along pp.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  // With {1, 1, 3, 2}, a rank has no part.
  const Case cases[]{{1, 1, 1, 3},   {1, 1, 2, 4}, {1, 2, 1, 4},   {2, 1, 1, 4},
                     {1, 1, 3, 2},   {2, 2, 2, 9}, {1, 2, 4, 30},  {1, 4, 2, 7},
                     {2, 1, 4, 400}, {4, 2, 1, 5}, {1, 8, 1, 200}, {2, 2, 3, 5}};
  for (const Case& sizes : cases)
    for (const double limit_by_norm : {0.5, 2.0, 0.99}) check_one(check, sizes, limit_by_norm);
}

}  // namespace lockstep::exercises
