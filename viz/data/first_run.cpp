#include "viz/data/first_run.h"

#include <fmt/format.h>

#include <fstream>

#include "core/trace/reader.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t longest_start = 1 << 18;  // bytes, including the line before it

/// Returns the run's name from the hello, the first event of a trace; "" if the trace has no hello.
std::string run_of(const std::filesystem::path& path) {
  std::ifstream in(trace_files(path).front(), std::ios::binary);
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

FirstRun first_run_of(const std::vector<std::filesystem::path>& paths) {
  FirstRun chosen;
  std::string first;
  for (const auto& path : paths) {
    const std::string run = run_of(path);
    if (chosen.paths.empty()) first = run;
    (run == first ? chosen.paths : chosen.left_out).push_back(path);
  }
  return chosen;
}

std::string notice_words(const FirstRun& chosen) {
  if (chosen.left_out.empty()) return {};
  const std::string name = chosen.left_out.front().string();
  if (chosen.left_out.size() == 1)
    return fmt::format("the viewer shows one run at a time: {} is another run and is not shown",
                       name);
  return fmt::format(
      "the viewer shows one run at a time: {} and {} more belong to other runs and are not shown",
      name, chosen.left_out.size() - 1);
}

}  // namespace lockstep::viz
