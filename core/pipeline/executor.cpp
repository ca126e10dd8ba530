#include "core/pipeline/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace lockstep {

namespace {

/// The schedule, if it can be followed by these ranks with these models.
const Schedule& checked(const Schedule& schedule, const Group& group, std::size_t models) {
  validate(schedule);
  if (group.size() != schedule.ranks)
    throw std::invalid_argument(
        fmt::format("a schedule of {} ranks for a group of {}", schedule.ranks, group.size()));
  const auto here = std::ranges::count(schedule.rank_of_stage, group.rank());
  if (here == 0 || static_cast<std::size_t>(here) != models)
    throw std::invalid_argument(
        fmt::format("{} models for the {} stages of pipeline rank {}; the executor wants one for "
                    "each, and at least one",
                    models, here, group.rank()));
  return schedule;
}

}  // namespace

PipelineExecutor::PipelineExecutor(Endpoint endpoint, const Group& group, const Schedule& schedule,
                                   std::vector<Gpt*> stages)
    : endpoint_(endpoint),
      schedule_(checked(schedule, group, stages.size())),
      rank_(group.rank()),
      plan_(schedule, group.rank()) {
  for (int i = 0; i < group.size(); ++i) world_ranks_.push_back(group.world_rank(i));
  auto next = stages.begin();
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.rank_of_stage[static_cast<std::size_t>(stage)] == rank_) stages_[stage] = *next++;

  const int activations = endpoint.transport.open_channels(2);
  const int gradients = activations + 1;
  // A lane only where something passes.
  for (int peer = 0; peer < schedule.ranks; ++peer) {
    for (const bool forward : {true, false}) {
      if (peer == rank_) continue;
      bool sends = false;
      for (std::size_t i = 0; i < schedule.actions[static_cast<std::size_t>(rank_)].size(); ++i)
        if (const auto& out = plan_.output(i))
          sends = sends || (out->to_rank == peer && out->forward == forward);
      const bool receives = !plan_.incoming(peer, forward).empty();
      if (!sends && !receives) continue;
      const int world = world_ranks_[static_cast<std::size_t>(peer)];
      endpoint.transport.connect(world, forward ? activations : gradients, {sends, receives});
      const char* kind = forward ? "activations" : "gradients";
      channels_.emplace(std::pair{peer, forward},
                        Channel{endpoint, forward ? activations : gradients,
                                sends ? fmt::format("send {} → {}", kind, world) : "",
                                receives ? fmt::format("receive {} ← {}", kind, world) : ""});
      if (receives) {
        incoming_[{peer, forward}].channel = &channels_.at({peer, forward});
        incoming_[{peer, forward}].from = world;
      }
    }
  }
}

Gpt& PipelineExecutor::model(int stage) {
  return *stages_.at(stage);
}

std::optional<double> PipelineExecutor::step(const Batch& batch) {
  if (static_cast<int>(batch.microbatches.size()) != schedule_.microbatches)
    throw std::invalid_argument(fmt::format("a batch of {} microbatches for a schedule of {}",
                                            batch.microbatches.size(), schedule_.microbatches));
  const auto& actions = schedule_.actions[static_cast<std::size_t>(rank_)];
  const Shape tokens = batch.microbatches.front().tokens.shape;
  const Shape boundary{tokens[0], tokens[1], stages_.begin()->second->config().hidden};
  Device device = endpoint_.device;
  loss_ = 0;
  for (auto& [lane, incoming] : incoming_) {
    incoming.posted = 0;
    post_receives(incoming, plan_.incoming(lane.first, lane.second), 1, boundary);
  }

  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    Tensor input = take_input(i, boundary);
    Tensor output = device.compute.range({.name = "action",
                                          .category = category(action.op),
                                          .stage = action.stage,
                                          .microbatch = action.microbatch},
                                         [&] { return run(action, std::move(input), batch); });
    if (output) send_output(i, std::move(output));
    record_memory(device);
  }

  for (auto& [message, sent] : sent_) device.compute.follow(sent.work.finish());
  sent_.clear();
  if (stages_.contains(schedule_.stages - 1)) return loss_;
  return {};
}

Tensor PipelineExecutor::run(const Action& action, Tensor input, const Batch& batch) {
  Gpt& model = this->model(action.stage);
  const Microbatch& microbatch = batch.microbatches[static_cast<std::size_t>(action.microbatch)];
  const std::pair key{action.stage, action.microbatch};
  Tensor output;
  switch (action.op) {
    case Op::forward:
      output = model.forward(microbatch, std::move(input), stashes_[key]);
      if (action.stage == schedule_.stages - 1) loss_ += model.loss(stashes_[key]);
      return output;
    case Op::backward:
      output = model.backward(std::move(input), stashes_.at(key));
      stashes_.erase(key);
      return output;
    case Op::backward_input:
      return model.backward_input(std::move(input), stashes_.at(key));
    case Op::backward_weight:
      model.backward_weight(stashes_.at(key));
      stashes_.erase(key);
      return output;
  }
  return output;
}

// Receives are posted in the order in which the peer sends, so that lanes stay first in, first out.
void PipelineExecutor::post_receives(Incoming& incoming, const std::vector<Message>& expected,
                                     std::size_t count, Shape shape) {
  for (; incoming.posted < std::min(count, expected.size()); ++incoming.posted) {
    const Message& next = expected[incoming.posted];
    Tensor buffer{endpoint_.device.memory, shape, MemoryCategory::communication,
                  stages_.begin()->second->config().dtype};
    Work work = incoming.channel->receive(
        buffer, incoming.from,
        {.span = {.name = "recv", .stage = next.stage, .microbatch = next.microbatch}});
    incoming.in_flight.emplace(next, InFlight{std::move(buffer), std::move(work)});
  }
}

Tensor PipelineExecutor::take_input(std::size_t i, Shape shape) {
  const auto& needed = plan_.input(i);
  if (!needed) return {};
  if (needed->from_rank == rank_) return std::move(local_.extract(*needed).mapped());

  Incoming& incoming = incoming_.at({needed->from_rank, needed->forward});
  const auto& expected = plan_.incoming(needed->from_rank, needed->forward);
  post_receives(incoming, expected, plan_.position(*needed) + 1, shape);
  auto [data, work] = std::move(incoming.in_flight.extract(*needed).mapped());
  work.wait();
  let_go(plan_.received_by(i));
  data.charge_to(MemoryCategory::activations);
  // The next one need not wait for this rank to come round.
  if (incoming.in_flight.empty()) post_receives(incoming, expected, incoming.posted + 1, shape);
  return std::move(data);
}

void PipelineExecutor::send_output(std::size_t i, Tensor data) {
  const auto& output = plan_.output(i);
  if (!output) return;
  if (output->to_rank == rank_) {
    local_.emplace(*output, std::move(data));
    return;
  }
  data.charge_to(MemoryCategory::communication);
  const int stage = output->stage + (output->forward ? -1 : 1);
  Work work =
      channels_.at({output->to_rank, output->forward})
          .send(data, world_ranks_[static_cast<std::size_t>(output->to_rank)],
                endpoint_.device.compute.record(),
                {.span = {.name = "send", .stage = stage, .microbatch = output->microbatch}});
  sent_.emplace(*output, InFlight{std::move(data), std::move(work)});
}

void PipelineExecutor::let_go(const std::vector<Message>& messages) {
  for (const Message& message : messages) {
    endpoint_.device.compute.follow(sent_.at(message).work.finish());
    sent_.erase(message);
  }
}

}  // namespace lockstep
