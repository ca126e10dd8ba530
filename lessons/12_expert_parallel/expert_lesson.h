#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/plan/divisions.h"
#include "core/run/lesson.h"
#include "lessons/12_expert_parallel/routing.h"

namespace lockstep {

/// The settings of lesson 12. The batch has 24 sequences, which can be divided evenly among 1, 2,
/// 3, 4 and 8 ranks.
inline LessonInfo expert_lesson() {
  return {.name = "12 expert parallel",
          .question = "How can parameters grow while the FLOPs per token stay the same?",
          .batch = 24,
          .microbatches = {1},
          .narrow = true,
          .clips = false,
          .axes = {Axis::dp, Axis::ep, Axis::tp},
          .tolerance = {.loss = 1e-5, .parameter = 1e-4},
          .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

/// The flags of a mixture of experts.
struct RoutingFlags {
  const int& experts;
  const int& top_k;
  const double& capacity;
  const double& balance;
  const std::string& routing;

  MixtureOfExperts settings(const Options& options) const {
    return {.experts = experts,
            .top_k = top_k,
            .capacity_factor = capacity,
            .balance = balance,
            .batch_tokens = static_cast<std::int64_t>(options.plan.batch.sequences) *
                            options.plan.model().sequence,
            .synthetic = routing == "zipf" ? SyntheticRouting::zipf : SyntheticRouting::balanced,
            .seed = options.plan.seed};
  }
};
/// The values of the lesson's own flags.
struct ExpertFlags : RoutingFlags {
  const std::string& over;
  const std::string& balance_over;
  const int& follow;

  MixtureOfExperts settings(const Options& options) const {
    MixtureOfExperts moe = RoutingFlags::settings(options);
    moe.balance_over_batch = balance_over == "batch";
    return moe;
  }
};

/// Adds the flags of a mixture of experts. `otherwise` is the default of --experts, and `experts`
/// its help. The references are valid for the lesson's lifetime.
inline RoutingFlags routing_flags(Lesson& lesson,
                                  const std::string& experts = "experts in each layer",
                                  int otherwise = 8) {
  return {
      .experts = lesson.flag("--experts", otherwise, experts),
      .top_k = lesson.flag("--top-k", 2, "experts that process each token"),
      .capacity = lesson.flag("--capacity", 0.0,
                              "the capacity factor: an expert accepts at most this many times its "
                              "share of the tokens, and drops the rest; 0: dropless"),
      .balance = lesson.flag("--balance", 0.01, "the coefficient of the load-balance loss"),
      .routing = lesson.flag("--routing", std::string{"learned"}, {"learned", "balanced", "zipf"},
                             "learned by the router; or, on the meta device, balanced (the "
                             "default there) or with a popularity of 1/i")};
}
/// Adds the lesson's flags. The references are valid for the lesson's lifetime.
inline ExpertFlags expert_flags(Lesson& lesson) {
  const RoutingFlags routing = routing_flags(lesson);
  return {routing,
          lesson.flag("--experts-over", std::string{"dp"}, {"dp", "tp"},
                      "the ranks that divide the experts: data-parallel ranks, each with "
                      "its own tokens (--ep), or the tensor-parallel group, whose ranks "
                      "have the same tokens (--tp)"),
          lesson.flag("--balance-over", std::string{"microbatch"}, {"microbatch", "batch"},
                      "the tokens whose statistics the load-balance loss takes: those of one "
                      "microbatch on one rank, or of the whole batch"),
          lesson.flag("--follow", -1,
                      "shows the way of this token of rank 0, counted from 0, through the last "
                      "microbatch of the run; by default, of none")};
}

/// Throws UsageError for a mixture of experts that is impossible if `n` ranks along `axis` divide
/// the experts.
inline void check_routing(const Options& options, const RoutingFlags& flags, Axis axis, int n) {
  const int experts = flags.experts;
  if (experts < 1)
    throw UsageError(
        fmt::format("--experts {}: a layer needs at least one expert; use --experts 1", experts));
  check_division({.flags = fmt::format("--experts {} with --{} {}", experts, name_of(axis), n),
                  .whole = experts,
                  .items = "experts",
                  .by = n,
                  .into = fmt::format("{} equal groups", n)},
                 [&] { return nearest_multiples("--experts", n, experts); });
  if (flags.top_k < 1 || flags.top_k > experts)
    throw UsageError(fmt::format(
        "--top-k {} with --experts {}: a token goes to at least 1 and at most {} experts; use "
        "--top-k {}",
        flags.top_k, experts, experts, flags.top_k < 1 ? 1 : experts));
  if (!(flags.capacity >= 0 && flags.capacity <= experts))
    throw UsageError(
        fmt::format("--capacity {}: the factor must be from 0 (dropless) to {}, the number of "
                    "experts; 1.25 is common",
                    flags.capacity, experts));
  if (!(flags.balance >= 0 && flags.balance < 1e3))
    throw UsageError(fmt::format(
        "--balance {}: a coefficient is at least 0; 0.01 is common, and 0 turns the loss off",
        flags.balance));
  if (flags.routing != "learned" && !options.platform.on_meta())
    throw UsageError(fmt::format(
        "--routing {}: only the meta device needs it; use --device meta, or --routing learned",
        flags.routing));
}

/// Throws UsageError for options that the lesson does not support.
inline void check_expert_lesson(const Options& options, const ExpertFlags& flags) {
  const int ep = options.plan.mesh.size(Axis::ep), tp = options.plan.mesh.size(Axis::tp);
  const bool over_tp = flags.over == "tp";
  if (flags.experts >= 1) {
    if (over_tp && tp == 1)
      throw UsageError(
          "--experts-over tp: there is no tensor-parallel group; use --tp 2, or --experts-over dp");
    if (over_tp && ep > 1)
      throw UsageError(fmt::format(
          "--ep {} with --experts-over tp: the ranks of --tp divide the experts; use --ep 1", ep));
    if (!over_tp && tp > 1)
      throw UsageError(
          fmt::format("--tp {} with --experts-over dp: this mode has no tensor parallelism; leave "
                      "--tp out, or use --experts-over tp",
                      tp));
  }
  check_routing(options, flags, over_tp ? Axis::tp : Axis::ep, over_tp ? tp : ep);
  if (flags.balance_over == "batch" && flags.capacity > 0)
    throw UsageError(fmt::format(
        "--capacity {} with --balance-over batch: a capacity counts the tokens of one microbatch "
        "on one rank, so the run would not equal one device that takes the whole batch at once; "
        "use --capacity 0, or --balance-over microbatch",
        flags.capacity));
  if (flags.follow < 0) return;
  const Plan& plan = options.plan;
  int microbatches = plan.batch.microbatches;  // the most in any phase
  for (const int m : options.run.sweep) microbatches = std::max(microbatches, m);
  const int tokens =
      plan.batch.sequences / plan.mesh.size(Axis::dp) / microbatches * plan.model().sequence;
  if (flags.follow >= tokens)
    throw UsageError(fmt::format(
        "--follow {}: a microbatch of rank 0 has {} tokens, counted from 0; use --follow {}",
        flags.follow, tokens, tokens - 1));
  if (over_tp)
    throw UsageError(
        fmt::format("--follow {} with --experts-over tp: no token travels; use --experts-over dp",
                    flags.follow));
  if (options.platform.on_meta())
    throw UsageError(fmt::format(
        "--follow {}: no router computes on the meta device; use --device cpu", flags.follow));
}

}  // namespace lockstep
