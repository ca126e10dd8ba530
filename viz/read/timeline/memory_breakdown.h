#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// The contents of a rank's memory: the bytes of each category, of each kind of tensor in a
/// category, and of each layer in a kind.
struct MemoryBreakdown {
  using LayerBytes = std::pair<int, std::int64_t>;
  struct Kind {
    std::string name;
    std::int64_t bytes = 0;
    std::int64_t outside = 0;        ///< the part of them outside the blocks
    std::vector<LayerBytes> layers;  ///< the others, by layer
  };
  struct Category {
    MemoryCategory category = MemoryCategory::parameters;
    std::int64_t bytes = 0;
    std::vector<Kind> kinds;  ///< largest first
  };
  std::vector<Category> categories;  ///< largest first, without empty ones
  std::int64_t total() const;
};

/// Divides a state of a rank's memory (MemoryStates), which must exist.
MemoryBreakdown memory_breakdown(const Timeline& timeline, const RankTimeline& rank, int state);

/// Returns the rank's memory at a time, according to the last sample before it. Returns nothing if
/// there is none, or if the trace does not divide memory into parts.
std::optional<MemoryBreakdown> memory_breakdown_at(const Timeline& timeline,
                                                   const RankTimeline& rank, Picoseconds at);

/// Returns the state with the highest total among those reached in the ended steps from `first` to
/// `last`; of several, the earliest. Unlike memory_peak(), this is exact: samples miss memory that
/// is allocated and released between them. Returns nothing if the trace contains no such states.
std::optional<StatePeak> peak_of_steps(const RankTimeline& rank, int first, int last);

/// Returns where a kind's bytes are, such as "layer 3" or "1.1 MB in each of layers 0-2, 5, 98.3 kB
/// elsewhere"; empty if they are all outside the blocks. `words` formats a number of bytes.
std::string places_of(const MemoryBreakdown::Kind& kind,
                      const std::function<std::string(std::int64_t)>& words);

}  // namespace lockstep
