#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/model/checkpoint/checkpoint.h"
#include "core/model/data.h"
#include "core/run/lesson.h"
#include "core/run/reference/accumulate_in_order.h"
#include "core/run/reference/parity.h"
#include "core/run/reference/solo_device.h"
#include "lessons/18_low_communication/inner_optimizer.h"
#include "lessons/18_low_communication/method_flags.h"
#include "lessons/18_low_communication/outer_optimizer.h"
#include "lessons/18_low_communication/streaming.h"

// What the lesson's runs are compared with: one device that takes the role of every worker, or of
// every stage, in turn. All values that workers exchange are on the host here.

namespace lockstep {

/// Values of parameters on the host, by ParameterSpec::order.
using HostValues = std::map<int, std::vector<float>>;

inline HostValues values_of(const Gpt& model) {
  HostValues values;
  for (const Parameter* parameter : model.parameters())
    values[parameter->order] = parameter->f32_values(model.device());
  return values;
}

inline std::vector<NamedValues> named_values(const Gpt& model) {
  std::vector<NamedValues> named;
  for (const Parameter* parameter : model.parameters())
    named.push_back({parameter->name, parameter->order, parameter->f32_values(model.device())});
  return named;
}

inline void set_values(Gpt& model, int order, const std::vector<float>& values) {
  model.device().compute.write(values.data(), model.parameter(order).value);
}

/// The data of one replica in a step, on `device`.
inline Batch batch_on(Device device, const ReferenceRun& run, int step, int microbatches,
                      int replicas, int replica) {
  const Options& options = run.options;
  Batch batch = run.corpus.batch(options.plan.seed, options.run.trained_steps + step,
                                 {.microbatches = microbatches,
                                  .size = options.plan.batch.sequences / (microbatches * replicas),
                                  .replicas = replicas,
                                  .replica = replica,
                                  .documents = options.plan.batch.documents});
  move_to(device, batch);
  return batch;
}

/// Begins with the checkpoint of --load, as the ranks do.
inline void load_into(const ReferenceRun& run, const Plan& plan, Device device, const Gpt& model,
                      AdamW& optimizer) {
  const std::string& path = run.options.run.load;
  if (path.empty()) return;
  load_checkpoint(path, plan, device, model.parameters());
  load_moments(path, optimizer);
}

/// Data parallelism with plain SGD on one device.
inline Reference sgd_on_one_device(const ReferenceRun& run) {
  SoloDevice one{run.options.platform.on_gpus(), run.options.platform.tf32};
  const Plan plan = run.options.plan.on_one_device();
  Gpt model{plan, plan.place(0), one};
  InnerOptimizer inner{model, plan.optimizer, /*sgd=*/true};
  load_into(run, plan, one, model, inner.adamw());
  const int replicas = run.options.plan.mesh.size(Axis::dp);
  Reference reference;
  for (std::size_t p = 0; p < run.phases.size(); ++p)
    for (int i = 0; i < run.phases[p].steps; ++i) {
      const int step = run.phases[p].first_step + i, m = run.phases[p].microbatches;
      model.zero_gradients();
      if (p < run.orders.size() && !run.orders[p].empty()) {
        std::vector<Batch> shares;
        for (int replica = 0; replica < replicas; ++replica)
          shares.push_back(batch_on(one, run, step, m, replicas, replica));
        reference.losses.push_back(accumulate_in_order(model, shares, run.orders[p]));
      } else {
        reference.losses.push_back(
            accumulate_gradients(model, batch_on(one, run, step, m * replicas, 1, 0)));
      }
      inner.step(1);
      run.progress(step + 1);
    }
  reference.parameters = named_values(model);
  return reference;
}

/// DiLoCo as streaming: the whole model is one fragment, without delay or mixing.
constexpr StreamingOptions whole_model{.fragments = 1, .delay = 0, .mix = 0};

/// Trains the workers of DiLoCo, or of streaming DiLoCo, one after another.
class SerialWorkers {
 public:
  SerialWorkers(const ReferenceRun& run, const OuterOptions& outer,
                const StreamingOptions& streaming, bool sgd)
      : run_(run),
        outer_options_(outer),
        streaming_(streaming),
        one_(run.options.platform.on_gpus(), run.options.platform.tf32) {
    const Plan plan = run.options.plan.on_one_device();
    for (int w = 0; w < run.options.plan.mesh.size(Axis::dp); ++w) {
      models_.push_back(std::make_unique<Gpt>(plan, plan.place(0), one_));
      inner_.push_back(std::make_unique<InnerOptimizer>(*models_.back(), plan.optimizer, sgd));
      load_into(run, plan, one_, *models_.back(), inner_.back()->adamw());
    }
    outer_ = values_of(*models_.front());
    for (const auto& [order, values] : outer_) momentum_[order].resize(values.size());
    const std::size_t units = models_.front()->units().size();
    for (const Parameter* parameter : models_.front()->parameters())
      fragment_of_[parameter->order] =
          static_cast<int>(static_cast<std::size_t>(parameter->unit()) *
                           static_cast<std::size_t>(streaming.fragments) / units);
  }

