#include "core/run/files/run_folder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/model/checkpoint/save_lock.h"
#include "core/run/files/own_files.h"
#include "core/run/files/rank_message.h"
#include "core/trace/writer.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr const char* run_variable = "LOCKSTEP_RUN";

/// Returns the path relative to the current folder, if that is shorter.
std::string shown(const fs::path& path) {
  std::error_code error;  // the working directory may have been deleted
  const std::string relative = fs::proximate(path, error).string();
  return !error && relative.size() < path.string().size() ? relative : path.string();
}

}  // namespace

RunFolder RunFolder::create(const std::string& trace, const std::string& lesson) {
  if (const char* inherited = std::getenv(run_variable)) return from_bytes(inherited);
  const std::string number = lesson.substr(0, lesson.find(' '));
  const std::string stamp =
      fmt::format("{:%Y%m%d-%H%M%S}-{}", fmt::localtime(std::time(nullptr)), number);
  if (trace == "none") return {stamp, {}, nullptr};

  std::error_code error;
  RunFolder folder{stamp, trace, nullptr};
  if (trace.empty()) {
    const fs::path runs = fs::path{LOCKSTEP_SOURCE_DIR} / "runs";
    fs::create_directories(runs, error);
    // Two runs in the same second get two folders.
    for (int copy = 2; !error && !fs::create_directory(runs / folder.run, error); ++copy)
      folder.run = fmt::format("{}-{}", stamp, copy);
    folder.path = runs / folder.run;
  } else {
    // Other folders may get a run in the same second; the viewer distinguishes runs by their names.
    folder.run = fmt::format("{}-{}", stamp, ::getpid());
    fs::create_directories(folder.path, error);
    folder.path = fs::absolute(folder.path);
  }
  if (error)
    throw UsageError(fmt::format("--trace {}: can't create the folder: {}; name another, or none",
                                 folder.path.string(), error.message()));
  if (!can_write_in(folder.path))
    throw UsageError(fmt::format("--trace {}: this folder is not writable; name another, or none",
                                 folder.path.string()));
  if (const std::string why = why_not_a_run_folder(folder.path); !why.empty())
    throw UsageError(fmt::format("--trace {}: {}; name an empty folder or one of an earlier run",
                                 folder.path.string(), why));
  folder.lock = std::make_shared<SaveLock>("--trace", folder.path.string(), folder.path / ".lock");
  return folder;
}

void RunFolder::begin() const {
  if (path.empty()) return;
  std::error_code error;
  fs::create_directories(path, error);
  // Deletes the files of an earlier run in the same folder.
  for (const auto& entry : fs::directory_iterator(path, error))
    if (is_run_file(entry.path().filename().string()) && is_own(entry.path()))
      fs::remove(entry.path(), error);
  if (path.parent_path().filename() != "runs") return;
  // Replaces the link atomically, so that it always exists.
  const fs::path fresh = path.parent_path() / (".latest-" + run);
  fs::create_directory_symlink(path.filename(), fresh, error);
  if (!error) fs::rename(fresh, path.parent_path() / "latest", error);
}

void RunFolder::pass_on() const {
  ::setenv(run_variable, to_bytes().c_str(), 1);
}

std::string RunFolder::to_bytes() const {
  return run + "\n" + path.string();
}

RunFolder RunFolder::from_bytes(const std::string& bytes) {
  const auto newline = bytes.find('\n');
  return {bytes.substr(0, newline), bytes.substr(newline + 1), nullptr};
}

fs::path RunFolder::rank_file(int rank) const {
  return path / fmt::format("rank{}.json", rank);
}

