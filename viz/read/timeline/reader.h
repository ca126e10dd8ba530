#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "viz/read/timeline/parse.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// Reads traces (core/trace/README.md) into a Timeline from chunks of bytes that need not be
/// whole lines. Malformed lines are skipped and counted. A file that is a single JSON document of
/// many lines, such as PyTorch writes, is recognised by its first lines and parsed in finish().
class TraceReader {
 public:
  enum class Form {
    guess,  ///< decide by the first lines which of the two it is: one event per line, or a document
    lines,  ///< one event per line, as on the wire
  };

  /// The timeline must outlive the reader, and must not be cleared before the reader's last use:
  /// the reader keeps ids of the timeline's names.
  explicit TraceReader(Timeline& timeline, Form form = Form::guess);
  ~TraceReader();
  TraceReader(TraceReader&&) noexcept;

  /// Reads the next bytes of the trace. Call timeline.settle() before using the timeline.
  void feed(std::string_view bytes);
  /// Ends the input: parses the last line even without a newline.
  void finish();

  std::int64_t bytes() const;      ///< read so far
  std::int64_t lines() const;      ///< events parsed, of all kinds
  std::int64_t malformed() const;  ///< lines skipped
  /// Returns the first skipped line, with its line number and the reason; empty if no line was
  /// skipped.
  const std::string& first_malformed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Statistics of reading trace files, as read_traces() returns them.
struct ReadReport {
  int files = 0;
  std::int64_t lines = 0;
  std::int64_t malformed = 0;
  std::string first_malformed;  ///< with the file's name
};

/// Returns the traces that a path refers to: a file refers to itself; a directory refers to its
/// trace.json, or to all its rank*.json files if it has no trace.json. Throws UsageError if there
/// are no traces.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& path);

/// Reads files or directories into `timeline` and settles it. Several files are read in parallel.
/// Throws UsageError for a path that cannot be read.
ReadReport read_traces(const std::vector<std::filesystem::path>& paths, Timeline& timeline);

}  // namespace lockstep
