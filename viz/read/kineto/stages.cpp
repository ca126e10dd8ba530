#include "viz/read/kineto/stages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

namespace lockstep::kineto {
namespace {

/// Returns the position of each rank in `numbers`.
std::unordered_map<int, std::size_t> positions_of(const std::vector<int>& numbers) {
  std::unordered_map<int, std::size_t> positions;
  for (std::size_t i = 0; i < numbers.size(); ++i) positions[numbers[i]] = i;
  return positions;
}

/// Returns the source of the first message that a rank receives before the end of its first forward
/// pass (an annotation such as "Forward 0" includes the receive); -1 if there is none or if it is
/// unknown.
int first_source(const Action& first_forward, const RankCalls& calls) {
  for (const Call& call : calls.calls)
    if (call.kind == CallKind::receive && call.step == first_forward.step)
      return call.time.start < first_forward.time.end ? call.peer : -1;
  return -1;
}

/// Identifies a rank's messages to or from a peer in one step.
struct Channel {
  int step = -1;
  int peer = -1;
  bool sends = false;
  auto operator<=>(const Channel&) const = default;
};

/// Labels messages with the results that they carry, both in order. A result may consist of several
/// tensors, each a message of its own.
void set_labels(const std::vector<Call*>& messages, const std::vector<PipelineLabel>& labels) {
  if (labels.empty() || messages.size() % labels.size() != 0) return;
  const std::size_t tensors = messages.size() / labels.size();
  for (std::size_t n = 0; n < messages.size(); ++n) messages[n]->label = labels[n / tensors];
}

}  // namespace

bool infer_stages(std::vector<RankActions>& actions, const std::vector<RankCalls>& calls,
                  const std::vector<int>& numbers) {
  const auto positions = positions_of(numbers);
  std::vector<int> previous;  // the rank that holds the previous stage, or -1
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto first = std::ranges::find(actions[i].actions, Category::forward, &Action::category);
    if (first == actions[i].actions.end() || first->stage >= 0) return false;
    previous.push_back(first_source(*first, calls[i]));
  }
  std::set<int> followed;  // ranks whose next stage is known
  for (const int rank : previous)
    if (rank >= 0 && (!positions.contains(rank) || !followed.insert(rank).second)) return false;
  if (followed.empty()) return false;
  std::vector<int> stages;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    int stage = 0;
    for (std::size_t at = i; previous[at] >= 0; at = positions.at(previous[at]))
      if (++stage > static_cast<int>(numbers.size())) return false;  // a ring
    stages.push_back(stage);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (Action& action : actions[i].actions) action.stage = stages[i];
  return true;
}

void label_messages(const std::vector<RankActions>& actions, std::vector<RankCalls>& calls,
                    const std::vector<int>& numbers) {
  const auto positions = positions_of(numbers);
  std::vector<std::set<int>> stages(numbers.size());
  std::vector<std::map<Channel, std::vector<Call*>>> unlabelled(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (const Action& action : actions[i].actions) stages[i].insert(action.stage);
    for (Call& call : calls[i].calls)
      if (is_message(call.kind) && call.peer >= 0 && !call.label)
        unlabelled[i][{call.step, call.peer, call.kind == CallKind::send}].push_back(&call);
  }
  for (std::size_t from = 0; from < numbers.size(); ++from)
    for (const auto& [channel, sent] : unlabelled[from]) {
      const auto to = positions.find(channel.peer);
      if (!channel.sends || to == positions.end()) continue;
      // The results that the receiver's stages use, in the order in which the sender computes them.
      std::vector<PipelineLabel> sending, receiving;
      for (const Action& action : actions[from].actions) {
        if (action.step != channel.step || action.stage < 0 ||
            action.category == Category::backward_weight)
          continue;
        const bool forward = action.category == Category::forward;
        const int receiver = stage_after(action.stage, forward);
        if (!stages[to->second].contains(receiver)) continue;
        const Category category = forward ? Category::forward : Category::backward;
        sending.push_back({PipelineLabel::Kind::send, category, action.stage, action.microbatch});
        receiving.push_back({PipelineLabel::Kind::receive, category, receiver, action.microbatch});
      }
      set_labels(sent, sending);
      const auto received = unlabelled[to->second].find({channel.step, numbers[from], false});
      if (received != unlabelled[to->second].end()) set_labels(received->second, receiving);
    }
}

}  // namespace lockstep::kineto
