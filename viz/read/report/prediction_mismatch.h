#pragma once

#include <string>
#include <vector>

#include "core/run/results/rank_results.h"

namespace lockstep {

/// One line for each phase in which a rank's bytes sent or peak memory differ from the prediction:
///
///   m = 8: rank 2 sent 1024 B of all_reduce per step, predicted 1000 B (and 3 more differ)
std::vector<std::string> prediction_mismatches(const std::vector<RankResults>& ranks);

}  // namespace lockstep
