#include "viz/data/window/frame_times.h"

#include <algorithm>

namespace lockstep::viz {

FrameTimes::Percentiles FrameTimes::percentiles(float Frame::*which, std::size_t first) const {
  std::vector<float> sorted;
  for (std::size_t i = first; i < frames_.size(); ++i) sorted.push_back(frames_[i].*which);
  if (sorted.empty()) return {};
  std::ranges::sort(sorted);
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
    return 1e3 * static_cast<double>(sorted[index]);
  };
  return {at(0.50), at(0.95), at(1)};
}

}  // namespace lockstep::viz