  Reference train() {
    Reference reference;
    const int workers = static_cast<int>(models_.size());
    for (std::size_t p = 0; p < run_.phases.size(); ++p)
      for (int i = 0; i < run_.phases[p].steps; ++i) {
        const int step = run_.phases[p].first_step + i;
        double loss = 0;
        for (int w = 0; w < workers; ++w) {
          Gpt& model = *models_[static_cast<std::size_t>(w)];
          model.zero_gradients();
          loss += accumulate_gradients(
              model, batch_on(one_, run_, step, run_.phases[p].microbatches, workers, w));
          inner_[static_cast<std::size_t>(w)]->step(static_cast<float>(workers));
        }
        reference.losses.push_back(loss);
        exchange(step + 1, p < run_.orders.size() ? run_.orders[p] : SumOrder{});
        run_.progress(step + 1);
      }
    while (!in_flight_.empty()) use_sum(in_flight_.begin()->first);
    for (const auto& [order, values] : outer_) set_values(*models_.front(), order, values);
    reference.parameters = named_values(*models_.front());
    return reference;
  }

 private:
  void exchange(int steps, const SumOrder& order) {
    for (int f = 0; f < streaming_.fragments; ++f)
      if (in_flight_.contains(f) && in_flight_.at(f).due == steps) use_sum(f);
    for (int f = 0; f < streaming_.fragments; ++f) {
      if (!is_sent(f, steps, outer_options_.every, streaming_.fragments)) continue;
      in_flight_[f] = {steps + streaming_.delay, sums(f, order)};
      if (streaming_.delay == 0) use_sum(f);
    }
  }

  /// Returns the sums of the workers' pseudo-gradients, added in the order of the workers or in
  /// `order`.
  HostValues sums(int fragment, const SumOrder& order) {
    std::vector<HostValues> differences;
    for (const auto& model : models_) {
      HostValues& mine = differences.emplace_back();
      for (const auto& [number, values] : values_of(*model)) {
        if (fragment_of_.at(number) != fragment) continue;
        const std::vector<float>& theta = outer_.at(number);
        for (std::size_t i = 0; i < values.size(); ++i)
          mine[number].push_back(theta[i] - values[i]);
      }
    }
    HostValues sum = differences.front();
    const auto add = [&](int number, std::size_t i, std::size_t begin) {
      float total = differences[begin].at(number)[i];
      for (std::size_t w = 1; w < differences.size(); ++w)
        total += differences[(begin + w) % differences.size()].at(number)[i];
      sum.at(number)[i] = total;
    };
    for (const auto& [number, values] : differences.front())
      for (std::size_t i = 0; order.empty() && i < values.size(); ++i) add(number, i, 0);
    for (const SumOrder::Segment& segment : order.segments)
      for (const Slice::Run& part : segment.slice.runs())
        for (std::int64_t i = 0; sum.contains(segment.parameter) && i < part.elements; ++i)
          add(segment.parameter, static_cast<std::size_t>(part.in_box + i),
              static_cast<std::size_t>(segment.begin));
    return sum;
  }

