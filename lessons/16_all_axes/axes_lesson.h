#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/run/lesson.h"
#include "lessons/12_expert_parallel/expert_lesson.h"
#include "lessons/13_ring_attention/context_lesson.h"
#include "lessons/14_mixed_precision/recompute_flag.h"
#include "lessons/15_3d/flags_3d.h"
#include "lessons/16_all_axes/all_axes.h"

namespace lockstep {

/// The settings of a lesson on a mesh of all axes. Two ranks along each axis are the default.
inline LessonInfo all_axes(const std::string& name, const std::string& question) {
  LessonInfo info = three_axes(name, question);
  info.ranks = 16;
  info.axes = {Axis::dp, Axis::pp, Axis::cp, Axis::tp, Axis::ep};
  info.sizes = {{Axis::pp, 2}, {Axis::cp, 2}, {Axis::tp, 2}};
  info.experts_over_all = true;
  return info;
}

/// Throws UsageError for options that the lesson does not support.
inline void check_all_axes(const Options& options, const AllAxes& chosen,
                           const RoutingFlags& routing) {
  if (routing.experts != 0) {
    check_routing(options, routing, Axis::ep, options.plan.mesh.size(Axis::ep));
    if (chosen.zero > 0)
      throw UsageError(
          fmt::format("--zero {} with --experts {}: this lesson does not divide the states of "
                      "experts further; use --zero 0, or --experts 0",
                      chosen.zero, routing.experts));
  }
  check_three_axes(options, chosen);
  check_context_method(options.plan, chosen.method);
  if (chosen.recompute == Recompute::none && options.plan.mesh.size(Axis::cp) > 1)
    throw UsageError(fmt::format(
        "--recompute none with --cp {}: attention that meets other ranks' keys never has all "
        "probabilities, so backward recomputes them; use --recompute selective, or --cp 1",
        options.plan.mesh.size(Axis::cp)));
}

/// The lesson's own flags.
class AllAxesFlags {
 public:
  /// Adds the flags and their checks to a lesson, which must outlive this object. `experts` and
  /// `recompute` are the defaults of --experts and --recompute.
  explicit AllAxesFlags(Lesson& lesson, int experts = 8, Recompute recompute = Recompute::full)
      : sequence_(lesson.flag("--sequence-parallel", std::string{"on"}, {"on", "off"},
                              "tp ranks also divide the tokens between the products (lesson 7)")),
        method_(context_method_flag(lesson)),
        recompute_(recompute_flag(lesson, recompute)),
        routing_(routing_flags(lesson, "experts in each layer; 0: a dense MLP", experts)),
        data_(lesson) {
    lesson.hooks.checks.emplace_back(
        [this](const Options& options) { check_all_axes(options, chosen(options), routing_); });
  }

  /// Returns the values, once the lesson has parsed its flags.
  AllAxes chosen(const Options& options) const {
    return {data_.with(sequence_ == "on"), context_method(method_), recompute_of(recompute_),
            routing_.settings(options), options.plan.mesh.size(Axis::cp)};
  }

 private:
  const std::string &sequence_, &method_, &recompute_;
  RoutingFlags routing_;
  DataFlags data_;
};

}  // namespace lockstep
