#include "viz/read/explain/retime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/operations/operations_file.h"
#include "core/replay/critical_path.h"
#include "core/replay/replay.h"
#include "viz/read/explain/counterfactual_table.h"

namespace lockstep {

namespace {

/// A step's critical path in words, such as "1.500 ms = forward 0.700 + backward 0.800".
std::string path_text(const Replay& replay, int step) {
  const std::vector<PathPart> path = critical_path(replay, step);
  if (path.empty()) return "nothing takes time";
  std::string text =
      fmt::format("{:.3f} ms = ", 1e3 * seconds(path.back().end - path.front().start));
  std::vector<std::string> parts;
  for (const auto& [what, time] : shares(path))
    parts.push_back(fmt::format("{} {:.3f}", what, 1e3 * seconds(time)));
  return text + fmt::format("{}", fmt::join(parts, " + "));
}

std::string in_words(const Scenario& scenario) {
  const Cluster& cluster = scenario.modelled().cluster;
  return fmt::format("{} {}{}{}", cluster.name, cluster.rates_text(),
                     scenario.changes().empty() ? "" : ", ", fmt::join(scenario.changes(), ", "));
}

void write_report(const std::string& file, const Replay& recorded, const Replay& changed) {
  const int last = recorded.last_step();
  std::string text = "{\"steps\":[";
  const char* comma = "\n";
  for (int step = 0; step <= last; ++step)
    text += fmt::format("{}{{\"step\":{},\"recorded_seconds\":{},\"seconds\":{}}}",
                        std::exchange(comma, ",\n"), step, seconds(recorded.step_time(step)),
                        seconds(changed.step_time(step)));
  text += fmt::format("],\n\"end_seconds\":{},\n\"critical_path\":[", seconds(changed.end()));
  comma = "\n";
  if (last >= 0)
    for (const auto& [what, time] : shares(critical_path(changed, last)))
      text += fmt::format("{}{{\"what\":\"{}\",\"seconds\":{}}}", std::exchange(comma, ",\n"), what,
                          seconds(time));
  std::ofstream out{file, std::ios::binary};
  out << text + "]}\n";
  out.close();
  if (!out) throw UsageError(fmt::format("--report {}: can't be written", file));
}

}  // namespace

void retime(const RetimeRequest& request) {
  std::error_code error;
  if (!std::filesystem::exists(request.run, error))
    throw UsageError(fmt::format(
        "{}: there is no such run; './lockstep lesson 9 --device meta' makes one", request.run));
  const RunOperations run = read_operations(request.run);
  const Scenario as_recorded{run.modelled};
  Scenario scenario{run.modelled};
  if (!request.cluster.empty()) {
    ModelledTime other = run.modelled;
    other.cluster = Cluster::load(request.cluster);
    const int nodes = other.cluster.nodes, each = other.cluster.ranks_per_node;
    if (std::ssize(run.ranks) > std::int64_t{nodes} * each)
      throw UsageError(fmt::format("--cluster {}: has {} nodes of {} ranks; the run has {} ranks",
                                   request.cluster, nodes, each, run.ranks.size()));
    scenario = Scenario{other};
  }
  for (const std::string& each : request.changes) scenario.change(each, run);

  const Replay recorded{run, as_recorded}, changed{run, scenario};
  const auto row = [](const std::string& what, Picoseconds before, Picoseconds after) {
    fmt::print("  {:<10}{:>14.3f} ms{:>14.3f} ms{:>9.3f}\n", what, 1e3 * seconds(before),
               1e3 * seconds(after),
               before > 0 ? static_cast<double>(after) / static_cast<double>(before) : 1.0);
  };
  fmt::print("run {} of lesson {}, on {} ranks\nrecorded on: {}\nretimed on:  {}\n",
             printable(run.run), printable(run.lesson), run.ranks.size(), in_words(as_recorded),
             in_words(scenario));
  if (!run.choices.empty())
    fmt::print("kept as recorded, though another cluster might lead to another choice: {}\n",
               printable(fmt::format("{}", fmt::join(run.choices, ", "))));
  fmt::print("\n{:>28} {:>16} {:>9}\n", "recorded", "retimed", "ratio");
  const int last = recorded.last_step();
  if (last > 0) row("step 0", recorded.step_time(0), changed.step_time(0));
  if (last >= 0)
    row(fmt::format("step {}", last), recorded.step_time(last), changed.step_time(last));
  row("whole run", recorded.end(), changed.end());
  if (last >= 0)
    fmt::print("\ncritical path of step {}\n  recorded: {}\n  retimed:  {}\n", last,
               path_text(recorded, last), path_text(changed, last));
  if (last >= 0)
    if (const std::string better = counterfactual_table(what_would_help(run, scenario, last));
        !better.empty())
      fmt::print("\n{}", better);
  if (!request.report.empty()) write_report(request.report, recorded, changed);
}

}  // namespace lockstep
