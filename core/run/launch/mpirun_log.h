#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Makes an mpirun that this process starts later log each change of a rank's state to stderr. If a
/// rank is killed while mpirun is still starting others, this log alone names it.
void log_rank_states();

/// A line that OpenMPI itself has printed: a change of state, or a diagnosis such as "[host:123]
/// PMIX ERROR: ...".
struct MpirunLog {
  enum class Kind {
    diagnosis,
    state,            ///< of a rank that runs or has ended without error, or of the job
    failed_to_start,  ///< mpirun could not create the process `rank`
    killed,           ///< a signal has ended `rank`
    ended,            ///< `rank` has ended with an error
  };
  Kind kind = Kind::diagnosis;
  int rank = -1;       ///< -1 for a diagnosis and for the job
  std::string before;  ///< an unfinished line of a rank's, which the log continues
  std::string text;    ///< of a diagnosis, without the place in OpenMPI's source

  /// Returns nothing if OpenMPI did not log the line.
  static std::optional<MpirunLog> from_line(const std::string& line);
};

/// Returns the limits of this process that can keep MPI from starting: "; this process may open 40
/// files (ulimit -n) and ...". mpirun and its ranks have the same limits.
std::string limits_on_starting();

}  // namespace lockstep
