#pragma once

#include <array>
#include <optional>
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
/// which begins at the start of the step. Messages are found by the labels of their spans.
class PipelineGraph {
 public:
  /// A link, and its predecessor in its chain (-1: none).
  struct Node {
    PathLink link;
    int before = -1;
    int input = -1;  ///< of an action: the action whose result it uses
  };

  PipelineGraph(const Timeline& timeline, int step);

  /// Returns whether the step has no actions.
  bool empty() const { return nodes_.empty(); }
  const Interval& window() const { return *window_; }
  const Node& node(int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  /// Returns a rank's actions, in order. `rank` is the rank's index in the timeline.
  const std::vector<int>& actions(std::size_t rank) const { return actions_[rank]; }
  /// Returns the action that ends last; of several, the one of the lowest rank.
  int last() const { return last_; }

 private:
  void read_actions(const Timeline& timeline, const StepWindow& window);
  void read_messages(const Timeline& timeline, const StepWindow& window);
  /// Adds a link that waits for `previous`, which is on the same rank or lane, and returns its id.
  int add(const PathLink& link, int previous);
  /// Lets a message wait for the action that produced it (the user's input), and the action that
  /// uses it wait for the message.
  void connect(int transfer, int user, Picoseconds arrived);
  void follow_chains();
  /// Chooses the link that determined the start of `each`.
  void choose_before(Node& each, const std::array<int, 2>& waits_for) const;

  std::optional<Interval> window_;
  std::vector<Node> nodes_;  ///< each rank's own links, then messages: transfer, latency
  std::vector<std::array<int, 2>> waits_for_;  ///< parallel to nodes_; -1: nothing
  std::vector<std::vector<int>> actions_;
  int last_ = -1;
};

}  // namespace lockstep
