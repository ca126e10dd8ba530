#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace lockstep {

/// Where a run leaves what it leaves: runs/TIME-LESSON/ with rank<r>.json, trace.json and
/// report.json, and the link runs/latest to it.
struct RunFolder {
  std::string run;             ///< its name, "20260131-120000-09"
  std::filesystem::path path;  ///< empty where nothing is to be written

  /// `trace` is --trace: a folder, "none", or empty for a new one of the project's runs/. Makes it.
  /// A process that was told a folder by pass_on() takes that. Throws UsageError where it can't be
  /// made.
  static RunFolder create(const std::string& trace, const std::string& lesson);
  /// Makes it where it is not there yet (on another host), removes what a run before left in it,
  /// and points runs/latest to it. By one process, before ranks write.
  void begin() const;
  /// Tells processes that this one starts.
  void pass_on() const;

  std::string to_bytes() const;
  static RunFolder from_bytes(const std::string& bytes);

  std::filesystem::path rank_file(int rank) const;
  /// Cuts off what a rank that was killed had left of a line. Of a run that has ended.
  void keep_whole_lines(int ranks) const;
  /// rank<r>.json of all ranks, as far as they are there, into trace.json.
  void merge(int ranks) const;
  void write_report(const std::string& json) const;

  /// "; the trace up to then is in ...", or nothing.
  std::string where_the_trace_is() const;
  /// The same, and on which of the ranks' hosts the files are that are not here.
  std::string where_the_trace_is(const std::map<int, std::string>& hosts) const;
  /// A line that says where the trace is and what shows it. `viewer`: it has been shown already.
  std::string how_to_look(const std::string& viewer) const;
};

/// Whether files can be made in that folder: one is made, and goes again.
bool can_write_in(const std::filesystem::path& folder);

/// Writes the whole file. Throws RunError where it can't.
void write_text_file(const std::filesystem::path& path, const std::string& text);

}  // namespace lockstep
