#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The hosts for mpirun, from --hostfile FILE or --hosts a:4,b:4; this host if neither is given.
struct HostChoice {
  std::string hostfile;
  std::string hosts;

  bool any() const { return !hostfile.empty() || !hosts.empty(); }
  /// Throws UsageError with one line if the file cannot be read or names no host, if the list is
  /// malformed, or if there are fewer slots than ranks. If a line of the file has no slots=, mpirun
  /// uses that host's number of cores, which is unknown here, so the slots are not counted.
  void check(int ranks) const;
  /// Returns mpirun's arguments for these hosts.
  std::vector<std::string> arguments() const;
};

}  // namespace lockstep
