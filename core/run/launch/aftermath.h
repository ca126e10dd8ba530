#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/run/files/rank_message.h"
#include "core/run/launch/mpirun_log.h"

namespace lockstep {

/// Sorts mpirun's stderr into the ranks' reports, mpirun's own explanations (in blocks between
/// rules of dashes) and log, and everything else. If a rank is killed, only mpirun reports it. A
/// failed run is reported once, with its first cause: ranks that fail because another rank has
/// failed are not blamed.
class Aftermath {
 public:
  /// Passes on at most one notice of a busy rank per `notice_seconds`. `host` is the host of all
  /// ranks, or "" if there are several.
  explicit Aftermath(int ranks, double notice_seconds = 60, const std::string& host = "");

  /// Takes a line, without its newline. Returns the text to print immediately, or nothing if the
  /// line is reported at the end.
  std::optional<std::string> line(const std::string& text);
  /// Sets a cause that this process has found itself. `rank` is the rank on this host that failed,
  /// if there is one. It takes precedence over causes that ranks have reported.
  void set_cause(std::optional<int> rank, const std::string& text);
  bool has_own_cause() const { return own_cause_.has_value(); }
  /// Call this after the last line, with mpirun's status, as from waitpid(). `limits` describes
  /// known limits of this process that can keep MPI from starting. Returns the rest of mpirun's
  /// text to print.
  std::string end(int status, const std::string& limits);

  /// Whether something has failed. If so, the remaining ranks are being ended.
  bool failed() const { return failed_; }
  /// Whether mpirun could not start a rank. OpenMPI 4.1 then waits for that rank forever.
  bool could_not_start() const {
    return first_bad_ && first_bad_->kind == MpirunLog::Kind::failed_to_start;
  }
  /// Whether OpenMPI has logged an error, and MPI has not yet started on all ranks. It may still
  /// start.
  bool start_is_in_doubt() const { return !started() && !error_.empty(); }
  /// Whether MPI has started on all ranks.
  bool started() const { return started_ >= ranks_; }
  /// Whether anything that explains a failure has been reported, or will be by end() and text().
  bool explains_failure() const {
    return already_reported_ || !refusals_.empty() || !unexplained_.empty() || !text("").empty();
  }
  /// Whether a rank reported a usage error before anything else failed. If so, the exit code is 2,
  /// whichever rank's exit code mpirun returns.
  bool refused() const { return !refusals_.empty() && causes_.empty(); }
  /// One line with the cause of the failure and its rank, followed by `epilogue` and by the last
  /// operations of all ranks; "" if nothing failed.
  std::string text(const std::string& epilogue) const;
  /// The host of each rank that has reported its host, by rank.
  const std::map<int, std::string>& hosts() const { return hosts_; }
  /// Returns how many ranks have ended their traces after an interruption.
  int traces_ended() const { return traces_ended_; }
  /// Returns how many ranks are about to train.
  int ready() const { return ready_; }
  /// Returns whether an interruption has ended the run after it had saved.
  bool saved_and_ended() const { return saved_and_ended_; }

 private:
  /// Returns the text to print immediately, if any.
  std::optional<std::string> logged(const std::string& line, const MpirunLog& log);
  void end_block();
  /// Sets the cause that mpirun's log and status give, if nothing better is known.
  void conclude(int status, const std::string& limits);
  bool has_reported(int rank) const;
  std::string rank_on_host(int rank) const;

  int ranks_;
  double notice_seconds_;
  std::optional<std::chrono::steady_clock::time_point> last_busy_notice_;
  bool failed_ = false;
  bool already_reported_ = false;  ///< rank 0 has already reported the failure itself
  int started_ = 0;
  int traces_ended_ = 0;
  int ready_ = 0;
  bool saved_and_ended_ = false;
  bool warned_of_trace_ = false;  ///< all ranks may write to the same full disk
  bool inside_ = false;
  std::string block_;
  std::string unexplained_;             ///< blocks of mpirun's text that nothing else explains
  std::vector<std::string> diagnoses_;  ///< OpenMPI's lines before MPI has started on all ranks
  std::string error_;                   ///< the first of them that is an error, shortened
  std::optional<MpirunLog> first_bad_;  ///< the first rank that mpirun saw fail
  std::string no_start_;                ///< why MPI has not started
  std::map<int, std::string> hosts_;
  std::map<int, std::string> operations_;
  std::vector<RankMessage> causes_;  ///< failures that ranks have reported, in order of arrival
  std::optional<std::string> own_cause_;
  std::optional<RankMessage> killed_;  ///< the rank that mpirun saw killed, and its signal
  std::optional<RankMessage> ended_;   ///< the first rank that mpirun saw exit with an error
  std::vector<std::string> refusals_;
};

}  // namespace lockstep
