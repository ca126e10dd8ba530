#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "core/comm/group.h"
#include "core/model/attention.h"
#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// Ulysses (Jacobs 2023): heads are independent of each other, so an all-to-all exchanges tokens
/// for heads. Before attention, every rank holds all heads of its own tokens; during attention, it
/// holds all tokens of a/N heads. The attention itself is that of one device. With grouped heads, N
/// must divide the heads of keys, too.
class UlyssesAttention : public Layer {
 public:
  /// N must divide the numbers of `heads`, which are the numbers on this rank outside attention.
  UlyssesAttention(const LayerSite& site, Group& ranks, Heads heads)
      : memory_(site.device.memory),
        ops_(site.device, site.layer, site.config.dtype),
        ranks_(ranks),
        heads_(heads),
        core_(site, {heads.queries / ranks.size(), heads.keys / ranks.size()}) {
    for (int rank = 0; rank < ranks.size(); ++rank)
      positions_.push_back(
          context_positions(site.context, site.config.sequence, rank, ranks.size()));
  }

  Tensor forward(Tensor qkv, Stash& stash) override {
    const std::vector<int> parts{heads_.queries, heads_.keys, heads_.keys};
    return tokens_of(core_.forward(heads_of(std::move(qkv), parts), stash), {heads_.queries});
  }
  Tensor backward_input(Tensor dy, Stash& stash) override {
    const std::vector<int> parts{heads_.queries, heads_.keys, heads_.keys};
    return tokens_of(core_.backward_input(heads_of(std::move(dy), {heads_.queries}), stash), parts);
  }
  void backward_weight(Stash&) override {}

 private:
  /// Returns (b, s, w/N), all tokens of this rank's heads, from (b, c, w), all heads of its tokens.
  /// `tokens` may hold several tensors side by side (q, k and v), or dy alone; `parts` are their
  /// numbers of heads.
  Tensor heads_of(Tensor tokens, const std::vector<int>& parts) const {
    const Shape& own = tokens.shape();
    const Tensor out = message(own), in = message(own);
    copy_heads(tokens, out, parts, /*into_messages=*/true);
    Tensor heads =
        ops_.activation({own[0], own[1] * ranks_.size(), own[2] / ranks_.size()}, "own heads");
    tokens.reset();
    ranks_.all_to_all(out, in).wait();
    copy_positions(heads, in, /*into_messages=*/false);
    return heads;
  }
  /// The inverse of heads_of.
  Tensor tokens_of(Tensor heads, const std::vector<int>& parts) const {
    const Shape& all = heads.shape();
    Tensor tokens =
        ops_.activation({all[0], all[1] / ranks_.size(), all[2] * ranks_.size()}, "own tokens");
    const Tensor out = message(tokens.shape()), in = message(tokens.shape());
    copy_positions(heads, out, /*into_messages=*/true);
    heads.reset();
    ranks_.all_to_all(out, in).wait();
    copy_heads(tokens, in, parts, /*into_messages=*/false);
    return tokens;
  }

  /// Allocates one chunk (b, c, w/N) per rank.
  Tensor message(const Shape& tokens) const {
    return {memory_, tokens, MemoryCategory::communication, ops_.dtype(),
            "tokens and heads in flight"};
  }
  void copy(View tensor, View message, bool into_messages) const {
    into_messages ? ops_.copy(tensor, message) : ops_.copy(message, tensor);
  }
  /// Copies between the columns of each rank's heads and that rank's chunk.
  void copy_heads(View tokens, View messages, const std::vector<int>& parts,
                  bool into_messages) const {
    const std::int64_t b = tokens.shape[0], c = tokens.shape[1], w = tokens.shape[2];
    const int n = ranks_.size();
    const std::int64_t d = w / std::accumulate(parts.begin(), parts.end(), 0);
    for (int rank = 0; rank < n; ++rank) {
      const View chunk = ranks_.chunk(messages, rank).reshaped({b, c, w / n});
      std::int64_t first = 0;
      for (const int heads : parts) {
        const std::int64_t own = heads / n * d;
        copy(tokens.columns(first + rank * own, own), chunk.columns(first / n, own), into_messages);
        first += heads * d;
      }
    }
  }
  /// Copies between the positions of each rank and that rank's chunk. A range of positions of every
  /// sequence is a range of columns of (b, s w).
  void copy_positions(View heads, View messages, bool into_messages) const {
    const std::int64_t b = heads.shape[0], s = heads.shape[1], width = heads.shape[2];
    const View sequences = heads.reshaped({b, s * width});
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const View chunk = ranks_.chunk(messages, rank).reshaped({b, s / ranks_.size() * width});
      std::int64_t first = 0;
      for (const auto& [begin, end] : positions_[static_cast<std::size_t>(rank)]) {
        const std::int64_t count = end - begin;
        copy(sequences.columns(begin * width, count * width),
             chunk.columns(first * width, count * width), into_messages);
        first += count;
      }
    }
  }

  Memory& memory_;
  Ops ops_;
  Group& ranks_;
  Heads heads_;
  AttentionCore core_;
  std::vector<std::vector<Positions>> positions_;  ///< by rank
};

}  // namespace lockstep
