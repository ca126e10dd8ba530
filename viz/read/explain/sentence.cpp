#include "viz/read/explain/sentence.h"

#include <iterator>

namespace lockstep {

const char* name_of(Claim claim) {
  constexpr const char* names[] = {
      "rank_at_pace", "ranks_at_pace",    "stage_at_pace",   "stages_at_pace", "free_axis",
      "free_links",   "no_latency",       "alternative_run", "step_times",     "changed_parts",
      "changed_rank", "weight_gradients", "peak_memory",     "bytes_sent"};
  static_assert(std::size(names) == claim_count);
  return names[static_cast<std::size_t>(claim)];
}

}  // namespace lockstep
