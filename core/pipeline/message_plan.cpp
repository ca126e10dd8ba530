#include <algorithm>

#include "core/pipeline/executor.h"

namespace lockstep {

namespace {

using Message = MessagePlan::Message;

bool is_backward(Op op) {
  return op == Op::backward || op == Op::backward_input;
}

std::optional<Message> input_of(const Schedule& schedule, const Action& action) {
  const auto rank_of = [&](int stage) {
    return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
  };
  const int here = rank_of(action.stage);
  if (action.op == Op::forward && action.stage > 0)
    return Message{rank_of(action.stage - 1), here, action.stage, action.microbatch, true};
  if (is_backward(action.op) && action.stage < schedule.stages - 1)
    return Message{rank_of(action.stage + 1), here, action.stage, action.microbatch, false};
  return {};
}

std::optional<Message> output_of(const Schedule& schedule, const Action& action) {
  const auto rank_of = [&](int stage) {
    return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
  };
  const int here = rank_of(action.stage);
  if (action.op == Op::forward && action.stage < schedule.stages - 1)
    return Message{here, rank_of(action.stage + 1), action.stage + 1, action.microbatch, true};
  if (is_backward(action.op) && action.stage > 0)
    return Message{here, rank_of(action.stage - 1), action.stage - 1, action.microbatch, false};
  return {};
}

}  // namespace

MessagePlan::MessagePlan(const Schedule& schedule, int rank) {
  const auto& mine = schedule.actions[static_cast<std::size_t>(rank)];
  std::map<Message, std::size_t> consumed_at, produced_at;  // where on the peer, by its own count
  for (std::size_t peer = 0; peer < schedule.actions.size(); ++peer) {
    if (static_cast<int>(peer) == rank) continue;
    const auto& actions = schedule.actions[peer];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (const auto in = input_of(schedule, actions[i]); in && in->from_rank == rank)
        consumed_at[*in] = i;
      if (const auto out = output_of(schedule, actions[i]); out && out->to_rank == rank) {
        produced_at[*out] = i;
        auto& lane = incoming_[{out->from_rank, out->forward}];
        position_[*out] = lane.size();
        lane.push_back(*out);
      }
    }
  }

  std::vector<Message> held;
  for (const Action& action : mine) {
    inputs_.push_back(input_of(schedule, action));
    outputs_.push_back(output_of(schedule, action));
    std::vector<Message>& received = received_by_.emplace_back();
    if (const auto& in = inputs_.back(); in && in->from_rank != rank) {
      const auto answered = [&](const Message& sent) {
        return sent.to_rank == in->from_rank && consumed_at.at(sent) <= produced_at.at(*in);
      };
      std::copy_if(held.begin(), held.end(), std::back_inserter(received), answered);
      std::erase_if(held, answered);
    }
    if (const auto& out = outputs_.back(); out && out->to_rank != rank) held.push_back(*out);
  }
}

const std::vector<Message>& MessagePlan::incoming(int from_rank, bool forward) const {
  static const std::vector<Message> none;
  const auto found = incoming_.find({from_rank, forward});
  return found != incoming_.end() ? found->second : none;
}

}  // namespace lockstep