  void use_sum(int fragment) {
    const float mean = 1.0F / static_cast<float>(models_.size());
    const auto [rate, momentum] = std::pair{outer_options_.rate, outer_options_.momentum};
    for (const auto& [number, sum] : in_flight_.at(fragment).sums) {
      std::vector<float>&theta = outer_.at(number), &u = momentum_.at(number);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const float g = sum[i] * mean;
        u[i] = u[i] * momentum + g;
        theta[i] = theta[i] + g * -rate;
        theta[i] = theta[i] + u[i] * (-rate * momentum);
      }
      for (const auto& model : models_) {
        std::vector<float> values = model->parameter(number).f32_values(one_);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = streaming_.mix == 0
                          ? theta[i]
                          : values[i] * streaming_.mix + theta[i] * (1 - streaming_.mix);
        set_values(*model, number, values);
      }
    }
    in_flight_.erase(fragment);
  }

  struct InFlight {
    int due = 0;
    HostValues sums;
  };

  const ReferenceRun& run_;
  OuterOptions outer_options_;
  StreamingOptions streaming_;
  SoloDevice one_;
  std::vector<std::unique_ptr<Gpt>> models_;
  std::vector<std::unique_ptr<InnerOptimizer>> inner_;
  HostValues outer_, momentum_;
  std::map<int, int> fragment_of_;     ///< by ParameterSpec::order
  std::map<int, InFlight> in_flight_;  ///< by fragment
};

/// PipeDream on one device: every microbatch passes through the whole model, in which each stage's
/// parameters have the values that they had `p - 1 - q` updates ago.
inline Reference pipedream_on_one_device(const ReferenceRun& run) {
  SoloDevice one{run.options.platform.on_gpus(), run.options.platform.tf32};
  const Plan& pipeline = run.options.plan;
  const Plan plan = pipeline.on_one_device();
  Gpt model{plan, plan.place(0), one};
  AdamW optimizer{model.parameters(), one, plan.optimizer};
  load_into(run, plan, one, model, optimizer);
  const auto stage_of = [&](const Parameter& parameter) {
    int stage = 0;
    while (!pipeline.layers_of(stage).runs(parameter.unit(), plan.model())) ++stage;
    return stage;
  };
  const int stages = pipeline.stages();
  std::vector<HostValues> versions{values_of(model)};  // by update
  Reference reference;
  for (const Phase& phase : run.phases)
    for (int i = 0; i < phase.steps; ++i) {
      const int step = phase.first_step + i, m = phase.microbatches;
      const Batch batch = batch_on(one, run, step, m, 1, 0);
      double loss = 0;
      for (int k = 0; k < m; ++k) {
        const int microbatch = step * m + k;
        for (const Parameter* parameter : model.parameters()) {
          const int version = std::max(0, microbatch - (stages - 1 - stage_of(*parameter)));
          set_values(model, parameter->order,
                     versions[static_cast<std::size_t>(version)].at(parameter->order));
        }
        model.zero_gradients();
        Microbatch samples = batch.microbatches[static_cast<std::size_t>(k)];
        samples.last = true;
        Stash stash;
        model.forward(samples, {}, stash);
        loss += model.loss(stash);
        model.backward({}, stash);
        for (const auto& [order, values] : versions.back()) set_values(model, order, values);
        optimizer.step(static_cast<float>(m));
        versions.push_back(values_of(model));
        if (microbatch >= stages) versions[static_cast<std::size_t>(microbatch - stages)].clear();
      }
      reference.losses.push_back(loss);
      run.progress(step + 1);
    }
  reference.parameters = named_values(model);
  return reference;
}

/// Compares the lesson's runs with one device that takes each rank's role in turn, unless ordinary
/// training on one device has the same result. The flags must outlive the lesson's run.
inline void compare_with_one_device(Lesson& lesson, const LowCommunicationFlags& flags) {
  lesson.hooks.reference = {
      "one device that takes each rank's role in turn",
      [&](const ReferenceRun& run) -> std::optional<Reference> {
        if (flags.is("pipedream")) return pipedream_on_one_device(run);
        if (flags.is("diloco"))
          return SerialWorkers{run, flags.outer(), whole_model, flags.sgd()}.train();
        if (flags.is("streaming"))
          return SerialWorkers{run, flags.outer(), flags.streaming(), flags.sgd()}.train();
        if (flags.is("data-parallel") && flags.sgd()) return sgd_on_one_device(run);
        return {};
      }};
}

}  // namespace lockstep
