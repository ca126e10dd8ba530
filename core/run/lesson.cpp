#include "core/run/lesson.h"

#include <fmt/format.h>

#include <algorithm>

#include <cmath>
#include <cstdio>
#include <exception>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/run/corpus.h"
#include "core/run/files/rank_report.h"
#include "core/run/launch/launch.h"
#include "core/run/report/report.h"
#include "core/run/report/trained_model.h"
#include "core/run/running.h"
#include "core/trace/reader.h"

namespace lockstep {

Lesson::Lesson(LessonInfo info, int argc, char** argv)
    : info_(std::move(info)), argc_(argc), argv_(argv), flags_(info_) {}
Lesson::~Lesson() = default;

int Lesson::run(const std::function<void(Rank&)>& body) {
  const bool process = under_mpi();
  const auto tell = [process](RankReport::Kind kind, const std::string& what) {
    if (!process)
      fmt::print(stderr, "{}\n", what);
    else if (reports_are_collected() || mpi_first_on_host() || kind == RankReport::Kind::failed)
      say({kind, mpi_rank_from_environment(), host_name(), what});
  };
  try {
    // Watches from the very start; each launcher replaces the function.
    SignalWatch watch{[process](int signal) {
      if (signal == end_traces_signal) return;
      if (!process) fmt::print(stderr, "\ninterrupted\n");
      std::_Exit(signal == SIGCONT ? 1 : 130);
    }};
    if (process) watch.add(end_traces_signal);
    if (process) watch.add(SIGCONT);
    return run_checked(body, watch);
  } catch (const UsageError& error) {
    tell(RankReport::Kind::refused, error.what());
    return 2;
  } catch (const std::exception& error) {
    tell(RankReport::Kind::failed, error.what());
    return 1;
  }
}

int Lesson::run_checked(const std::function<void(Rank&)>& body, SignalWatch& watch) {
  options_ = flags_.parse(argc_, argv_);
  if (!options_) return 0;
  const Options& o = *options_;
  if (check_) check_(o);
  if (builder_) options_->run.builder = builder_(o);
  if (info_.trains) o.plan().validate();
  corpus_ = std::make_unique<Corpus>(
      o.run.data.empty() ? Corpus{default_corpus(), o.run.model, "the lessons' texts"}
                         : Corpus::from_file(o.run.data, o.run.model));
  if (!o.run.load.empty()) options_->run.trained_steps = check_checkpoint(o.run.load, o.plan());

  if (o.platform.launch == Launch::mpi && !under_mpi()) return run_launcher(watch);
#ifdef LOCKSTEP_HAS_MPI
  if (o.platform.launch == Launch::mpi) return run_process(body, watch);
#endif
  return run_threads(body, watch);
}

// Runs in the process that starts all others.
int Lesson::run_launcher(SignalWatch& watch) {
  const Options& o = *options_;
  find_mpirun();
  const RunFolder folder = RunFolder::create(o.output.trace, info_.name);
  folder.pass_on();
  Console::detect().pass_on();
  return run_under_mpirun(o.run.ranks, o.platform.patience_seconds, o.platform.hosts, argc_, argv_,
                          watch, [&](const std::map<int, std::string>& hosts) {
                            folder.keep_whole_lines(o.run.ranks);
                            folder.merge(o.run.ranks);  // as many as exist
                            return folder.where_the_trace_is(hosts);
                          });
}

void Lesson::introduce(const GpuPlan& plan, const std::string& hosts) const {
  const Options& o = *options_;
  if (o.output.quiet) return;
  fmt::print("Lesson {}: {} rank{} ({})", info_.name, o.run.ranks, o.run.ranks > 1 ? "s" : "",
             o.platform.launch == Launch::mpi ? "processes under mpirun" : "threads");
  if (info_.model)
    fmt::print(", {} layers, hidden {}, {} heads, sequence {}", o.run.model.layers,
               o.run.model.hidden, o.run.model.heads, o.run.model.sequence);
  fmt::print("\n");
  if (!hosts.empty()) fmt::print("{}\n", hosts);
  if (plan.any) fmt::print("{}\n", plan.told(o));
  if (o.output.verbose) fmt::print("{}", plan.table());
  fmt::print("{} clock{}: {}\n", o.platform.clock.is_modelled() ? "modelled" : "wall",
             o.platform.clock.is_modelled() ? ", cluster " + o.platform.clock.cluster().name : "",
             o.platform.why_this_clock);
  if (o.platform.clock.is_modelled() && o.run.ranks > 1)
    fmt::print(
        "modelled sends are buffered: a sender is free after β·bytes and never waits for "
        "its receiver\n");
  if (o.output.trace_left_out)
    fmt::print("no trace: that of {} ranks would take gigabytes; --trace FOLDER writes it\n",
               o.run.ranks);
  if (o.run.trained_steps > 0)
    fmt::print("goes on after the {} steps of {}\n", o.run.trained_steps, o.run.load);
  std::fflush(stdout);
}

// Runs on rank 0, when all ranks are done and their traces written: prints the final report.
int Lesson::tell() {
  const Options& o = *options_;
  Report report{.options = o, .lesson = info_.name, .ranks = std::move(running_->records)};
  report.own = std::move(running_->own);
  report.uncomputed = o.platform.on_meta() && info_.trains;
  const bool trained = !report.ranks.front().parameters.empty();
  if (running_->writer) {
    running_->folder.merge(o.run.ranks);
    const ReadReport read = read_traces({running_->folder.path / "trace.json"}, report.timeline);
    if (read.malformed > 0)
      fmt::print(stderr, "the trace has {} lines that can't be read: {}\n", read.malformed,
                 read.first_malformed);
    report.look_at_timeline();
  }
  bool failed = false;
  const Tolerance& tolerance =
      is_narrow(o.run.model.dtype) ? info_.narrow_tolerance : info_.tolerance;
  if (trained) {
    report.losses = collect_losses(report.ranks, o.run.steps);
    const auto lost =
        std::ranges::find_if_not(report.losses, [](double loss) { return std::isfinite(loss); });
    if (lost != report.losses.end())
      throw RunError(
          fmt::format("the loss is not a number from step {} on; a smaller --lr than {} "
                      "would do",
                      lost - report.losses.begin(), o.run.optimizer.learning_rate));
    const auto parameters = collect_parameters(report.ranks);
    if (o.output.parity) {
      Progress progress{running_->console, o.run.steps,
                        o.output.quiet || !running_->console.terminal};
      Options as = o;
      if (info_.f32_reference) as.run.model.dtype = DType::f32;
      const auto train = [&](const std::vector<SumOrder>& orders) {
        return train_on_one_device(
            as, *corpus_, report.phases(),
            [&](int done) {
              progress.show(done, fmt::format("the same on one device, to compare: step {}/{}",
                                              done, o.run.steps));
            },
            orders);
      };
      const Reference reference = train({});
      report.reference_dtype = as.run.model.dtype;
      report.reference_losses = reference.losses;
      report.parity = compare(report.losses, parameters, reference);
      failed = !report.parity->within(tolerance);
      const auto& orders = running_->orders;
      if (failed && std::ranges::none_of(orders, &SumOrder::empty)) {
        report.same_in_order = compare(report.losses, parameters, train(orders)).bitwise;
        failed = !*report.same_in_order;
      }
    }
    report.sample = use_trained_model(o, parameters, collect_moments(report.ranks));
  }
  if (!o.output.quiet) fmt::print("{}", report.text(running_->console));
  if (running_->writer) running_->folder.write_report(report.json());
  if (!o.output.report.empty()) write_text_file(o.output.report, report.json());
  if (!o.output.quiet && running_->writer)
    fmt::print("{}\n", running_->folder.how_to_look(o.output.view));
  if (failed)
    fmt::print(stderr, "parity failed: this run is not what one device computes ({}){}\n",
               tolerance.bitwise() ? "it should be, to the bit"
               : tolerance.final_loss > 0
                   ? fmt::format("the last tenth's mean loss may differ by {:g} %",
                                 100 * tolerance.final_loss)
                   : fmt::format("losses may differ by {:.0e}, parameters by {:.0e}",
                                 tolerance.loss, tolerance.parameter),
               o.platform.comm == Collectives::native
                   ? "; MPI's own collectives add in an order that is not known here: --comm ring "
                     "can tell rounding from a mistake"
                   : "");
  return failed ? 1 : 0;
}

}  // namespace lockstep
