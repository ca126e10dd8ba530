#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "lessons/schedules/registry.h"
#include "tests/support/portion.h"

namespace lockstep::testing {

/// A schedule that the lessons generate, and a size that it accepts.
struct SizedSchedule {
  const KnownSchedule* known = nullptr;
  PipelineSize size;
};

/// Returns the numbers of microbatches 1 to 2 p + 1, and 4 p.
inline std::vector<int> microbatch_numbers(int ranks) {
  std::set<int> numbers{4 * ranks};
  for (int m = 1; m <= 2 * ranks + 1; ++m) numbers.insert(m);
  return {numbers.begin(), numbers.end()};
}

/// Returns whether a test tries this size. A search takes a tenth of a second, so without --all
/// only one m is searched for each p.
inline bool is_tried(const KnownSchedule& known, const PipelineSize& size) {
  return !known.searched || all_cases() || size.microbatches == size.ranks + 1;
}

/// Returns every schedule with every size that it accepts, of p in {2, 3, 4, 8}, v in {1, 2, 3} and
/// m in microbatch_numbers(p).
inline std::vector<SizedSchedule> accepted_schedules() {
  std::vector<SizedSchedule> accepted;
  for (const KnownSchedule& known : known_schedules())
    for (const int p : {2, 3, 4, 8})
      for (const int v : {1, 2, 3})
        for (const int m : microbatch_numbers(p))
          if (const PipelineSize size{p, v, m};
              is_tried(known, size) && refusal(known, size).empty())
            accepted.push_back({&known, size});
  return accepted;
}

}  // namespace lockstep::testing
