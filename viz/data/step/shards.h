#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/stored_slices.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep::viz {

/// Ranks that store the same boxes of a tensor.
struct Holders {
  std::vector<int> ranks;  ///< ascending
  std::vector<Box> boxes;
  std::int64_t elements = 0;  ///< per rank
  bool operator==(const Holders&) const = default;
};

/// The ranks that store each part of one tensor. Kinds that are stored in the same parts by the
/// same ranks share a layout.
struct ShardLayout {
  struct Kind {
    StoredKind kind{};
    std::int64_t bytes_per_element = 0;
    bool operator==(const Kind&) const = default;
  };
  std::vector<Kind> kinds;
  std::vector<Holders> holders;  ///< ordered by their lowest rank

  /// Returns how many copies of the whole tensor the run's ranks store together.
  double copies(const Shape& whole) const;
  /// Returns the bytes, over all kinds of this layout, that each of these ranks stores, without
  /// padding.
  std::int64_t bytes(const Holders& holders) const;
};
struct TensorShards {
  std::string tensor;
  Shape whole;
  std::vector<ShardLayout> layouts;
};

/// The tensors that every rank of a run stores between steps, according to the trace.
class Shards {
 public:
  explicit Shards(const Timeline& timeline);
  Shards() = default;

  /// The names of all tensors, in the order in which the ranks list them.
  const std::vector<std::string>& tensors() const { return tensors_; }
  /// Returns the index of the largest matrix that several ranks divide. If nothing is divided,
  /// returns the index of the largest matrix of a block; 0 if there is none.
  std::size_t first_choice() const;
  TensorShards shards_of(const std::string& tensor) const;
  std::int64_t omitted() const { return omitted_; }  ///< entries that some rank left out

 private:
  struct RankSlices {
    int rank = 0;
    std::vector<StoredSlice> slices;
  };
  std::vector<RankSlices> ranks_;
  std::vector<std::string> tensors_;
  std::int64_t omitted_ = 0;
};

/// Rows and columns of a tensor as a matrix: all dimensions but the last are its rows.
struct MatrixBox {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  bool operator==(const MatrixBox&) const = default;
};
/// Returns the parts of the matrix that a box covers: several if the box skips rows. Stops soon
/// after `most` parts.
std::vector<MatrixBox> in_matrix(const Box& box, const Shape& whole, std::size_t most);

/// Returns "64 × 192".
std::string shape_words(const Shape& shape);
/// Returns "rank 3", or "ranks 0, 2-5" with ranges for three or more successive ranks.
std::string ranks_words(const std::vector<int>& ranks);
/// Returns the name of a layout's kinds, such as "parameters and gradients".
std::string kinds_words(const ShardLayout& layout);
/// Returns the sentences that explain a tensor's layouts: the size of each rank's part, and how
/// many copies the run has.
std::vector<std::string> shard_sentences(const TensorShards& shards);
/// Returns the lines that explain the part of one group of holders.
std::vector<std::string> holders_words(const TensorShards& shards, const ShardLayout& layout,
                                       const Holders& holders);

/// One rank's memory for parameters through a step, and the gathers that change it.
struct ParameterMemory {
  int rank = 0;
  Interval window{};
  struct Sample {
    Picoseconds at = 0;
    std::int64_t bytes = 0;
    bool operator==(const Sample&) const = default;
  };
  std::vector<Sample> samples;       ///< changes of the memory, by time; the first is at the start
  std::int64_t least = 0, most = 0;  ///< over the step
  Intervals gathers;                 ///< all-gathers in flight; empty if the memory never changes
  /// When the rank holds all values of a module, although it stores only slices of them.
  std::map<std::string, Intervals> whole;

  bool changes() const { return most > least; }
  std::int64_t at(Picoseconds time) const;
  /// Returns the times at which the rank holds a tensor in full, although it stores only a part.
  /// Empty if the trace does not say.
  const Intervals& whole_times(const std::string& tensor) const;
  bool is_whole(const std::string& tensor, Picoseconds time) const;
};
/// Returns nothing if the rank does not report its memory in the step.
std::optional<ParameterMemory> parameter_memory(const Timeline& timeline, int rank, int step);

/// Returns the sentences about the rank's memory, and about a tensor on this rank, in the step.
std::vector<std::string> memory_sentences(const ParameterMemory& memory,
                                          const TensorShards& shards);
/// Returns the sentence about one moment, or "" if it is not in the step or the memory never
/// changes.
std::string moment_sentence(const ParameterMemory& memory, const TensorShards& shards,
                            Picoseconds time, Picoseconds origin);

}  // namespace lockstep::viz
