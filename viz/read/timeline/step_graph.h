#pragma once

#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "viz/read/timeline/pipeline_analysis.h"

namespace lockstep {

/// The pipeline actions and messages of an executed step, each with the link that determined when
/// it could start:
///
///   - an action starts when the rank's previous action has ended and its input has arrived; with
///     blocking sends, also when the previous action's result has left;
///   - a message's transfer starts when the action that produces it has ended and the previous
///     message has left the sender's lane;
///   - a message's latency follows its transfer.
///
/// Of two such links, the one that ended last counts. The links therefore form chains, each of
/// which begins at the start of the step. The record says which message an action uses.
class StepGraph {
 public:
  /// A link, and its predecessor in its chain (-1: none).
  struct Node {
    PathLink link;
    int before = -1;
    int input = -1;  ///< of an action: the action whose result it uses
  };
  /// A message between stages: its spans on the ranks' lanes, if the trace shows them, and its
  /// transfer, which the message's latency follows in nodes().
  struct Message {
    std::optional<TimelineSpan> sent, received;
    int from = -1, to = -1;  ///< ranks
    int to_lane = -1;
    int transfer = -1;  ///< if it was sent
    int producer = -1;  ///< the action whose result it carries
    bool forward() const;
  };

  StepGraph(const Timeline& timeline, int step);

  /// Returns whether the step has no actions.
  bool empty() const { return !window_; }
  const Interval& window() const { return *window_; }
  const Node& node(int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  /// Returns a rank's actions, in order. `rank` is the rank's index in the timeline.
  const std::vector<int>& actions(std::size_t rank) const { return actions_[rank]; }
  /// Returns the action that ends last; of several, the one of the lowest rank.
  int last() const { return last_; }
  /// Returns a message by its id, or null.
  const Message* message(std::uint64_t id) const;
  const std::map<std::uint64_t, Message>& messages() const { return messages_; }

 private:
  /// Identifies an action whose result another uses: rank, stage, microbatch, whether it is a
  /// forward pass.
  using ActionKey = std::tuple<int, int, int, bool>;

  void read_actions(const Timeline& timeline, const StepWindow& window);
  void read_messages(const Timeline& timeline, const StepWindow& window);
  void link_messages();
  void link_without_messages();
  /// Adds a link that waits for `previous`, which is on the same rank or lane, and returns its id.
  int add(const PathLink& link, int previous);
  /// Lets a message wait for the action that produced it, and the action that uses it wait for the
  /// message.
  void connect(const Message& message, int user);
  void follow_chains();
  /// Chooses the link that determined the start of `each`.
  void choose_before(Node& each, const std::array<int, 2>& waits_for) const;
  int find(const ActionKey& action) const;

  std::optional<Interval> window_;
  std::vector<Node> nodes_;  ///< each rank's own links, then messages: transfer, latency
  std::vector<std::array<int, 2>> waits_for_;  ///< parallel to nodes_; -1: nothing
  std::vector<std::vector<int>> actions_;
  std::map<ActionKey, int> producers_;
  std::map<std::uint64_t, Message> messages_;  ///< by id
  int last_ = -1;
};

}  // namespace lockstep