void RunFolder::keep_whole_lines(int ranks) const {
  if (path.empty()) return;
  for (int rank = 0; rank < ranks; ++rank) {
    std::error_code error;
    const fs::path file = rank_file(rank);
    if (!fs::is_regular_file(file, error)) continue;
    std::ifstream in{file, std::ios::binary};
    auto end = static_cast<std::streamoff>(fs::file_size(file, error));
    const std::streamoff whole = end;
    // Reads backward from the end, one block at a time, because lines are short but files may be
    // long.
    std::string block(4096, '\0');
    while (in && end > 0) {
      const auto size = std::min(end, static_cast<std::streamoff>(block.size()));
      in.seekg(end - size);
      in.read(block.data(), size);
      const auto newline =
          std::string_view{block}.substr(0, static_cast<std::size_t>(size)).rfind('\n');
      end -= size;
      if (newline == std::string::npos) continue;
      end += static_cast<std::streamoff>(newline) + 1;
      break;
    }
    if (in && end < whole) fs::resize_file(file, static_cast<std::uintmax_t>(end), error);
  }
}

std::vector<fs::path> RunFolder::rank_files(int ranks) const {
  std::vector<fs::path> files;
  std::error_code error;
  for (int rank = 0; rank < ranks && !path.empty(); ++rank)
    if (fs::path file = rank_file(rank); fs::is_regular_file(file, error))
      files.push_back(std::move(file));
  return files;
}

bool RunFolder::is_complete(int ranks) const {
  const auto files = rank_files(ranks);
  return files.size() == static_cast<std::size_t>(ranks) &&
         std::ranges::all_of(files, is_complete_trace);
}

std::string RunFolder::merge(int ranks) const {
  const auto files = rank_files(ranks);
  if (files.empty()) return "";
  try {
    merge_traces(files, path / "trace.json");
    return "";
  } catch (const RunError& failure) {
    std::error_code error;
    fs::remove(path / "trace.json", error);  // the ranks' files remain
    return failure.what();
  }
}

namespace {

/// Writes the whole file or none. Returns the reason of a failure, or "".
std::string write_or_remove(const fs::path& file, const std::string& text) {
  try {
    write_text_file(file, text);
    return "";
  } catch (const RunError& failure) {
    std::error_code error;
    fs::remove(file, error);
    return failure.what();
  }
}

}  // namespace

std::string RunFolder::write_results(const std::string& results, const std::string& report) const {
  const std::string why = write_or_remove(path / results_file, results);
  return why.empty() ? write_or_remove(path / "report.json", report) : why;
}

std::string RunFolder::write_operations(const std::string& json) const {
  return write_or_remove(path / "operations.json", json);
}

std::string RunFolder::where_the_trace_is() const {
  std::error_code error;
  const bool any = std::ranges::any_of(fs::directory_iterator(path, error), [](const auto& entry) {
    return is_run_file(entry.path().filename().string());
  });
  return !any ? "" : fmt::format("; the trace up to that point is in {}", shown(path));
}

std::string RunFolder::where_the_trace_is(const std::map<int, std::string>& hosts) const {
  std::map<std::string, std::vector<int>> elsewhere;
  for (const auto& [rank, host] : hosts)
    if (!path.empty() && host != host_name() && !fs::exists(rank_file(rank)))
      elsewhere[host].push_back(rank);
  std::string text = where_the_trace_is();
  for (const auto& [host, ranks] : elsewhere)
    text += fmt::format(", and that of {} {} in {} on {}", ranks.size() == 1 ? "rank" : "ranks",
                        fmt::join(ranks, ", "), path.string(), host);
  return text;
}

std::string RunFolder::how_to_retime() const {
  return fmt::format("on another cluster, or with something changed: ./lockstep retime {}",
                     shown(path));
}

std::string RunFolder::how_to_look(const std::string& viewer) const {
  return fmt::format(
      "trace: {}/trace.json (also opens in Perfetto){}", shown(path),
      viewer.empty() ? fmt::format("; to view it: ./lockstep view {}", shown(path)) : "");
}

bool can_write_in(const fs::path& folder) {
  std::string probe = (folder / ".lockstep-XXXXXX").string();
  const int descriptor = ::mkostemp(probe.data(), O_CLOEXEC);
  if (descriptor < 0) return false;
  ::close(descriptor);
  return ::unlink(probe.c_str()) == 0;
}

void write_text_file(const fs::path& path, const std::string& text) {
  std::ofstream file{path, std::ios::binary};
  file << text;
  file.close();
  if (!file) throw RunError(fmt::format("can't write {}", path.string()));
}

}  // namespace lockstep
