#include "viz/data/feed/given_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "viz/data/feed/packed_files.h"
#include "viz/data/feed/trace_input.h"
#include "viz/read/timeline/reader.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t longest_start = 1 << 18;  // bytes of the hello and the line before it

bool is_archive(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".zip") || name.ends_with(".tar") || name.ends_with(".tar.gz") ||
         name.ends_with(".tgz");
}

/// Returns the run's name from the hello, the first event of a trace; "" if the trace has no hello.
std::string run_of(const std::filesystem::path& path) {
  const auto file = input_files(path).front();
  if (is_packed(file)) return {};
  std::ifstream in(file, std::ios::binary);
  Timeline timeline;
  TraceReader reader{timeline, TraceReader::Form::lines};
  std::string start(longest_start, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(in.gcount()));
  const auto first = start.find('\n');
  const auto second = first == std::string::npos ? first : start.find('\n', first + 1);
  reader.feed(std::string_view{start}.substr(0, second));
  reader.finish();
  return timeline.run().run;
}

}  // namespace

GivenRuns divide_into_runs(const std::vector<std::filesystem::path>& paths) {
  struct Run {
    std::string name;
    std::vector<std::filesystem::path> paths;
  };
  std::vector<Run> runs;
  for (const auto& path : paths) {
    const std::string name = run_of(path);
    // A folder or an archive holds all traces of a run.
    const bool own = name.empty() && (std::filesystem::is_directory(path) || is_archive(path));
    const auto found = std::ranges::find_if(runs, [&](const Run& run) {
      return run.name == name && !own && std::ranges::count(run.paths, path) == 0;
    });
    if (found != runs.end()) {
      found->paths.push_back(path);
    } else {
      runs.push_back({name, {path}});
    }
  }
  GivenRuns given;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto& to = i == 0 ? given.a : i == 1 ? given.b : given.left_out;
    to.insert(to.end(), runs[i].paths.begin(), runs[i].paths.end());
  }
  return given;
}

std::string notice_words(const GivenRuns& given) {
  if (given.left_out.empty()) return {};
  const std::string name = given.left_out.front().string();
  if (given.left_out.size() == 1)
    return fmt::format("the viewer compares two runs: {} is another run and is not shown", name);
  return fmt::format(
      "the viewer compares two runs: {} and {} more belong to other runs and are not shown", name,
      given.left_out.size() - 1);
}

}  // namespace lockstep::viz
