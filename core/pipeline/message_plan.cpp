#include "core/pipeline/message_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

namespace lockstep {

namespace {

using Message = MessagePlan::Message;

/// Returns the message from stage `from` to stage `to`, or nothing if one of the two stages does
/// not exist.
std::optional<Message> message(const Schedule& schedule, int from, int to, int microbatch) {
  if (std::min(from, to) < 0 || std::max(from, to) >= schedule.stages) return {};
  const auto rank_of = [&](int stage) {
    return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
  };
  return Message{rank_of(from), rank_of(to), to, microbatch, from < to};
}

std::optional<Message> input_of(const Schedule& schedule, const Action& action) {
  if (action.op == Op::backward_weight) return {};
  const int from = action.stage + (action.op == Op::forward ? -1 : 1);
  return message(schedule, from, action.stage, action.microbatch);
}

std::optional<Message> output_of(const Schedule& schedule, const Action& action) {
  if (action.op == Op::backward_weight) return {};
  const int to = action.stage + (action.op == Op::forward ? 1 : -1);
  return message(schedule, action.stage, to, action.microbatch);
}

}  // namespace

/// Replays this rank's actions once, tracking the state that the policy needs.
class MessagePlan::Builder {
 public:
  Builder(const Schedule& schedule, int rank, MessagePlan& plan)
      : schedule_(schedule),
        rank_(rank),
        plan_(plan),
        local_(static_cast<std::size_t>(schedule.stages)) {
    std::size_t here = 0;
    for (int stage = 0; stage < schedule.stages; ++stage)
      if (home(stage) == rank) local_[static_cast<std::size_t>(stage)] = here++;
    const std::size_t messages = 2 * here * static_cast<std::size_t>(schedule.microbatches);
    made_at_.resize(messages);
    position_.resize(messages);
    used_at_.resize(messages);
    read_peers();
  }

  void play() {
    for (auto& [key, incoming] : incoming_) {
      if (incoming.expected.empty()) continue;
      plan_.post_first_.push_back(post(incoming));
    }
    const auto& actions = schedule_.actions[static_cast<std::size_t>(rank_)];
    std::vector<Message> outputs;
    for (const Action& action : actions) {
      Around& around = plan_.around_.emplace_back();
      around.input = input_of(schedule_, action);
      around.output = output_of(schedule_, action);
      if (around.input && !around.input->local()) receive(around);
      if (around.output && !around.output->local()) outputs.push_back(*around.output);
      if (action.with_next) continue;  // takes the other input first
      for (const Message& output : outputs) send(output);
      outputs.clear();
    }
  }

 private:
  /// One channel's messages to this rank, and the progress of its receives.
  struct Incoming {
    std::vector<Message> expected;  ///< in the order in which the peer sends
    std::size_t posted = 0;
    std::size_t open = 0;  ///< posted, but not used yet
  };
  /// A message that has been sent but not yet released.
  struct Sent {
    std::size_t used_at = 0;  ///< the peer's action that uses it
    std::int64_t number = 0;  ///< in sending order
    Message message;
    bool operator>(const Sent& other) const { return used_at > other.used_at; }
  };
  using BySoonestUse = std::priority_queue<Sent, std::vector<Sent>, std::greater<>>;

  int home(int stage) const { return schedule_.rank_of_stage[static_cast<std::size_t>(stage)]; }

  /// Returns an index for a message that this rank sends or receives. The index is unique among the
  /// messages sent, and among the messages received. `stage` is the sending or the receiving stage,
  /// whichever is on this rank.
  std::size_t number(int stage, const Message& message) const {
    const std::size_t cell =
        local_[static_cast<std::size_t>(stage)] * static_cast<std::size_t>(schedule_.microbatches) +
        static_cast<std::size_t>(message.microbatch);
    return 2 * cell + (message.forward ? 1 : 0);
  }

  /// Finds the channels, and the positions of the peers' actions that produce or use messages
  /// exchanged with this rank.
  void read_peers() {
    std::vector<int> peers;
    for (int stage = 0; stage < schedule_.stages; ++stage)
      for (const int other : {stage - 1, stage + 1})
        if (home(stage) == rank_ && other >= 0 && other < schedule_.stages && home(other) != rank_)
          peers.push_back(home(other));
    std::ranges::sort(peers);
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    for (const int peer : peers) {
      ChannelUse activations{.key = {peer, true}}, gradients{.key = {peer, false}};
      const auto& actions = schedule_.actions[static_cast<std::size_t>(peer)];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        if (const auto in = input_of(schedule_, actions[i]); in && in->from_rank == rank_) {
          (in->forward ? activations : gradients).sends = true;
          used_at_[number(in->producer(), *in)] = i;
        }
        if (const auto out = output_of(schedule_, actions[i]); out && out->to_rank == rank_) {
          (out->forward ? activations : gradients).receives = true;
          std::vector<Message>& expected = incoming_[out->receive_channel()].expected;
          made_at_[number(out->stage, *out)] = i;
          position_[number(out->stage, *out)] = expected.size();
          expected.push_back(*out);
        }
      }
      for (const ChannelUse& channel : {activations, gradients})
        if (channel.sends || channel.receives) plan_.channels_.push_back(channel);
    }
  }

  Message post(Incoming& incoming) {
    ++incoming.open;
    count(1);
    return incoming.expected[incoming.posted++];
  }

  void receive(Around& around) {
    const Message& input = *around.input;
    const std::size_t number = this->number(input.stage, input);
    Incoming& incoming = incoming_[input.receive_channel()];
    while (incoming.posted <= position_[number]) around.post_before.push_back(post(incoming));
    --incoming.open;
    count(-1);  // from here on, the action owns the input

    std::vector<Sent> arrived;
    BySoonestUse& sent = sent_[input.from_rank];
    for (; !sent.empty() && sent.top().used_at <= made_at_[number]; sent.pop())
      arrived.push_back(sent.top());
    std::ranges::sort(arrived, {}, &Sent::number);
    for (const Sent& each : arrived) around.release.push_back(each.message);
    count(-static_cast<std::int64_t>(arrived.size()));

    if (incoming.open == 0 && incoming.posted < incoming.expected.size())
      around.post_after = post(incoming);
  }

  void send(const Message& output) {
    sent_[output.to_rank].push(
        {used_at_[number(output.producer(), output)], plan_.messages_sent_++, output});
    count(1);
  }

  void count(std::int64_t buffers) {
    buffers_ += buffers;
    plan_.peak_buffers_ = std::max(plan_.peak_buffers_, buffers_);
  }

  const Schedule& schedule_;
  int rank_;
  MessagePlan& plan_;
  std::vector<std::size_t> local_;  ///< a stage's index among this rank's stages
  /// By message number. For a message to this rank: the peer's action that produces it, and the
  /// message's position in its channel. For a message from this rank: the peer's action that uses
  /// it.
  std::vector<std::size_t> made_at_, position_, used_at_;
  std::map<ChannelKey, Incoming> incoming_;
  std::map<int, BySoonestUse> sent_;  ///< by peer
  std::int64_t buffers_ = 0;
};

MessagePlan::MessagePlan(const Schedule& schedule, int rank) {
  around_.reserve(schedule.actions[static_cast<std::size_t>(rank)].size());
  Builder{schedule, rank, *this}.play();
}

}  // namespace lockstep
