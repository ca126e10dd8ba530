#include "exercises/31_master_weights/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "exercises/frame/check.h"
#include "kernels/element.h"

namespace lockstep::exercises {

const char* const learned =
    "Updates go to f32 masters, because 16-bit weights round small ones away. The loss scale keeps "
    "small gradients in f16, is divided out before the optimizer, and finds its own size; and one "
    "number per rank is enough to agree on a step.";

Half to_half(float number) {
  return {element::to_f16(number)};
}
float to_float(Half number) {
  return element::from_f16(number.bits);
}

namespace {

using Numbers = std::vector<float>;

enum class Kind { infinite, negative, both, nan, largest };
constexpr const char* names[] = {"inf", "-inf", "inf and -inf", "NaN", "65504"};

/// Special gradients of a rank in a step. All kinds but Kind::largest are overflows.
struct Event {
  int step, rank;
  Kind kind;
};

struct Case {
  std::vector<int> sizes;  ///< the parameters, by rank
  int steps, growth_interval;
  std::vector<Event> events;
  float scale = 0;                     ///< at first; 0: a random one
  float unit_of_gradients = 0x1p-20F;  ///< gradients are at most 1000 of these
  /// A step changes a weight by less than 1/8192, a quarter of the 1/2048 that it takes to round to
  /// another f16 number.
  float rate() const { return 0x1p-23F / unit_of_gradients; }
  int N() const { return static_cast<int>(sizes.size()); }
  /// The first rank whose gradients overflow in this step, or -1.
  int overflows(int step, int rank = -1) const {
    for (const Event& each : events)
      if (each.step == step && each.kind != Kind::largest && (rank < 0 || rank == each.rank))
        return each.rank;
    return -1;
  }
  std::string text() const {
    std::string text = fmt::format("{}, {} parameters, growth interval {}", count_of(N(), "rank"),
                                   fmt::join(sizes, " + "), growth_interval);
    if (scale > 0) text += fmt::format(", scale {:g} at first", scale);
    for (const Event& each : events)
      text += fmt::format(", {} on rank {} in step {}", names[static_cast<int>(each.kind)],
                          each.rank, each.step);
    return text;
  }
};

void sgd(float rate, std::span<float> parameters, std::span<const float> gradients) {
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rate * gradients[i];
}

Numbers widened(const std::vector<Half>& numbers) {
  Numbers all;
  for (const Half each : numbers) all.push_back(to_float(each));
  return all;
}
Numbers rounded(const Numbers& numbers) {
  Numbers all;
  for (const float each : numbers) all.push_back(to_float(to_half(each)));
  return all;
}

/// One rank: its gradients in each step, and the state that it must have afterwards.
class RankCheck {
 public:
  /// `slopes` are a step's gradients in units, the same in each step.
  RankCheck(const Case& sizes, int rank, const Numbers& initial, Numbers slopes, float scale)
      : case_(sizes),
        rank_(rank),
        initial_(initial),
        slopes_(std::move(slopes)),
        first_scale_(scale),
        masters_(initial),
        scale_(scale) {}

  void run(World& world) {
    Mixed state = begin(initial_, first_scale_);
    check_begin(state);
    for (step_ = 0; step_ < case_.steps; ++step_) {
      const std::vector<Half> gradients = scaled_gradients();
      updates_ = 0;
      const int skips = case_.overflows(step_);
      world.compute("FB", 4);
      const bool taken = step(world, state, gradients, case_.growth_interval,
                              [&](std::span<float> parameters, std::span<const float> unscaled) {
                                update(parameters, unscaled);
                              });
      if (skips < 0) check_taken(taken);
      if (skips >= 0 && taken)
        throw Wrong{place() + "returns true", "The step was skipped: return false."};
      const float before = scale_;
      if (skips >= 0) {
        scale_ /= 2;
        good_ = 0;
      } else if (++good_ == case_.growth_interval) {
        scale_ *= 2;
        good_ = 0;
      }
      check_state(state, before, skips);
    }
  }

 private:
  std::string place() const { return fmt::format("in step {}, rank {} ", step_, rank_); }

