#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The flags of ./lockstep retime; "" for those that are not given.
struct RetimeRequest {
  std::string run;  ///< its folder
  std::string cluster;
  std::vector<std::string> changes;
  std::string report;
};

/// ./lockstep retime: times the operations of a recorded run on another cluster or with one thing
/// changed, and prints the times. Throws UsageError.
void retime(const RetimeRequest& request);

}  // namespace lockstep
