#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "lessons/06_tensor_parallel/prediction.h"
#include "lessons/12_expert_parallel/expert_parallel.h"

namespace lockstep {

/// The rows of one rank in one layer, for one microbatch.
struct ExchangedRows {
  explicit ExchangedRows(const RoutedMicrobatch& routed)
      : mine(std::accumulate(routed.sent.begin(), routed.sent.end(), std::int64_t{0})),
        theirs(std::accumulate(routed.received.begin(), routed.received.end(), std::int64_t{0})) {}
  std::int64_t mine = 0;    ///< M: this rank's choices that were accepted
  std::int64_t theirs = 0;  ///< R: rows of this rank's experts
};

/// The bytes of the all-to-alls that a rank sends to another member of its expert-parallel group in
/// one layer, for one microbatch. `row` is the size of a row. The rank announces its rows, a number
/// for each of the member's experts. Then it sends rows to the member's experts and the results of
/// the member's rows, and in the backward pass the gradients of both. Blocks that are recomputed
/// run their forward pass twice (`forwards`).
inline std::int64_t bytes_to(std::size_t member, const RoutedMicrobatch& routed,
                             const MixtureOfExperts& moe, std::int64_t row, int forwards = 1) {
  const auto ranks = static_cast<std::int64_t>(routed.sent.size());
  return forwards * 4 * moe.experts / ranks +
         (forwards + 1) * row * (routed.sent[member] + routed.received[member]);
}

/// The activations of blocks with experts on one rank, in bytes, for the routing of a microbatch.
/// The allocator agrees to the byte (tests/lessons/test_expert_parallel.cpp).
///
/// Let F = N h elements, for N tokens per microbatch, M rows that this rank sends and R rows that
/// it receives, both including those that stay. Per block, a rank saves 7 F for LayerNorm and
/// attention, as on one device, and F + 9 R h + M h for the experts: the router's input, the
/// experts' inputs (R h), the inner activations before and after GELU (8 R h) and the results that
/// came back (M h). So the memory of a rank grows with the popularity of its experts.
class ExpertActivations {
 public:
  /// `ranks` exchange rows with each other. `stage` has dense blocks, and the ranks of tp divide
  /// each expert into `parts`.
  ExpertActivations(const Plan& plan, const MixtureOfExperts& moe, int ranks,
                    const TensorFootprint& stage, int parts)
      : width_(width_of(plan)),
        h_(plan.model().hidden),
        tokens_(stage.tokens),
        experts_(moe.experts),
        top_k_(moe.top_k),
        ranks_(ranks),
        parts_(parts),
        whole_(stage.whole),
        boundary_(stage.boundary),
        head_(stage.head),
        // A dense block without its MLP's inputs: fc's x, and GELU's x and y.
        dense_(stage.block - whole_ - 8 * stage.part) {}

  /// Returns the peak for a microbatch that runs forward and then backward through these layers.
  std::int64_t peak(const std::vector<ExchangedRows>& layers) const {
    std::int64_t below = 0, most = 0;  // `below`: saved by the blocks below
    for (const ExchangedRows& rows : layers) {
      most = std::max({most, below + forward(rows), below + backward(rows)});
      below += saved(rows);
    }
    return std::max(most, below + head_ + head_backward());
  }

  /// Returns what a block saves.
  std::int64_t saved(const ExchangedRows& rows) const { return dense_ + saved_by_experts(rows); }
  /// Returns the most that a block needs in its forward pass, including what it saves.
  std::int64_t forward(const ExchangedRows& rows) const {
    const std::int64_t gathered = is_shard() ? boundary_ + whole_ : 0;  // by f
    const std::int64_t router =
        whole_ + 4 * tokens_ * experts_ + choices() + 4 * tokens_ + logits();
    const std::int64_t gather = routing(rows) + 4 * rows.mine + if_alone(matrix(rows.mine));
    const std::int64_t compute = routing(rows) + 2 * matrix(rows.theirs) + 2 * inner(rows);
    const std::int64_t end = saved_by_experts(rows) + whole_ + (is_shard() ? boundary_ : 0);
    return dense_ + std::max({gathered, router, gather, compute, end});
  }
  /// Returns the most that it needs in its backward pass, which starts with the saved activations
  /// and dy.
  std::int64_t backward(const ExchangedRows& rows) const {
    const std::int64_t mine = matrix(rows.mine), theirs = matrix(rows.theirs);
    const std::int64_t start = saved(rows) + boundary_ + choices();
    const std::int64_t weigh = start + (is_shard() ? whole_ : 0) + if_alone(mine);
    // dy and the inner gradient; then, without the inner activations, also dx.
    const std::int64_t through_gelu = start - mine + theirs + inner(rows);
    const std::int64_t outer = start - mine + 2 * theirs + whole_;
    const std::int64_t back = start + theirs + whole_ + if_alone(theirs - mine);
    const std::int64_t router = start - mine + theirs + 2 * whole_ + logits() + 4 * experts_;
    return std::max({weigh, through_gelu, outer, back, router});
  }
  /// Returns what the head needs in its backward pass beyond what it saves: its Linear computes its
  /// dx after the losses are released.
  std::int64_t head_backward() const { return std::max<std::int64_t>(0, whole_ - 8 * tokens_); }

