#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "core/comm/group.h"
#include "core/model/builder.h"
#include "core/model/ops.h"
#include "lessons/12_expert_parallel/routing.h"

namespace lockstep {

/// Allocates indices, and copies them from the host.
inline Tensor index_tensor(Device device, const std::vector<std::int32_t>& values, Shape shape) {
  Tensor tensor{device.memory, shape, MemoryCategory::activations, DType::i32, "routing"};
  if (tensor.elements() > 0) device.compute.write(values.data(), tensor);
  return tensor;
}

/// Moves rows between the rank of their token and the rank of their expert.
///
/// A rank sends its rows sorted by expert, so the rows for one rank are contiguous. It receives
/// them sorted by sender, and sorts them by expert, so that each expert has one matrix.
class TokenExchange {
 public:
  TokenExchange(const LayerSite& site, Group* ranks, int experts)
      : device_(site.device),
        ops_(site.device, site.layer, site.config.dtype),
        ranks_(ranks),
        members_(ranks != nullptr ? ranks->size() : 1),
        local_(experts / members_),
        width_(site.config.hidden) {}

  /// One microbatch's rows.
  struct Rows {
    std::vector<std::int64_t> sent, received;  ///< by member
    std::vector<std::int64_t> of_expert;       ///< received, by local expert
    Tensor by_expert;  ///< for each row in order of the experts: its index in order of arrival
    Tensor by_sender;  ///< for each row in order of arrival: its index in order of the experts
    std::int64_t total() const {
      return std::accumulate(received.begin(), received.end(), std::int64_t{0});
    }
  };

  /// Tells each rank how many rows its experts will get from this rank: E numbers in all, 4 bytes
  /// each. The host needs the answer, to allocate the buffers.
  Rows announce(const Routing& routing) const {
    const std::vector<std::int64_t>& kept = routing.kept;
    Rows rows;
    std::vector<std::int64_t> counts = kept;  // [sender][local expert]
    if (ranks_ != nullptr) counts = exchange_counts(routing);
    rows.of_expert.resize(index(local_));
    std::vector<std::int32_t> block(counts.size());  // the first row from a sender for an expert
    std::int32_t next = 0;
    for (int member = 0; member < members_; ++member) {
      rows.sent.push_back(sum(kept, member));
      rows.received.push_back(sum(counts, member));
      for (int e = 0; e < local_; ++e) {
        const std::size_t i = index(member * local_ + e);
        block[i] = next;
        next += static_cast<std::int32_t>(counts[i]);
        rows.of_expert[index(e)] += counts[i];
      }
    }
    if (ranks_ == nullptr) return rows;
    std::vector<std::int32_t> by_expert, by_sender(index(next));
    for (int e = 0; e < local_; ++e)
      for (int member = 0; member < members_; ++member) {
        const std::size_t i = index(member * local_ + e);
        for (std::int32_t row = block[i]; row < block[i] + counts[i]; ++row) {
          by_sender[index(row)] = static_cast<std::int32_t>(by_expert.size());
          by_expert.push_back(row);
        }
      }
    rows.by_expert = index_tensor(device_, by_expert, {next});
    rows.by_sender = index_tensor(device_, by_sender, {next});
    return rows;
  }

  /// Returns a buffer for this rank's rows, in order of their slots.
  Tensor outgoing(std::int64_t rows) const {
    return ranks_ == nullptr ? activation(rows) : buffer(rows);
  }

  /// Sends this rank's rows to their experts. Returns the rows of this rank's experts, in order of
  /// the experts.
  Tensor dispatch(Tensor mine, const Rows& rows) const {
    if (ranks_ == nullptr) return mine;
    const Tensor received = buffer(rows.total());
    all_to_all(mine, rows.sent, received, rows.received);
    mine.reset();
    Tensor sorted = activation(rows.total());
    ops_.gather_rows(received, rows.by_expert, sorted);
    return sorted;
  }

  /// The reverse: sends each row of this rank's experts back to the rank of its token. Returns this
  /// rank's rows in order of their slots.
  Tensor give_back(Tensor theirs, const Rows& rows) const {
    if (ranks_ == nullptr) return theirs;
    const Tensor sorted = buffer(rows.total());
    ops_.gather_rows(theirs, rows.by_sender, sorted);
    theirs.reset();
    Tensor mine = activation(std::accumulate(rows.sent.begin(), rows.sent.end(), std::int64_t{0}));
    all_to_all(sorted, rows.received, mine, rows.sent);
    return mine;
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int64_t sum(const std::vector<std::int64_t>& counts, int member) const {
    const auto first = counts.begin() + member * local_;
    return std::accumulate(first, first + local_, std::int64_t{0});
  }
  Tensor activation(std::int64_t rows) const {
    return ops_.activation({rows, width_}, "tokens by expert");
  }
  Tensor buffer(std::int64_t rows) const {
    return Tensor{device_.memory,
                  {rows, width_},
                  MemoryCategory::communication,
                  ops_.dtype(),
                  "tokens in flight"};
  }

  std::vector<std::int64_t> exchange_counts(const Routing& routing) const {
    const std::vector<std::int64_t>& kept = routing.kept;
    const auto count = static_cast<std::int64_t>(kept.size());
    const Tensor out{device_.memory, {count}, MemoryCategory::communication};
    const Tensor in{device_.memory, {count}, MemoryCategory::communication};
    std::vector<float> numbers(kept.begin(), kept.end());  // exact up to 2^24 rows
    device_.compute.write(numbers.data(), out);
    ranks_->all_to_all(out, in).wait();
    if (device_.memory.device() == DeviceKind::meta) {  // nothing has arrived
      std::vector<std::int64_t> counts;
      for (std::size_t member = 0; member < index(members_); ++member) {
        const auto& theirs =
            routing.kept_by_member.empty() ? kept : routing.kept_by_member.at(member);
        counts.insert(counts.end(), theirs.begin() + ranks_->rank() * local_,
                      theirs.begin() + (ranks_->rank() + 1) * local_);
      }
      return counts;
    }
    device_.compute.read(in, numbers.data());
    return {numbers.begin(), numbers.end()};
  }

  void all_to_all(View out, std::vector<std::int64_t> send, View in,
                  std::vector<std::int64_t> receive) const {
    for (auto* counts : {&send, &receive})
      for (std::int64_t& count : *counts) count *= width_;
    ranks_->all_to_all_v(out, std::move(send), in, std::move(receive)).wait();
  }

  Device device_;
  Ops ops_;
  Group* ranks_;  ///< null if this rank has all experts
  int members_;
  int local_;  ///< experts on this rank
  std::int64_t width_;
};

}  // namespace lockstep
