#include "viz/read/kineto/group_inference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace lockstep::kineto {
namespace {

constexpr std::size_t least_calls = 4;       // of each rank in its group
constexpr std::size_t most_compared = 1000;  // calls of a pair of ranks
constexpr double least_time = 2e6;           // picoseconds: twice the resolution of old traces

/// One rank's calls that belong to one unknown group.
struct Sequence {
  std::size_t rank = 0;
  std::vector<std::size_t> calls;  ///< in RankCalls::calls
};

/// The calls of one stream and one group size on all ranks. Each rank's calls belong to one group,
/// but the ranks form several groups.
struct Family {
  int size = 0;
  std::int64_t stream = 0;
  std::vector<Sequence> sequences;  ///< by rank
};

class Inference {
 public:
  Inference(std::vector<RankCalls>& ranks, const std::vector<int>& numbers)
      : ranks_(ranks), numbers_(numbers) {}

  void infer(const Family& family) {
    const auto size = static_cast<std::size_t>(family.size);
    const std::size_t count = family.sequences.size();
    if (count != ranks_.size() || std::ranges::any_of(family.sequences, [](const Sequence& each) {
          return each.calls.size() < least_calls;
        }))
      return;
    struct Candidate {
      std::size_t stride = 0;
      double differs = 0;
    };
    std::vector<Candidate> candidates;
    for (std::size_t stride = 1; stride * size <= count; ++stride)
      if (count % (stride * size) == 0)
        if (const auto differs = difference(family, stride))
          candidates.push_back({stride, *differs});
    std::ranges::stable_sort(candidates, {}, &Candidate::differs);
    const bool messages = is_message(call(family.sequences[0], 0).kind);
    const auto taken = [&](const Candidate& each) {
      return !messages && taken_.contains({size, each.stride});
    };
    const auto best = std::ranges::find_if_not(candidates, taken);
    if (best == candidates.end()) return;
    const auto next = std::find_if_not(best + 1, candidates.end(), taken);
    if (next != candidates.end() && 2 * best->differs >= next->differs) return;
    // Ranks that nothing synchronizes differ by more than ranks that a known group synchronizes.
    if (best != candidates.begin() && best->differs > 2 * candidates.front().differs + least_time)
      return;
    taken_.insert({size, best->stride});
    set(family, best->stride);
  }

 private:
  const Call& call(const Sequence& of, std::size_t index) const {
    return ranks_[of.rank].calls[of.calls[index]];
  }

  static std::size_t first_of_group(std::size_t rank, std::size_t size, std::size_t stride) {
    return rank / (size * stride) * (size * stride) + rank % stride;
  }

  /// Returns whether two ranks may be in one group: they make the same calls, or each sends what
  /// the other receives.
  bool compatible(const Sequence& a, const Sequence& b) const {
    if (a.calls.size() != b.calls.size()) return false;
    for (std::size_t i = 0; i < a.calls.size(); ++i) {
      const Call &one = call(a, i), &other = call(b, i);
      if (is_message(one.kind) != is_message(other.kind) || one.step != other.step) return false;
      if (is_message(one.kind) ? one.kind == other.kind : one.kind != other.kind) return false;
    }
    return true;
  }

  /// Returns the median difference, over all calls, between two ranks' times from one end to the
  /// next.
  double difference(const Sequence& a, const Sequence& b) const {
    std::vector<double> differences;
    const auto between = [&](const Sequence& of, std::size_t index) {
      return static_cast<double>(call(of, index + 1).time.end - call(of, index).time.end);
    };
    for (std::size_t i = 0; i + 1 < std::min(a.calls.size(), most_compared); ++i)
      differences.push_back(std::abs(between(a, i) - between(b, i)));
    const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
    std::ranges::nth_element(differences, middle);
    return *middle;
  }

  /// Returns the largest difference between neighbours in groups of this stride; nothing if the
  /// neighbours' calls rule the stride out.
  std::optional<double> difference(const Family& family, std::size_t stride) const {
    const auto size = static_cast<std::size_t>(family.size);
    double largest = 0;
    for (std::size_t rank = 0; rank < family.sequences.size(); ++rank) {
      if (rank / stride % size == size - 1) continue;
      const Sequence &one = family.sequences[rank], &next = family.sequences[rank + stride];
      if (!compatible(one, next)) return {};
      largest = std::max(largest, difference(one, next));
    }
    return largest;
  }

  void set(const Family& family, std::size_t stride) {
    const auto size = static_cast<std::size_t>(family.size);
    for (std::size_t rank = 0; rank < family.sequences.size(); ++rank) {
      const std::size_t first = first_of_group(rank, size, stride);
      const int other = numbers_[first == rank ? rank + stride : first];
      for (const std::size_t each : family.sequences[rank].calls) {
        Call& found = ranks_[rank].calls[each];
        found.inferred = true;
        if (is_message(found.kind))
          found.peer = other;
        else
          found.members = "stride " + std::to_string(stride) + " from " + std::to_string(first) +
                          " on stream " + std::to_string(family.stream);
      }
    }
  }

  std::vector<RankCalls>& ranks_;
  const std::vector<int>& numbers_;
  std::set<std::pair<std::size_t, std::size_t>> taken_;  ///< sizes and strides already assigned
};

}  // namespace

void infer_groups(std::vector<RankCalls>& ranks, const std::vector<int>& numbers,
                  const std::vector<Trace>& traces) {
  if (static_cast<int>(traces.size()) != traces.front().world_size) return;
  std::map<std::pair<int, std::int64_t>, Family> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (std::size_t i = 0; i < ranks[rank].calls.size(); ++i) {
      const Call& call = ranks[rank].calls[i];
      const bool unknown = call.kernel && call.comms_id.empty() && call.members.empty() &&
                           (!is_message(call.kind) || (call.peer < 0 && !call.label));
      if (!unknown || call.group_size < 2 || (is_message(call.kind) && call.group_size != 2))
        continue;
      const Track& track = traces[rank].tracks[traces[rank].events[call.event].track];
      Family& family = found[{call.group_size, track.tid}];
      family.size = call.group_size;
      family.stream = track.tid;
      if (family.sequences.empty() || family.sequences.back().rank != rank)
        family.sequences.push_back({rank, {}});
      family.sequences.back().calls.push_back(i);
    }
  // Groups with many calls, such as those of tensor parallelism, give the most evidence.
  std::vector<Family> families;
  for (auto& [key, family] : found) families.push_back(std::move(family));
  std::ranges::stable_sort(families, std::greater{},
                           [](const Family& each) { return each.sequences[0].calls.size(); });
  Inference inference{ranks, numbers};
  for (const Family& family : families) inference.infer(family);
}

}  // namespace lockstep::kineto
