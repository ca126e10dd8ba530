#include "core/run/reference/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/model/adamw.h"
#include "core/model/checkpoint/checkpoint.h"
#include "core/model/gpt.h"
#include "core/run/reference/accumulate_in_order.h"
#include "core/run/reference/solo_device.h"

namespace lockstep {

Reference train_on_one_device(const Options& options, const Corpus& corpus,
                              const std::vector<Phase>& phases,
                              const std::function<void(int)>& progress,
                              const std::vector<SumOrder>& orders) {
  SoloDevice one{options.platform.on_gpus(), options.platform.tf32};
  const Device device = one;
  const Plan plan = options.plan.on_one_device();
  Gpt model{plan, plan.place(0), device};
  AdamW optimizer{model.parameters(), device, options.plan.optimizer};
  if (!options.run.load.empty()) {
    load_checkpoint(options.run.load, plan, device, model.parameters());
    load_moments(options.run.load, optimizer);
    check_unchanged(options.run.load, options.run.loaded_state);
  }

  const auto gradients_of = [&](int step, const Phase& phase, const SumOrder& order) -> double {
    const int m = phase.microbatches, replicas = options.plan.mesh.size(Axis::dp);
    const int data = options.run.trained_steps + step;
    if (order.empty()) {
      model.zero_gradients();
      const BatchShape shape{.microbatches = m * replicas,
                             .size = options.plan.batch.sequences / (m * replicas),
                             .documents = options.plan.batch.documents};
      Batch batch = corpus.batch(options.plan.seed, data, shape);
      if (!phase.replicas.empty()) keep_replicas(batch, phase.replicas, replicas);
      move_to(device, batch);
      return accumulate_gradients(model, batch);
    }
    std::vector<Batch> shares;
    std::vector<int> contributing = phase.replicas;
    for (int replica = 0; phase.replicas.empty() && replica < replicas; ++replica)
      contributing.push_back(replica);
    for (const int replica : contributing)
      shares.push_back(corpus.batch(options.plan.seed, data,
                                    {.microbatches = options.plan.microbatches_of(replica, m),
                                     .size = options.plan.batch.sequences / (m * replicas),
                                     .replicas = replicas,
                                     .replica = replica,
                                     .documents = options.plan.batch.documents,
                                     .shares = options.plan.batch.shares}));
    for (Batch& share : shares) {
      if (!phase.replicas.empty()) weigh(share, static_cast<int>(contributing.size()));
      move_to(device, share);
    }
    return accumulate_in_order(model, shares, order);
  };
  Reference reference;
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const Phase& phase = phases[p];
    for (int step = phase.first_step; step < phase.first_step + phase.steps; ++step) {
      reference.losses.push_back(
          gradients_of(step, phase, p < orders.size() ? orders[p] : SumOrder{}));
      optimizer.step();
      if (progress) progress(step + 1);
    }
  }
  for (const Parameter* parameter : model.parameters()) {
    reference.parameters.push_back(
        {parameter->name, parameter->order, parameter->f32_values(device)});
  }
  return reference;
}

Parity compare(const std::vector<double>& losses, const std::vector<NamedValues>& parameters,
               const Reference& reference) {
  if (losses.size() != reference.losses.size() || parameters.size() != reference.parameters.size())
    throw RunError(fmt::format("parity: {} losses and {} tensors, where one device has {} and {}",
                               losses.size(), parameters.size(), reference.losses.size(),
                               reference.parameters.size()));
  Parity parity{.bitwise = true};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double expected = reference.losses[i];
    const double error = std::abs(losses[i] - expected) / std::abs(expected);
    // NaN counts as an infinite error.
    parity.max_relative_loss =
        std::max(parity.max_relative_loss, std::isnan(error) ? INFINITY : error);
    parity.bitwise =
        parity.bitwise && std::isfinite(losses[i]) &&
        std::bit_cast<std::uint64_t>(losses[i]) == std::bit_cast<std::uint64_t>(expected);
  }
  const std::size_t tenth = (losses.size() + 9) / 10;
  for (std::size_t i = losses.size() - tenth; i < losses.size(); ++i) {
    parity.final_loss += losses[i] / static_cast<double>(tenth);
    parity.reference_loss += reference.losses[i] / static_cast<double>(tenth);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, order, values, slice] = parameters[i];
    const NamedValues& expected = reference.parameters[i];
    if (order != expected.order || values.size() != expected.values.size())
      throw RunError(fmt::format("parity: {} ({} elements) where one device has {} ({} elements)",
                                 name, values.size(), expected.name, expected.values.size()));
    double difference = 0;
    double norm = 0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      difference += std::pow(static_cast<double>(values[k]) - expected.values[k], 2);
      norm += std::pow(static_cast<double>(expected.values[k]), 2);
    }
    const double least = std::sqrt(static_cast<double>(values.size())) * 0.02;
    const double error = std::sqrt(difference) / std::max(std::sqrt(norm), least);
    if (std::isnan(error) || error > parity.max_relative_parameter) {
      parity.max_relative_parameter = std::isnan(error) ? INFINITY : error;
      parity.worst_parameter = name;
    }
    parity.bitwise = parity.bitwise && std::memcmp(values.data(), expected.values.data(),
                                                   values.size() * sizeof(float)) == 0;
  }
  return parity;
}

}  // namespace lockstep
