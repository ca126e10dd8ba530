#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/run/files/rank_report.h"

namespace lockstep {

/// What comes on mpirun's stderr, sorted: the reports of ranks, what mpirun explains (in blocks
/// between rules of dashes), and everything else. Of a rank that was killed mpirun is the only one
/// who knows. A run that failed is told once, with its first cause: ranks that fail because
/// another has are not blamed.
class Aftermath {
 public:
  /// Passes on at most one notice of a busy rank per `notice_seconds`.
  explicit Aftermath(int ranks, double notice_seconds = 60)
      : ranks_(ranks), notice_seconds_(notice_seconds) {}

  /// Takes a line, without its newline. Returns what is to be printed of it at once: nothing, where
  /// it is part of something that is told at the end.
  std::optional<std::string> line(const std::string& text);
  /// There are no more lines. Returns what is left to print of mpirun's words.
  std::string end();

  /// Something has gone wrong so far: whoever runs is being ended.
  bool failed() const { return failed_; }
  /// A rank was asked for something impossible, and nothing has gone wrong before: exit code 2,
  /// whichever rank's code mpirun takes for the run's.
  bool refused() const { return !refusals_.empty() && causes_.empty(); }
  /// What went wrong and where, in one line ("" if nothing has) with `epilogue` behind; then what
  /// all ranks were doing, newest last.
  std::string text(const std::string& epilogue) const;
  /// By rank: the host that it runs on, as far as it has said.
  const std::map<int, std::string>& hosts() const { return hosts_; }

 private:
  void end_block();
  std::string who(int rank) const;

  int ranks_;
  double notice_seconds_;
  std::optional<std::chrono::steady_clock::time_point> said_busy_;
  bool failed_ = false;
  bool told_ = false;  ///< a failure that rank 0 has told by itself
  bool inside_ = false;
  std::string block_;
  std::string unsaid_;  ///< blocks that are no one else's to tell
  std::map<int, std::string> hosts_;
  std::map<int, std::string> doing_;
  std::vector<RankReport> causes_;    ///< failures that ranks have told, as they came
  std::optional<RankReport> killed_;  ///< the rank that mpirun has seen die, and by what
  std::optional<RankReport> ended_;   ///< the first that mpirun has seen end badly
  std::vector<std::string> refusals_;
};

}  // namespace lockstep
