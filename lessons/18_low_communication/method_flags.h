#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/run/lesson.h"
#include "lessons/02_data_parallel/replica_lesson.h"
#include "lessons/18_low_communication/prediction.h"

namespace lockstep {

/// The settings of the lesson: workers along dp, or the stages of a pipeline along pp.
inline LessonInfo low_communication() {
  return {.name = "18 low communication",
          .question =
              "How rarely can workers exchange their results if the link between them is "
              "slow?",
          .batch = 32,
          .microbatches = {4},
          .clips = false,
          .axes = {Axis::dp, Axis::pp},
          .tolerance = {.loss = 1e-5, .parameter = 1e-4}};
}

/// The lesson's own flags.
class LowCommunicationFlags {
 public:
  /// Adds the flags and their checks to a lesson.
  explicit LowCommunicationFlags(Lesson& lesson)
      : method_(lesson.flag(
            "--method", std::string{"diloco"},
            {"data-parallel", "diloco", "streaming", "1f1b", "pipedream"},
            "data-parallel, diloco and streaming train copies of the model (--dp); 1f1b and "
            "pipedream divide its layers (--pp)")),
        inner_(lesson.flag("--inner", std::string{"adamw"}, {"adamw", "sgd"},
                           "the optimizer of a worker's own steps; sgd has no momentum")),
        every_(lesson.flag("--every", OuterOptions{}.every,
                           "H: inner steps between two exchanges of diloco and streaming")),
        rate_(lesson.flag("--outer-rate", 0.7, "learning rate of the outer optimizer")),
        momentum_(lesson.flag("--outer-momentum", 0.9, "Nesterov momentum of the outer optimizer")),
        fragments_(lesson.flag("--fragments", StreamingOptions{}.fragments,
                               "streaming: parts of the model, each sent at its own time")),
        delay_(lesson.flag("--delay", StreamingOptions{}.delay,
                           "streaming: inner steps between sending a fragment and using the sum")),
        mix_(lesson.flag("--mix", 0.5,
                         "streaming: weight of the worker's own values when the sum is used")) {
    lesson.hooks.checks.emplace_back([this](const Options& options) { check(options); });
  }

  bool is(const std::string& method) const { return method_ == method; }
  bool is_pipeline() const { return is("1f1b") || is("pipedream"); }
  bool sgd() const { return inner_ == "sgd"; }
  /// Predicts the average step of a run of workers.
  Predicted predict(const Rank& rank, int steps) const {
    if (is("diloco"))
      return predict_diloco(rank.plan, rank.place, outer(), sgd(), one_bucket, steps);
    if (is("streaming"))
      return predict_streaming(rank.plan, rank.place, outer(), streaming(), sgd(), steps);
    return predict_inner(rank.plan, rank.place, sgd(), one_bucket);
  }
  OuterOptions outer() const {
    return {every_, static_cast<float>(rate_), static_cast<float>(momentum_)};
  }
  StreamingOptions streaming() const { return {fragments_, delay_, static_cast<float>(mix_)}; }

 private:
  /// Throws UsageError for flags that do not fit the method.
  void check(const Options& options) const {
    const Mesh& mesh = options.plan.mesh;
    const auto refuse = [](const std::string& what) { throw UsageError(what); };
    if (is_pipeline() ? mesh.size(Axis::dp) > 1 : mesh.size(Axis::pp) > 1)
      refuse(fmt::format(
          "--method {} with --dp {} --pp {}: {}", method_, mesh.size(Axis::dp), mesh.size(Axis::pp),
          is_pipeline()
              ? fmt::format("all ranks are stages of one pipeline; use --pp {}", mesh.ranks())
              : fmt::format("every rank trains a whole model; use --dp {}", mesh.ranks())));
    if (is_pipeline() && sgd())
      refuse(fmt::format(
          "--inner sgd with --method {}: pipelines use AdamW here; leave --inner out", method_));
    if (!is_pipeline() && options.plan.modelled && options.plan.modelled->times.any())
      refuse(
          fmt::format("--time with --method {}: only a pipeline has actions with fixed times; "
                      "leave it out, and set the costs with --cluster",
                      method_));
    if (!is_pipeline() && options.plan.model().trained_count() < mesh.ranks())
      check_replicas(options, default_bucket);
    if (is("pipedream") && options.plan.model().tied)
      refuse(
          "--tied with --method pipedream: the first and the last stage would update their copies "
          "of "
          "the table at different times; leave --tied out");
    if (is("diloco") || is("streaming")) check_outer(options);
    if (!options.output.save.empty() && !is("1f1b") && !is("data-parallel"))
      refuse(fmt::format("--save {} with --method {}: {}; use --export to keep the trained model",
                         options.output.save, method_,
                         is("pipedream") ? "an interrupted run's pipeline is full of microbatches"
                                         : "a checkpoint has one optimizer, but every worker has "
                                           "its own"));
  }

  void check_outer(const Options& options) const {
    const int steps = options.run.steps;
    if (every_ < 1)
      throw UsageError(fmt::format(
          "--every {}: there is at least one inner step between exchanges; use --every 1", every_));
    if (steps % every_ != 0)
      throw UsageError(fmt::format(
          "--steps {} with --every {}: the last {} steps would not be exchanged; use --steps {}",
          steps, every_, steps % every_, (steps / every_ + 1) * every_));
    if (!(rate_ > 0))
      throw UsageError(fmt::format(
          "--outer-rate {:g}: must be above 0, or the outer parameters never change; use "
          "--outer-rate 0.7",
          rate_));
    if (!(momentum_ >= 0 && momentum_ < 1))
      throw UsageError(fmt::format(
          "--outer-momentum {:g}: a momentum is at least 0 and below 1; use --outer-momentum 0.9",
          momentum_));
    if (is("streaming")) check_streaming(options);
  }

  void check_streaming(const Options& options) const {
    const int units = options.plan.model().layers + 2;
    if (fragments_ < 1 || fragments_ > units)
      throw UsageError(fmt::format(
          "--fragments {}: the model has {} parts to send (the embedding, {} blocks and the head); "
          "use --fragments 1 to {}",
          fragments_, units, units - 2, units));
    if (every_ % fragments_ != 0)
      throw UsageError(fmt::format(
          "--every {} with --fragments {}: the exchanges can't be spread evenly over {} steps; use "
          "--every {}",
          every_, fragments_, every_, (every_ / fragments_ + 1) * fragments_));
    if (delay_ < 0 || delay_ >= every_)
      throw UsageError(fmt::format(
          "--delay {} with --every {}: a fragment's sum is used before the fragment is sent again; "
          "use --delay 0 to {}",
          delay_, every_, every_ - 1));
    if (!(mix_ >= 0 && mix_ < 1))
      throw UsageError(
          fmt::format("--mix {:g}: must be at least 0 and below 1 (at 1, a worker would ignore the "
                      "others); use "
                      "--mix 0.5",
                      mix_));
  }

  const std::string &method_, &inner_;
  const int& every_;
  const double &rate_, &momentum_;
  const int &fragments_, &delay_;
  const double& mix_;
};

}  // namespace lockstep
