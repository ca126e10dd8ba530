#include "core/run/life/introduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep {

namespace {

/// "0 to 3, 8 to 11", of the numbers below `count`.
std::string rank_ranges(const std::vector<int>& ascending, int count) {
  std::string text;
  for (std::size_t i = 0, last = 0; i < ascending.size() && ascending[i] < count; i = last + 1) {
    last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1 &&
           ascending[last + 1] < count)
      ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ascending[i]);
    if (last > i) text += fmt::format(" to {}", ascending[last]);
  }
  return text;
}

}  // namespace

void introduce(const LessonInfo& info, const Options& options, const GpuPlan& gpus,
               const std::string& hosts) {
  const auto& [plan, run, platform, output] = options;
  const int ranks = plan.mesh.ranks();
  const GptConfig& model = plan.model();
  if (output.quiet) return;
  fmt::print("Lesson {}: {} rank{} ({})", info.name, ranks, ranks > 1 ? "s" : "",
             platform.launch == Launch::mpi ? "processes under mpirun" : "threads");
  if (info.model)
    fmt::print(", {}{} layers, hidden {}, {} heads{}, sequence {}", model.llama ? "Llama, " : "",
               model.layers, model.hidden, model.heads,
               model.llama ? fmt::format(" ({} of keys and values), MLP {}", model.kv_heads(),
                                         model.mlp_width())
                           : "",
               model.sequence);
  fmt::print("\n");
  if (output.detail == "brief") {
    std::fflush(stdout);
    return;
  }
  if (!hosts.empty()) fmt::print("{}\n", hosts);
  if (gpus.any) fmt::print("{}\n", gpus.summary(options));
  if (output.verbose)
    fmt::print("{}matrix products on the CPU: {}\n", gpus.table(), cpu_kernels_library());
  fmt::print("{} clock{}: {}\n", options.clock().name(),
             plan.modelled ? fmt::format(", cluster {} {}", plan.modelled->cluster.name,
                                         plan.modelled->cluster.rates_text())
                           : "",
             platform.why_this_clock);
  if (plan.modelled)
    for (const auto& [rank, factor] : plan.modelled->slow)
      fmt::print("rank {}: its compute takes {} times as long\n", rank, factor);
  if (plan.modelled)
    for (const RankGroup& group : plan.modelled->cluster.groups)
      if (const std::string its = rank_ranges(group.ranks, ranks); !its.empty())
        fmt::print("{}: {} {}\n", group.name, its.find(' ') == std::string::npos ? "rank" : "ranks",
                   its);
  if (plan.modelled && ranks > 1)
    fmt::print(
        "modelled sends are buffered: a sender is free after β·bytes and never waits for "
        "its receiver\n");
  if (output.trace_left_out)
    fmt::print("no trace: for {} ranks it would take gigabytes; --trace FOLDER writes it anyway\n",
               ranks);
  if (run.trained_steps > 0)
    fmt::print("resumes after the {} steps of {}\n", run.trained_steps, run.load);
  std::fflush(stdout);
}

}  // namespace lockstep