  void check_begin(const Mixed& state) const {
    const auto check = [&](const char* name, std::size_t size) {
      if (size != initial_.size())
        throw Wrong{fmt::format("begin() has returned {} {}, for {}", size, name,
                                count_of(std::ssize(initial_), "parameter")),
                    "Each parameter has a weight and a master."};
    };
    check("weights", state.weights.size());
    check("masters", state.masters.size());
    if (state.scale != first_scale_ || state.good_steps != 0)
      throw Wrong{fmt::format("begin() has returned a scale of {:g} and {} good steps; they should "
                              "be {:g} and 0",
                              state.scale, state.good_steps, first_scale_),
                  "The scale is the one that begin() is called with. No step has been taken."};
    if (state.masters != initial_)
      throw Wrong{fmt::format("the masters should be [{}] at first, and are [{}]", list(initial_),
                              list(state.masters)),
                  state.masters == rounded(initial_)
                      ? "The masters have been rounded to f16. They are the f32 numbers themselves."
                      : "The masters begin as the initial parameters."};
    if (widened(state.weights) != rounded(initial_))
      throw Wrong{fmt::format("the weights should be [{}] at first, and are [{}]",
                              list(rounded(initial_)), list(widened(state.weights))),
                  "The weights are the masters, rounded by to_half()."};
  }

  Numbers true_gradients() const {
    Numbers all;
    for (const float each : slopes_) all.push_back(each * case_.unit_of_gradients);
    for (const Event& each : case_.events)
      if (each.step == step_ && each.rank == rank_ && each.kind == Kind::largest)
        all.back() = 65504 / scale_;
    return all;
  }
  /// The gradients as the backward pass would leave them: exact in f16, unless there is an event.
  std::vector<Half> scaled_gradients() const {
    std::vector<Half> all;
    for (const float each : true_gradients()) all.push_back(to_half(each * scale_));
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const Event& each : case_.events) {
      if (each.step != step_ || each.rank != rank_) continue;
      if (each.kind == Kind::infinite) all.back() = to_half(infinity);
      if (each.kind == Kind::negative) all[all.size() / 2] = to_half(-infinity);
      if (each.kind == Kind::nan) all.back() = to_half(std::nanf(""));
      if (each.kind == Kind::both) {
        all.front() = to_half(infinity);
        all.back() = to_half(-infinity);
      }
    }
    return all;
  }

  void update(std::span<float> parameters, std::span<const float> gradients) {
    if (++updates_ > 1)
      throw Wrong{place() + "calls update twice", "The optimizer takes one step."};
    if (parameters.size() != initial_.size() || gradients.size() != initial_.size())
      throw Wrong{fmt::format("{}calls update with {} and {}, and has {}", place(),
                              count_of(static_cast<std::int64_t>(parameters.size()), "parameter"),
                              count_of(static_cast<std::int64_t>(gradients.size()), "gradient"),
                              count_of(std::ssize(initial_), "parameter")),
                  "The optimizer gets all of the rank's parameters and gradients at once."};
    if (const int other = case_.overflows(step_); other >= 0) throw why_not_skipped(other);
    const Numbers right = true_gradients();
    if (!std::ranges::equal(gradients, right)) throw why_not_gradients(gradients, right);
    if (!std::ranges::equal(parameters, masters_)) {
      const bool are_weights = std::ranges::equal(parameters, rounded(masters_));
      throw Wrong{
          fmt::format("{}updates the parameters [{}], and should update the masters, [{}]", place(),
                      list(parameters), list(masters_)),
          are_weights
              ? "These are the 16-bit weights. An update that is smaller than half the distance to "
                "the next f16 number is rounded away, in this step and in every later one. The "
                "optimizer updates the masters, in which small updates add up."
              : "The masters change only by the optimizer's updates."};
    }
    sgd(case_.rate(), parameters, gradients);
    sgd(case_.rate(), masters_, right);
  }

  Wrong why_not_skipped(int other) const {
    const bool is_own = case_.overflows(step_, rank_) >= 0;
    if (!is_own)
      return {
          fmt::format("{}takes the step, although gradients overflow on rank {}", place(), other),
          "The ranks must agree: if one skips the step and another takes it, their parameters "
          "are no longer of the same step, and their scales differ from then on. Each rank "
          "tells the others whether it has found an overflow, also the one that has found it."};
    const auto own = [&](Kind kind) {
      return std::ranges::any_of(case_.events, [&](const Event& each) {
        return each.step == step_ && each.rank == rank_ && each.kind == kind;
      });
    };
    return {
        fmt::format("{}takes the step, although its gradients overflow", place()),
        own(Kind::nan) ? "One of its gradients is NaN. A NaN is not infinite, and no comparison "
                         "with it is true: std::isfinite() finds both."
        : own(Kind::both)
            ? "Two of its gradients are inf and -inf. Their sum is NaN, which is not infinite: "
              "std::isfinite() finds both."
        : own(Kind::negative)
            ? "One of its gradients is -inf. It is an overflow as much as inf is."
            : "One of its gradients is inf. With it, the optimizer would destroy the masters and "
              "its own states for good."};
  }
  Wrong why_not_gradients(std::span<const float> found, const Numbers& right) const {
    const std::string what =
        fmt::format("{}updates with the gradients [{}], and should with [{}]; the scale is {:g}",
                    place(), list(found), list(right), scale_);
    if (const auto as_f16 = rounded(right); as_f16 != right && std::ranges::equal(found, as_f16))
      return {
          what,
          "These gradients were rounded to f16 after unscaling, and some became 0: they are too "
          "small for f16, which is why they were scaled. Widen them with to_float() first, then "
          "divide by the scale in f32."};
    float factor = 0;
    for (std::size_t i = 0; i < right.size(); ++i)
      if (right[i] != 0) factor = found[i] / right[i];
    for (std::size_t i = 0; i < right.size(); ++i)
      if (found[i] != factor * right[i]) factor = 0;
    if (factor == 1 / scale_) return {what, "The gradients are divided by the scale twice."};
    if (factor == scale_)
      return {what,
              "They are still multiplied by the loss scale. Divide by it before the optimizer uses "
              "them."};
    if (factor == 2 || factor == 0.5F)
      return {what,
              fmt::format("They are {} the right ones. A gradient is divided by the scale by which "
                          "its own loss was multiplied, not by that of the next step.",
                          factor == 2 ? "twice" : "half")};
    return {what,
            "The optimizer gets the gradients of the loss without its scale, in f32: to_float() is "
            "exact, and so is a division by a power of two."};
  }

