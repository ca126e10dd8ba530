#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class SaveLock;

/// The file of a run's RunResults.
constexpr const char* results_file = "results.json";

/// A run's output folder: runs/TIME-LESSON/, which holds rank<r>.json, trace.json, results.json,
/// report.json and operations.json.
/// The link runs/latest points to it.
struct RunFolder {
  std::string run;             ///< its name, "20260131-120000-09"
  std::filesystem::path path;  ///< empty if nothing is written

  /// Keeps other runs from writing to the folder, for as long as a copy of this object exists; null
  /// in a process whose parent holds the lock.
  std::shared_ptr<const SaveLock> lock;

  /// Creates the folder and locks it. `trace` is --trace: a folder, "none", or empty for a new
  /// folder in the project's runs/. In a process whose parent called pass_on(), uses the parent's
  /// folder. Throws UsageError if the folder cannot be created, if another run writes to it, or if
  /// a run may not write to it (see why_not_a_run_folder()).
  static RunFolder create(const std::string& trace, const std::string& lesson);
  /// Creates the folder if it does not exist yet (on another host), deletes a previous run's files
  /// (those that is_own() recognizes), and points runs/latest to it. One process calls this before
  /// the ranks write.
  void begin() const;
  /// Passes the folder on to child processes.
  void pass_on() const;

  std::string to_bytes() const;
  static RunFolder from_bytes(const std::string& bytes);

  std::filesystem::path rank_file(int rank) const;
  /// Removes the partial lines left by killed ranks. Call this after the run has ended.
  void keep_whole_lines(int ranks) const;
  /// Returns the rank<r>.json files that exist, in order of rank.
  std::vector<std::filesystem::path> rank_files(int ranks) const;
  /// Returns whether every rank's file exists and contains all of the rank's events.
  bool is_complete(int ranks) const;
  /// Merges the existing rank<r>.json files into trace.json. Returns the reason of a failure, or
  /// "".
  std::string merge(int ranks) const;
  /// Writes results.json and report.json. Returns the reason of a failure, or "".
  std::string write_results(const std::string& results, const std::string& report) const;
  /// Writes operations.json (operations/operations_file.h). Returns the reason of a failure, or "".
  std::string write_operations(const std::string& json) const;

  /// "; the trace up to then is in ...", or nothing.
  std::string where_the_trace_is() const;
  /// Returns the same text, and also names the hosts with the rank files that are missing here.
  std::string where_the_trace_is(const std::map<int, std::string>& hosts) const;
  /// A line with the trace's path and, unless `viewer` already shows the run, the command that
  /// opens the trace.
  std::string how_to_look(const std::string& viewer) const;
  /// A line with the command that times the run's operations on another cluster.
  std::string how_to_retime() const;
};

/// Returns whether files can be created in `folder`. Tests this by creating and deleting a file.
bool can_write_in(const std::filesystem::path& folder);

/// Writes the whole file. Throws RunError on failure.
void write_text_file(const std::filesystem::path& path, const std::string& text);

}  // namespace lockstep
