#include "core/run/life/life.h"

#include <fmt/format.h>

#include <cstdlib>

#include "core/run/active/active_run.h"
#include "core/run/launch/launch.h"
#include "core/run/life/conclusion.h"
#include "core/run/life/introduction.h"

namespace lockstep {

namespace {

/// Rank 0's process takes the locks, and prepares the folder that all ranks write to.
RunFolder claim_folder(ActiveRun& run) {
  run.lock_outputs();
  RunFolder folder = RunFolder::create(run.options.output.trace, run.info.name);
  folder.begin();
  return folder;
}

/// Returns the line that reports an interruption: after which step, and how to continue.
std::string interruption(const ActiveRun& run) {
  const int steps = run.options.run.steps;
  const int done = run.stop.ended_early() ? run.stop.steps() : steps;
  const std::string& place = run.options.output.save;
  if (done == 0) return "interrupted before the first step, so nothing was saved";
  if (!run.collected.not_saved.empty()) return "interrupted; " + run.collected.not_saved;
  std::string text =
      fmt::format("interrupted after {} of {} steps; saved in {}", done, steps, place);
  if (place.ends_with(".safetensors"))
    text += ", without the optimizer's state";
  else if (done < steps)
    text += fmt::format("; --load {} --steps {} continues", place, steps - done);
  return text;
}

/// Runs everything between the exception handlers. Returns the exit code.
int live_to_the_end(ActiveRun& run, Launcher& launcher, const RankBody& body, SignalWatch& watch) {
  const bool speaks = launcher.has_rank_0();
  const GpuPlan gpus = launcher.settle(run);
  run.open(launcher.agree_on_folder(speaks ? claim_folder(run) : RunFolder{}));
  launcher.create_ranks(run, gpus);
  watch.set_handler(launcher.on_signal(run, watch));
  if (speaks) introduce(run.info, run.options, gpus, launcher.hosts());

  launcher.train(run, body);

  const bool interrupted = launcher.interrupted(run);
  if (!interrupted) launcher.gather_results(run);
  run.progress.end();
  run.recording.finish();
  launcher.gather_traces(run);
  if (interrupted) {
    if (speaks) run.recording.folder.merge(run.options.plan.mesh.ranks());
    return launcher.report_interruption(interruption(run) +
                                        run.recording.folder.where_the_trace_is());
  }
  launcher.gather_operations(run);
  return launcher.agree_on_code(speaks ? conclude(run) : 0);
}

}  // namespace

int live(ActiveRun& run, Launcher& launcher, const RankBody& body, SignalWatch& watch) {
  int code = 0;
  try {
    code = live_to_the_end(run, launcher, body, watch);
  } catch (...) {
    code = launcher.fail(run);
  }
  // The state that the handler uses is about to be destroyed.
  watch.set_handler([](int signal, bool) {
    if (signal == SIGINT || signal == SIGTERM) std::_Exit(interrupted_code);
  });
  return code;
}

}  // namespace lockstep
