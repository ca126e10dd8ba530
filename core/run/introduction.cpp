#include "core/run/introduction.h"

#include <fmt/format.h>

#include <cstdio>

#include "kernels/kernels.h"

namespace lockstep {

void introduce(const LessonInfo& info, const Options& options, const GpuPlan& gpus,
               const std::string& hosts) {
  const auto& [run, platform, output] = options;
  if (output.quiet) return;
  fmt::print("Lesson {}: {} rank{} ({})", info.name, run.ranks, run.ranks > 1 ? "s" : "",
             platform.launch == Launch::mpi ? "processes under mpirun" : "threads");
  if (info.model)
    fmt::print(", {} layers, hidden {}, {} heads, sequence {}", run.model.layers, run.model.hidden,
               run.model.heads, run.model.sequence);
  fmt::print("\n");
  if (!hosts.empty()) fmt::print("{}\n", hosts);
  if (gpus.any) fmt::print("{}\n", gpus.summary(options));
  if (output.verbose)
    fmt::print("{}matrix products on the CPU: {}\n", gpus.table(), cpu_kernels_library());
  const Clock& clock = platform.clock;
  fmt::print("{} clock{}: {}\n", clock.is_modelled() ? "modelled" : "wall",
             clock.is_modelled() ? ", cluster " + clock.cluster().name : "",
             platform.why_this_clock);
  if (clock.is_modelled() && run.ranks > 1)
    fmt::print(
        "modelled sends are buffered: a sender is free after β·bytes and never waits for "
        "its receiver\n");
  if (output.trace_left_out)
    fmt::print("no trace: for {} ranks it would take gigabytes; --trace FOLDER writes it anyway\n",
               run.ranks);
  if (run.trained_steps > 0)
    fmt::print("resumes after the {} steps of {}\n", run.trained_steps, run.load);
  std::fflush(stdout);
}

}  // namespace lockstep
