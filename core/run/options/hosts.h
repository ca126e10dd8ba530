#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Where ranks are to run, as mpirun takes it: --hostfile FILE, or --hosts a:4,b:4. Neither: here.
struct HostChoice {
  std::string hostfile;
  std::string hosts;

  bool any() const { return !hostfile.empty() || !hosts.empty(); }
  /// Throws UsageError, one line, for a file that can't be read or names no host, a list that does
  /// not look like one, and fewer slots than ranks. Of a line of the file without slots= mpirun
  /// takes that host's cores, which nobody here knows: then slots are not counted.
  void check(int ranks) const;
  /// mpirun's own words for it.
  std::vector<std::string> arguments() const;
};

}  // namespace lockstep