  void check_taken(bool taken) const {
    if (updates_ == 0)
      throw Wrong{
          place() + "skips the step, although all gradients of all ranks are finite",
          std::ranges::none_of(case_.events, [&](const Event& each) { return each.step == step_; })
              ? "Without an overflow, the optimizer is called on every rank."
              : "A large gradient is no overflow: 65504 is a number in f16."};
    if (!taken)
      throw Wrong{place() + "takes the step and returns false", "The step was taken: return true."};
  }

  void check_state(const Mixed& state, float before, int skips) const {
    if (state.scale != scale_) throw why_not_scale(state.scale, before, skips);
    if (state.good_steps != good_)
      throw Wrong{fmt::format("{}leaves good_steps at {}, and should at {}", place(),
                              state.good_steps, good_),
                  skips >= 0 ? "A skipped step ends the row of good ones: counting begins anew."
                  : good_ == 0
                      ? "When the scale has been doubled, counting begins anew."
                      : "It counts the good steps in a row since the scale has last changed."};
    if (state.masters != masters_)
      throw Wrong{
          fmt::format("{}leaves the masters [{}], and should leave [{}]", place(),
                      list(state.masters), list(masters_)),
          skips >= 0 ? "A skipped step changes no parameter."
          : state.masters == rounded(masters_)
              ? "The masters have been rounded to f16. They keep what the weights can't: what is "
                "smaller than the distance between two f16 numbers."
              : "The masters must be as the optimizer has left them."};
    if (widened(state.weights) != rounded(masters_))
      throw Wrong{fmt::format("{}leaves the weights [{}], and should leave [{}]", place(),
                              list(widened(state.weights)), list(rounded(masters_))),
                  "After the update, the weights are the new masters, rounded. The next forward "
                  "pass computes with them."};
  }
  Wrong why_not_scale(float found, float before, int skips) const {
    const std::string what =
        fmt::format("{}leaves a scale of {:g}, and should leave {:g}", place(), found, scale_);
    if (skips >= 0 && scale_ < 1 && found > scale_)
      return {what,
              "After an overflow, the scale is halved, even if it is below 1 then. With a lower "
              "bound, a model whose gradients still overflow there would never take a step again."};
    if (skips >= 0)
      return {what,
              found == before
                  ? fmt::format("Gradients overflow on rank {}: all ranks halve the scale, so "
                                "that they still have the same one.",
                                skips)
                  : "After an overflow, the scale is halved."};
    if (scale_ > before)
      return {what, fmt::format("This was good step {} in a row: the scale is doubled.",
                                case_.growth_interval)};
    return {what, found > before
                      ? fmt::format("The scale grows only after {} in a row; a skipped step, and a "
                                    "change of the scale, begin a new row.",
                                    count_of(case_.growth_interval, "good step"))
                      : "All gradients are finite on all ranks: the scale is not halved."};
  }

