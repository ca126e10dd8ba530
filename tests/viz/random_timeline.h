#pragma once

#include <random>
#include <string>

#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// Adds random spans to a timeline: on `ranks` ranks, of several names, categories, groups and
/// lanes, some nested and some without length.
inline void add_random_spans(Timeline& timeline, std::mt19937& random, int ranks, int spans) {
  const auto number = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  constexpr Category categories[] = {Category::forward,   Category::backward,
                                     Category::wait,      Category::communication,
                                     Category::optimizer, Category::kernel};
  for (int i = 0; i < spans; ++i) {
    TimelineSpan span{.start = number(0, 4000)};
    span.end = span.start + (number(0, 9) == 0 ? 0 : number(1, number(1, 400)));
    span.category = categories[number(0, 5)];
    span.name = timeline.intern("name " + std::to_string(number(0, 5)));
    if (number(0, 2) == 0) span.group = timeline.intern("group " + std::to_string(number(0, 1)));
    if (computes(span.category) && number(0, 1) == 0) {
      span.stage = number(0, 2);
      span.microbatch = number(0, 7);
    }
    span.step = static_cast<int>(span.start / 1000);
    timeline.add(number(0, ranks - 1), number(0, 2), span);
  }
  timeline.settle();
}

}  // namespace lockstep
