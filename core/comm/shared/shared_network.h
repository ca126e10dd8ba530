#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "core/comm/shared/folded_links.h"
#include "core/time/cluster.h"
#include "core/time/fluid.h"
#include "core/time/message_times.h"

namespace lockstep {

/// Times the messages of all ranks on a cluster with shared links (Cluster::shared).
///
/// A message starts when its data and the sender's lane are ready, flows to the other rank through
/// the resources that it shares with others (Fluid), and then frees the sender's lane. It arrives α
/// later, but not before the message ahead of it on the receiver's lane.
///
/// The time of a message depends on messages that start later. The network therefore moves through
/// time: its user calls advance() when no rank can do anything more before next(), and advance()
/// notifies the listeners of messages that have left or arrived. Messages are posted at or after
/// the network's time; a message posted for an earlier time starts at once. Not thread-safe.
class SharedNetwork {
 public:
  /// Is notified of the times of a rank's messages, and may post messages during a notification.
  /// Must live until it has been notified of all its messages, or as long as the network.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// The message has left the sender's lane, which it occupied during `passage`.
    virtual void left(int tag, const Passage& passage) = 0;
    /// The message has arrived; it occupied the receiver's lane during `passage`.
    virtual void arrived(int tag, const Passage& passage) = 0;
    /// The time passed to at() has been reached.
    virtual void reached(int tag) = 0;
  };

  explicit SharedNetwork(Cluster cluster) : cluster_(std::move(cluster)) {}
  /// For a folded run of `ranks` ranks. Only representatives open streams. A message to another
  /// rank arrives at that rank's representative, with its source shifted accordingly.
  SharedNetwork(Cluster cluster, const Folding& folding, int ranks)
      : cluster_(std::move(cluster)), folding_(folding), links_(folding, cluster_, ranks) {}

  /// Opens a stream of a rank, with one lane per direction, whose messages are matched by `channel`
  /// (Channel). Returns its number.
  int open_stream(int rank, int channel);
  /// Posts a send. Its listener is notified by the next call of advance() at the earliest.
  void send(int stream, const OutgoingMessage& message, Listener& listener, int tag);
  /// Posts the receive of the next message from rank `from` on the stream's channel. If the message
  /// has already arrived, the listener is notified at once.
  void receive(int stream, int from, Listener& listener, int tag);
  /// Calls listener.reached() at `time`, after everything else that happens at that time.
  void at(Picoseconds time, Listener& listener, int tag);

  /// The time of the next event, if there is one.
  std::optional<Picoseconds> next();
  /// Moves to next().
  void advance();

 private:
  static constexpr int none = -1;
  static constexpr Picoseconds unknown = -1;

  struct Message {
    int from_stream = none, to_stream = none;  ///< to_stream: once a receive is posted
    OutgoingMessage out{};
    Picoseconds start = unknown;
    Picoseconds arrival = unknown;
    Listener* sender = nullptr;
    Listener* receiver = nullptr;
    int sender_tag = 0, receiver_tag = 0;
    const Fluid::Path* path = nullptr;
  };
  /// A first-in, first-out queue of numbers. Allocates no memory until a number is added.
  class Queue {
   public:
    bool empty() const { return first_ == numbers_.size(); }
    int front() const { return numbers_[first_]; }
    int back() const { return numbers_.back(); }
    void push(int number) { numbers_.push_back(number); }
    void pop() {
      if (++first_ < numbers_.size() && first_ < 1000) return;
      numbers_.erase(numbers_.begin(), numbers_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    std::size_t size() const { return numbers_.size() - first_; }

   private:
    std::vector<int> numbers_;
    std::size_t first_ = 0;
  };
  struct Stream {
    int rank = 0;
    int channel = 0;
    Picoseconds send_free = 0, receive_free = 0;
    Queue sending{};    ///< messages; the first is in flight or waits for its data
    Queue receiving{};  ///< posted receives, in order
  };
  /// The messages between two ranks on a channel.
  struct Pair {
    Fluid::Path path;
    Queue sent;      ///< without a receive
    Queue expected;  ///< receives without a message
  };
  struct Event {
    enum class Kind : std::uint8_t { start, arrival, timer };
    Picoseconds time;
    Kind kind;
    std::int64_t number;  ///< in order of insertion
    int index;            ///< of a message or a timer
    /// Timers come last, because something may still happen at their time.
    bool operator>(const Event& other) const {
      const bool last = kind == Kind::timer, other_last = other.kind == Kind::timer;
      if (time != other.time) return time > other.time;
      return last != other_last ? last : number > other.number;
    }
  };
  struct Timer {
    Listener* listener;
    int tag;
  };

  Message& message(int index) { return messages_[static_cast<std::size_t>(index)]; }
  Stream& stream(int number) { return streams_[static_cast<std::size_t>(number)]; }
  int new_message();
  /// Returns the first message of which only the other side is posted, or a new one.
  int match(Queue& others, Queue& own);
  Pair& pair(int from, int to, int channel);
  void add(Picoseconds time, Event::Kind kind, int index);
  void start_first(int number);
  void start(int index);
  void leaves(int index);
  void settle(int number);

  Cluster cluster_;
  Folding folding_;
  FoldedLinks links_;
  Fluid fluid_;
  Picoseconds now_ = 0;
  std::vector<Stream> streams_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::deque<Message> messages_;
  std::vector<int> unused_;
  std::vector<int> of_flow_;  ///< by flow: its message
  std::vector<Timer> timers_;
  std::vector<int> unused_timers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t events_added_ = 0;
  std::vector<Fluid::Flow> ended_;  ///< used by advance(); kept to reuse its memory
};

}  // namespace lockstep