  const Case& case_;
  const int rank_;
  const Numbers& initial_;
  const Numbers slopes_;
  const float first_scale_;
  Numbers masters_;  ///< the expected masters
  float scale_;
  int good_ = 0;
  int step_ = 0, updates_ = 0;
};

std::string diagnose_failure(const Failure& failure) {
  if (failure.waits_for_finished)
    return "A rank has left while another one waits for it. A rank that has found an overflow, or "
           "that has no parameters, still takes part in the agreement.";
  return "All ranks must call the same collectives, with the same sizes, in the same order: a rank "
         "that has found an overflow, too, and one that has no parameters.";
}

void check_one(Check& check, const Case& sizes) {
  const int N = sizes.N();
  const std::string what = sizes.text();
  std::vector<Numbers> initial, slopes;
  for (const int count : sizes.sizes) {
    initial.emplace_back();
    slopes.emplace_back();
    for (int i = 0; i < count; ++i) {
      // Between 1 and 2, and never exactly representable in f16.
      initial.back().push_back(1 + static_cast<float>(2 * check.number_from(0, 499'999) + 1) *
                                       0x1p-20F);
      slopes.back().push_back(
          static_cast<float>(check.number_from(600, 1000) * (check.number_from(0, 1) ? 1 : -1)));
    }
  }
  const auto random_scale = static_cast<float>(1 << check.number_from(9, 11));
  const float scale = sizes.scale > 0 ? sizes.scale : random_scale;
  const Outcome outcome = check.run(
      what, N,
      [&](World& world) {
        const auto r = at(world.rank());
        RankCheck{sizes, world.rank(), initial[r], slopes[r], scale}.run(world);
        return Numbers{};
      },
      diagnose_failure);

  const std::int64_t sent = outcome.all_bytes_sent();
  const std::int64_t most = std::int64_t{4} * sizes.steps * N * (N - 1);
  if (sent > most)
    throw Wrong{fmt::format("{}: in {}, the ranks send {} B together, and one number of each rank "
                            "to each other one in each step are {} B",
                            what, count_of(sizes.steps, "step"), sent, most),
                "All steps are right, but too much is sent. No rank needs the others' gradients: "
                "it needs to know whether there is an overflow among them."};
  expect_nothing_empty(what, outcome);
  for (int r = 0; r < N; ++r)
    if (const std::int64_t found = outcome.messages_sent[at(r)],
        all_reduce = std::int64_t{2} * (N - 1);
        found > sizes.steps * all_reduce)
      throw Wrong{fmt::format("{}: in {}, rank {} sends {}, and one all-reduce in each step has {}",
                              what, count_of(sizes.steps, "step"), r, count_of(found, "message"),
                              sizes.steps * all_reduce),
                  "All steps are right, but the ranks agree more often than once per step. One "
                  "number of each rank tells whether there is an overflow among its gradients."};
  if (N == 4 && check.picture().text.empty())
    check.show(
        "Your run on 4 ranks: after each backward pass, the ranks agree whether to take the step.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  using enum Kind;
  for (const Case& sizes : {Case{{1}, 3, 100, {}},
                            {{3}, 12, 100, {}},
                            {{2}, 4, 100, {{1, 0, infinite}}},
                            {{3}, 4, 100, {{1, 0, negative}, {2, 0, nan}}},
                            {{2}, 6, 2, {}},
                            {{2}, 3, 100, {{1, 0, largest}}},
                            {{2, 2}, 4, 100, {{1, 1, infinite}}},
                            {{1, 3}, 4, 100, {{1, 0, negative}, {2, 0, nan}}},
                            {{2, 3}, 10, 3, {{1, 1, both}, {6, 0, infinite}, {6, 1, nan}}},
                            {{3, 0, 2}, 9, 2, {{3, 2, infinite}, {4, 0, infinite}}},
                            {{2, 2}, 5, 1, {{2, 1, nan}}},
                            {{50, 40, 30, 20}, 12, 4, {{0, 3, both}, {5, 1, infinite}}},
                            {{2, 1}, 4, 3, {{2, 1, largest}}},
                            // Without their scale, these gradients would be 0 in f16.
                            {{2, 3}, 5, 2, {{2, 1, infinite}}, 0x1p16F, 0x1p-35F},
                            // The scale falls to 1/4 and grows again.
                            {{3}, 7, 2, {{0, 0, infinite}, {1, 0, nan}, {2, 0, both}}, 2},
                            {{1, 2}, 7, 2, {{0, 1, nan}, {1, 0, both}, {2, 1, infinite}}, 2},
                            {{2, 1, 0, 3, 2, 1, 2, 4, 1, 0, 2}, 3, 2, {{1, 10, infinite}}}})
    check_one(check, sizes);
  for (int trial = 0; trial < 4; ++trial) {
    Case sizes{{}, 12, check.number_from(2, 5), {}};
    const int N = check.number_from(1, 8);
    for (int r = 0; r < N; ++r) sizes.sizes.push_back(check.number_from(2, 9));
    for (int s = check.number_from(0, 3); s < sizes.steps; s += check.number_from(1, 5))
      sizes.events.push_back(
          {s, check.number_from(0, N - 1), static_cast<Kind>(check.number_from(0, 3))});
    check_one(check, sizes);
  }
}

}  // namespace lockstep::exercises
