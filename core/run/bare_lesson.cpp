#include "core/run/bare_lesson.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "core/base/available_memory.h"
#include "core/base/error.h"
#include "core/base/print.h"
#include "core/base/printable.h"
#include "core/base/token.h"
#include "core/comm/mpi/environment.h"
#include "core/model/builder.h"
#include "core/model/checkpoint/save_lock.h"
#include "core/run/active/active_run.h"
#include "core/run/files/rank_message.h"
#include "core/run/launch/gpus.h"
#include "core/run/launch/launch.h"
#include "core/run/life/life.h"
#include "core/run/life/mpi_launcher.h"
#include "core/run/life/thread_launcher.h"
#include "core/run/options/corpus.h"
#include "core/run/options/needs.h"
#include "core/run/options/training.h"
#include "core/run/rank/last_resort.h"

namespace lockstep {

namespace {

/// Reports why this process fails: on stderr, or under mpirun to the process that collects the
/// ranks' messages. Without such a process, one rank per host reports usage errors for all ranks on
/// that host.
void report_failure(RankMessage::Kind kind, const std::string& what) {
  try {
    if (under_mpi()) {
      if (messages_are_collected() || mpi_first_on_host() || kind == RankMessage::Kind::failure)
        write_message({kind, mpi_rank_from_environment(), host_name(), what});
      return;
    }
  } catch (const UsageError&) {  // the launcher's variables are malformed
  }
  print_error("{}\n", kind == RankMessage::Kind::usage_error ? one_line(what) : printable(what));
}

/// Starts the ranks under mpirun and waits for them.
int launch_processes(const Options& options, const std::string& lesson, int argc, char** argv,
                     SignalWatch& watch, const std::function<std::string()>& advice) {
  const auto& [plan, run, platform, output] = options;
  find_mpirun();
  // These locks are only a check; rank 0 will hold its own.
  if (!output.save.empty()) SaveLock{"--save", output.save};
  if (!output.export_to.empty()) SaveLock{"--export", output.export_to};
  lock_report(output.report);
  const RunFolder folder = RunFolder::create(output.trace, lesson);
  folder.pass_on();
  Console::detect().pass_on();
  if (!output.view_token.empty()) ::setenv(token_variable, output.view_token.c_str(), 1);
  return run_under_mpirun(plan.mesh.ranks(), platform.patience_seconds, platform.hosts,
                          !output.save.empty(), argc, argv, watch,
                          [&, ranks = plan.mesh.ranks()](const std::map<int, std::string>& hosts) {
                            folder.keep_whole_lines(ranks);
                            folder.merge(ranks);  // merges the files that exist
                            return folder.where_the_trace_is(hosts) + (advice ? advice() : "");
                          });
}

std::unique_ptr<Launcher> launcher_of(ActiveRun& run) {
#ifdef LOCKSTEP_HAS_MPI
  if (run.options.platform.launch == Launch::mpi) return mpi_launcher(run.options);
#endif
  return thread_launcher(run);
}

}  // namespace

BareLesson::BareLesson(LessonInfo info, int argc, char** argv)
    : info_(std::move(info)), argc_(argc), argv_(argv), flags_(info_) {}
BareLesson::~BareLesson() = default;

int BareLesson::run(const std::function<void(Rank&)>& body) {
  open_standard_streams();
  forget_ended_launcher();
  install_last_resort();
  const int code = run_watched(body);
  const std::string lost = lost_output();
  if (lost.empty() || code != 0) return code;
  report_failure(RankMessage::Kind::failure, cannot_print(lost));
  return 1;
}

int BareLesson::run_watched(const std::function<void(Rank&)>& body) {
  const bool process = under_mpi();
  std::signal(SIGXFSZ, SIG_IGN);  // write() fails at the file size limit instead
  try {
    // Watches for signals from the start; each launcher replaces the function.
    SignalWatch watch{[process, &watch](int signal, bool) {
      if (signal == SIGCONT && !watch.has_seen(end_traces_signal)) return;
      if (signal == end_traces_signal || signal == save_signal) return;
      if (!process) print_error("\ninterrupted\n");
      std::_Exit(interrupted_code);
    }};
    if (process)
      for (const int signal : {end_traces_signal, save_signal, SIGCONT}) watch.add(signal);
    return run_checked(body, watch);
  } catch (const UsageError& error) {
    report_failure(RankMessage::Kind::usage_error, flags_.with_origins(error.what()));
    return 2;
  } catch (const std::exception& error) {
    report_failure(RankMessage::Kind::failure, words_of(error));
    return 1;
  }
}

int BareLesson::run_checked(const std::function<void(Rank&)>& body, SignalWatch& watch) {
  std::error_code error;
  if (std::filesystem::current_path(error).empty())
    throw UsageError(fmt::format("the working directory can't be used: {}; cd to one that exists",
                                 error.message()));
  options_ = flags_.parse(argc_, argv_);
  hide_value("--view-token", argc_, argv_);
  if (!options_) return 0;
  Options& options = *options_;
  RunConfig& run = options.run;
  if (!options.output.needs_only) settle_launch(options);
  for (const auto& check : hooks.checks) check(options);
  if (hooks.build) set_builder(options.plan, hooks.build(options));
  if (hooks.place_stages) options.plan.rank_of_stage = hooks.place_stages(options);
  if (hooks.divide_work && !options.output.needs_only)
    options.plan = hooks.divide_work(options.plan);
  run.chosen_by_time = hooks.chosen_by_time;
  if (info_.training) {
    options.plan.validate();
    if (!under_mpi()) info_.training->check_memory(options, available_memory());
  }
  if (options.output.needs_only) {
    std::fputs(needs_of(options).c_str(), stdout);
    return 0;
  }
  corpus_ = std::make_unique<Corpus>(
      !run.tokens.empty() ? Corpus::from_tokens(run.tokens, options.plan.model())
      : run.data.empty()  ? Corpus{default_corpus(), options.plan.model(), "the lessons' texts"}
                          : Corpus::from_file(file_of_data(run.data), options.plan.model()));
  if (info_.training) info_.training->check_files(options);

  if (options.platform.launch == Launch::mpi && !under_mpi())
    return launch_processes(options, info_.name, argc_, argv_, watch, hooks.advise);
  active_ = std::make_unique<ActiveRun>(info_, options, *corpus_, hooks);
  const int code = live(*active_, *launcher_of(*active_), body, watch);
  if (active_->farewell) active_->farewell();
  return code;
}

std::vector<Phase> BareLesson::phases() const {
  std::vector<Phase> phases;
  for (auto& [m, phase] :
       phases_for(options_->microbatches(), [](int m) { return fmt::format("m = {}", m); })) {
    phase.microbatches = m;
    phases.push_back(std::move(phase));
  }
  return phases;
}

std::vector<Phase> BareLesson::phases(const std::string& before, const std::string& after,
                                      int split) const {
  const int m = options_->plan.batch.microbatches;
  const int steps = options_->run.steps;
  std::vector<Phase> phases;
  split = std::clamp(split, 0, steps);
  if (split > 0) phases.push_back({before, 0, split, m});
  if (split < steps) phases.push_back({after, split, steps - split, m});
  return phases;
}

Phase BareLesson::part_of_steps(std::size_t i, std::size_t count) const {
  const auto steps = static_cast<std::size_t>(options_->run.steps);
  const int first = static_cast<int>(steps * i / count);
  return {.name = {},
          .first_step = first,
          .steps = static_cast<int>(steps * (i + 1) / count) - first,
          .microbatches = options_->plan.batch.microbatches};
}

Batches BareLesson::batches(Rank& rank, const Phase& phase, const Predicted& predicted) {
  active_->ranks.meter(rank).begin_phase(phase, predicted);
  return {*active_, rank, phase};
}

void BareLesson::add_to_report(const Rank& rank, const std::string& name, const std::string& json) {
  if (rank.id == 0) active_->collected.lesson_json[name] = json;
}

}  // namespace lockstep
