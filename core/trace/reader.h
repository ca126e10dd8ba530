#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/parse.h"
#include "core/trace/timeline.h"

namespace lockstep {

/// Reads traces (DESIGN §5) into a Timeline as their bytes come, whole lines or not. A line that
/// can't be understood is skipped and counted. A file that is one JSON document of many lines, as
/// PyTorch writes, is noticed by its first lines and read as a whole in finish().
class TraceReader {
 public:
  enum class Form {
    guess,  ///< by the first lines: of one event each, or a document
    lines,  ///< one event a line, as on the wire
  };

  explicit TraceReader(Timeline& timeline, Form form = Form::guess);
  ~TraceReader();
  TraceReader(TraceReader&&) noexcept;

  /// Takes the next bytes of the trace. Call timeline.settle() before looking at it.
  void feed(std::string_view bytes);
  /// No more will come: takes the last line, even if it has no end.
  void finish();

  std::int64_t bytes() const;      ///< taken so far
  std::int64_t lines() const;      ///< events understood, of all kinds
  std::int64_t malformed() const;  ///< lines that were skipped
  /// The first line that was skipped, with its number and why; empty if none was.
  const std::string& first_malformed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What reading files has come to.
struct ReadReport {
  int files = 0;
  std::int64_t lines = 0;
  std::int64_t malformed = 0;
  std::string first_malformed;  ///< with the file's name
};

/// The traces that a path stands for: a file itself; in a directory trace.json or, where that is
/// missing, all of rank*.json. Throws UsageError where there is nothing of the kind.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& path);

/// Reads files or directories into `timeline`, which is settled then. Throws UsageError for a path
/// that can't be read.
ReadReport read_traces(const std::vector<std::filesystem::path>& paths, Timeline& timeline);

}  // namespace lockstep
