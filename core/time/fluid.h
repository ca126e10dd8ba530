#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "core/time/shared_links.h"
#include "core/time/time.h"

namespace lockstep {

/// Messages as a fluid that flows through shared resources. All flows on a resource get equal
/// shares of its bandwidth. If another resource or its own link limits a flow, the others on the
/// resource share the rest equally (max-min fairness; Bertsekas and Gallager, Data Networks,
/// section 6.5).
///
/// Rates are whole bytes per second, and the remainder of a flow is counted in parts of a byte, so
/// the times depend neither on the order in which flows are added nor on the machine.
class Fluid {
 public:
  using Flow = int;
  /// Numbers of resources, for add().
  using Path = std::vector<int>;

  /// Returns the number of a resource, for a Path. Each flow on it counts as `times` equal flows,
  /// of which only one is added.
  int number_of(const SharedLinks::Resource& resource, int times = 1);

  /// Adds a flow at `now`, which is no earlier than the last call's, and after all ends before
  /// `now` have been taken. `time_alone` is how long it takes on its own link, whose bandwidth in
  /// bytes per second is `bandwidth`, if no resource holds it back. The path must live as long as
  /// the flow.
  Flow add(Picoseconds now, double bytes, double bandwidth, Picoseconds time_alone,
           const Path& path);
  /// The next time at which flows end, if there are any.
  std::optional<Picoseconds> next();
  /// Removes the flows that end at next(), and appends them to `ended`, in the order of their
  /// numbers. The number of a flow that has ended may be used again.
  void take(std::vector<Flow>& ended);

 private:
  /// A bandwidth above any resource's, or an amount above any flow's.
  static constexpr std::int64_t no_limit = std::int64_t{1} << 62;
  /// Parts of a byte.
  static constexpr int part_bits = 20;
  /// In picoseconds, 47 days: no flow takes longer, so that sums of times do not overflow. Times
  /// above latest_time are refused.
  static constexpr std::int64_t longest = 4'100'000'000'000'000'000;
  __extension__ typedef __int128 Parts;  // ISO C++ has no such type

  /// The rate of a flow from `since` on, when `left` remained.
  struct Progress {
    std::int64_t rate = 0;  ///< bytes per second; 0 before the first
    Parts left = 0;
    Picoseconds since = 0;
  };
  struct State {
    const Path* path = nullptr;  ///< null: not in use
    std::int64_t own_limit = no_limit;
    std::int64_t new_rate = 0;  ///< while rates are shared out
    Progress current{}, before{};
    Picoseconds begin = 0;
    Picoseconds time_alone = 0;
    std::uint32_t version = 0;  ///< of the rate
    bool seen = false;
  };
  struct Resource {
    std::uint64_t id = 0;
    std::int64_t bandwidth = 0;
    std::int64_t times = 1;  ///< number of flows that each flow counts as
    std::vector<Flow> flows{};
    bool dirty = false;      ///< its flows have changed
    bool seen = false;       ///< while rates are shared out
    std::int64_t left = 0;   ///< the same
    std::int64_t count = 0;  ///< the same: flows without a rate
  };
  struct End {
    Picoseconds time;
    Flow flow;
    std::uint32_t version;
    bool operator>(const End& other) const {
      return time != other.time ? time > other.time : flow > other.flow;
    }
  };

  State& state(Flow flow) { return flows_[static_cast<std::size_t>(flow)]; }
  Resource& resource(int number) { return resources_[static_cast<std::size_t>(number)]; }
  void touch(int number);
  /// Gives new rates to all flows that a change may affect.
  void share();
  void share_component(int resource);
  void give(Flow flow, std::int64_t rate);
  void set_rate(Flow flow, std::int64_t rate);

  std::unordered_map<std::uint64_t, int> numbers_;
  std::vector<Resource> resources_;
  std::vector<State> flows_;
  std::vector<Flow> unused_;
  std::vector<int> dirty_;
  Picoseconds now_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  // Used by share_component(); kept to reuse their memory.
  std::vector<int> component_;
  std::vector<Flow> members_;
};

}  // namespace lockstep