 private:
  /// Returns whether tp ranks divide the tokens outside the products (sequence parallelism).
  bool is_shard() const { return boundary_ < whole_; }
  std::int64_t matrix(std::int64_t rows) const { return width_ * rows * h_; }
  /// (R, 4 h), or a tp rank's part of it
  std::int64_t inner(const ExchangedRows& rows) const { return 4 * matrix(rows.theirs) / parts_; }
  std::int64_t choices() const { return 4 * tokens_ * top_k_; }  // indices or weights
  std::int64_t logits() const { return width_ * tokens_ * experts_; }
  /// The router's input, probabilities and choices, the slots, and the two orders of R rows.
  std::int64_t routing(const ExchangedRows& rows) const {
    return whole_ + 4 * tokens_ * experts_ + 2 * choices() + (ranks_ > 1 ? 8 * rows.theirs : 0);
  }
  std::int64_t saved_by_experts(const ExchangedRows& rows) const {
    return routing(rows) + matrix(rows.theirs) + 2 * inner(rows) + matrix(rows.mine);
  }
  /// Without other ranks, rows go to the experts and back in the same memory.
  std::int64_t if_alone(std::int64_t bytes) const { return ranks_ == 1 ? bytes : 0; }

  std::int64_t width_, h_, tokens_, experts_, top_k_;
  int ranks_, parts_;
  std::int64_t whole_;     ///< bytes of F
  std::int64_t boundary_;  ///< bytes of a block's input
  std::int64_t head_, dense_;
};

/// Bytes of the messages that a rank holds at the same time in one layer.
inline std::int64_t expert_messages(const ExchangedRows& rows, const MixtureOfExperts& moe,
                                    int ranks, std::int64_t row) {
  if (ranks == 1) return 0;
  return std::max(row * (rows.mine + rows.theirs), std::int64_t{8} * moe.experts);
}

/// The sums of gradients over the ranks that hold the same parameters: all data-parallel ranks, or
/// for experts those of them that have the same experts.
struct GradientSum {
  FlatLayout layout;
  std::int64_t sent = 0;     ///< elements that this rank sends per step
  std::int64_t scratch = 0;  ///< elements
};
inline std::vector<GradientSum> gradient_sums(const Plan& plan, const Place& place,
                                              std::int64_t bucket_bytes) {
  const std::vector<StoredUnit> units = plan.units(place, place.only_stage());
  const std::vector<int> same = plan.mesh.replicas_of_experts(place.rank);
  const int index = static_cast<int>(std::ranges::find(same, place.rank) - same.begin());
  std::vector<GradientSum> sums;
  for (const bool experts : {false, true}) {
    const int n = experts ? static_cast<int>(same.size()) : place.size(Axis::dp);
    const int i = experts ? index : place.coordinate(Axis::dp);
    GradientSum& sum =
        sums.emplace_back(GradientSum{FlatLayout{units_with(units, experts), n, bucket_bytes}});
    for (const FlatLayout::Bucket& bucket : sum.layout.buckets()) {
      sum.sent += ring_all_reduce_sends(bucket.elements, n, i);
      sum.scratch += ring_scratch(bucket.elements, plan, n);  // all buckets at once
    }
  }
  return sums;
}

/// Sets the figures that follow from a rank's routing of `count` microbatches, from `first` on: the
/// bytes of a step (the mean, if they are several), and the memory.
inline void set_routed_figures(Predicted& predicted, const Plan& plan, const Place& place,
                               const MixtureOfExperts& moe, RoutingLog& log,
                               std::int64_t bucket_bytes, std::int64_t first, std::int64_t count) {
  const int ranks = place.size(Axis::ep), self = place.coordinate(Axis::ep);
  const int t = place.size(Axis::tp);
  const TensorFootprint stage{plan, place, place.only_stage(), plan.batch.microbatches};
  const ExpertActivations activations{plan, moe, ranks, stage, /*parts=*/1};
  const std::int64_t row = width_of(plan) * plan.model().hidden;
  const std::int64_t tokens = plan.boundary(plan.batch.microbatches).shape.rows();
  std::int64_t peak = 0, buffers = 0, bytes = 0;
  for (std::int64_t call = first; call < first + count; ++call) {
    std::vector<ExchangedRows> layers;
    for (int layer = 0; layer < plan.model().layers; ++layer) {
      const RoutedMicrobatch& routed =
          log.calls(replica_of(plan.mesh, place.rank), layer,
                    place.coordinate(Axis::tp))[static_cast<std::size_t>(call)];
      const ExchangedRows& rows = layers.emplace_back(routed);
      for (int member = 0; member < ranks; ++member)
        if (member != self) bytes += bytes_to(static_cast<std::size_t>(member), routed, moe, row);
      buffers = std::max(buffers, expert_messages(rows, moe, ranks, row));
    }
    peak = std::max(peak, activations.peak(layers));
  }
  const std::int64_t steps = std::max<std::int64_t>(1, count / plan.batch.microbatches);
  predicted.bytes_sent[Operation::all_to_all] = bytes / steps;
  predicted.peak_bytes[MemoryCategory::activations] = peak;
  for (const GradientSum& sum : gradient_sums(plan, place, bucket_bytes))
    buffers = std::max(buffers, width_of(plan) * sum.scratch);
  if (t > 1)
    buffers = std::max(
        {buffers, *predict_tensor_parallel(plan, place).peak_bytes[MemoryCategory::communication],
         4 * ring_scratch(tokens * moe.top_k, plan, t)});
  predicted.peak_bytes[MemoryCategory::communication] = buffers;
}

/// Predicts one step of one rank. Bytes and memory of the experts depend on the routing:
/// Predicted::at_end derives them from the recorded routings.
///
/// With experts over the tensor-parallel group, a layer has the four all-reduces of lesson 6, and a
/// fifth for the gradients of N k probabilities.
inline Predicted predict_expert_parallel(const Plan& plan, const Place& place,
                                         const MixtureOfExperts& moe, RoutingLog& log,
                                         std::int64_t bucket_bytes) {
  const std::int64_t width = width_of(plan);
  const int m = plan.batch.microbatches, t = place.size(Axis::tp);
  const TensorFootprint footprint{plan, place, place.only_stage(), m};
  Predicted predicted = t > 1 ? predict_tensor_parallel(plan, place) : Predicted{};
  std::int64_t sent = *predicted.bytes_sent[Operation::all_reduce];
  if (t > 1)
    sent += 4 * m * plan.model().layers *
            ring_all_reduce_sends(footprint.tokens * moe.top_k, t, place.coordinate(Axis::tp));
  std::int64_t gradients = footprint.gradients;
  for (const GradientSum& sum : gradient_sums(plan, place, bucket_bytes)) {
    sent += width * sum.sent;
    gradients += width * (sum.layout.elements() - sum.layout.used());  // padding
  }
  predicted.bytes_sent[Operation::all_reduce] = sent;
  predicted.peak_bytes[MemoryCategory::parameters] = footprint.parameters;
  predicted.peak_bytes[MemoryCategory::gradients] = gradients;
  predicted.peak_bytes[MemoryCategory::optimizer] = footprint.optimizer;

  const Figure unknown = Figure::not_predicted("depends on the routing");
  predicted.bytes_sent[Operation::all_to_all] = unknown;
  predicted.peak_bytes[MemoryCategory::activations] = unknown;
  predicted.peak_bytes[MemoryCategory::communication] = unknown;
  predicted.at_end = [=, &log](Predicted& complete) {
    const auto calls = static_cast<std::int64_t>(
        log.calls(replica_of(plan.mesh, place.rank), 0, place.coordinate(Axis::tp)).size());
    set_routed_figures(complete, plan, place, moe, log, bucket_bytes, 0, calls);
  };
  return predicted;
}

}  // namespace lockstep
