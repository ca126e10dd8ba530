#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::viz {

/// The times that frames took, and their percentiles.
class FrameTimes {
 public:
  struct Frame {
    float wall = 0;     ///< seconds, from receiving events to the end of the buffer swap
    float thread = 0;   ///< CPU seconds of the frame loop's thread
    float process = 0;  ///< CPU seconds of all threads; software OpenGL draws with several
  };
  struct Percentiles {
    double p50 = 0, p95 = 0, max = 0;  ///< milliseconds
  };

  void add(const Frame& frame) { frames_.push_back(frame); }
  std::size_t count() const { return frames_.size(); }
  const std::vector<Frame>& frames() const { return frames_; }
  /// Returns the percentiles of one of the times, over the frames from number `first` on.
  Percentiles percentiles(float Frame::*which, std::size_t first = 0) const;

 private:
  std::vector<Frame> frames_;
};

}  // namespace lockstep::viz
