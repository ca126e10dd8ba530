#include "core/run/lesson.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <thread>

#include "core/base/error.h"
#include "core/comm/environment.h"
#include "core/comm/threads_transport.h"
#include "core/model/checkpoint.h"
#include "core/run/console.h"
#include "core/run/corpus.h"
#include "core/run/launch.h"
#include "core/run/report.h"
#include "core/run/run_folder.h"
#include "core/run/trained_model.h"
#include "core/trace/reader.h"
#include "core/trace/writer.h"
#ifdef LOCKSTEP_HAS_MPI
#include "core/comm/mpi_transport.h"
#endif

namespace lockstep {

/// What a run keeps while it goes on.
struct Lesson::Running {
  /// One rank's view of now.
  struct Live {
    RankRecord record;
    std::map<std::string, std::int64_t> bytes_before;  ///< of the phase
    Picoseconds step_start = 0;
    std::int64_t began = 0;  ///< steady nanoseconds at the first step
    bool traced = false;
  };

  Running(const Options& options, RunFolder folder_, const Console& console_)
      : folder(std::move(folder_)),
        console(console_),
        progress(console_, options.steps, options.quiet),
        live(static_cast<std::size_t>(options.ranks)) {
    if (options.trace != "none")
      writer = std::make_unique<TraceWriter>(folder.path, options.view, options.view_token);
  }
  Live& of(const Rank& rank) { return live[static_cast<std::size_t>(rank.id)]; }

  RunFolder folder;
  Console console;
  Progress progress;
  std::unique_ptr<TraceWriter> writer;
  std::vector<Live> live;           ///< by rank; each is its own rank's to touch
  std::vector<RankRecord> records;  ///< on rank 0, once all are done
};

Lesson::Lesson(LessonInfo info, int argc, char** argv)
    : info_(std::move(info)), argc_(argc), argv_(argv), flags_(info_) {}
Lesson::~Lesson() = default;

int Lesson::run(const std::function<void(Rank&)>& body) {
  const bool speaks = !under_mpi() || mpi_rank_from_environment() == 0;
  try {
    return run_checked(body);
  } catch (const UsageError& error) {
    if (speaks) fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

int Lesson::run_checked(const std::function<void(Rank&)>& body) {
  options_ = flags_.parse(argc_, argv_);
  if (!options_) return 0;
  const Options& o = *options_;
  if (o.pp > 1) StageLayers::of(o.model, 0, o.pp);  // throws for fewer layers than stages
  corpus_ = std::make_unique<Corpus>(
      o.data.empty() ? Corpus{text_of_the_lessons(), o.model, "the lessons' texts"}
                     : Corpus::from_file(o.data, o.model));
  if (!o.load.empty()) check_checkpoint(o.load, o.model);

  const Console console = Console::detect();
  if (o.launch == Launch::mpi && !under_mpi()) {
    const RunFolder folder = RunFolder::create(o.trace, info_.name);
    folder.pass_on();
    console.pass_on();
    return run_under_mpirun(o.ranks, argc_, argv_, folder.where_the_trace_is());
  }
  return o.launch == Launch::mpi ? run_process(body) : run_threads(body);
}

void Lesson::introduce() const {
  const Options& o = *options_;
  if (o.quiet) return;
  fmt::print("Lesson {}: {} ranks ({}), {} layers, hidden {}, {} heads, sequence {}\n", info_.name,
             o.ranks, o.launch == Launch::mpi ? "processes under mpirun" : "threads",
             o.model.layers, o.model.hidden, o.model.heads, o.model.sequence);
  fmt::print("{} clock{}: {}\n", o.clock.is_modelled() ? "modelled" : "wall",
             o.clock.is_modelled() ? ", cluster " + o.clock.cluster().name : "", o.why_this_clock);
  std::fflush(stdout);
}

int Lesson::run_threads(const std::function<void(Rank&)>& body) {
  const int count = options_->ranks;
  ThreadFabric fabric{count};
  SignalWatch watch{[&](int) {
    // What has been written so far stays; the ranks are not asked.
    if (running_ && running_->writer) running_->writer->finish();
    fmt::print(stderr, "\ninterrupted{}\n", running_ ? running_->folder.where_the_trace_is() : "");
    std::_Exit(130);
  }};
  running_ = std::make_unique<Running>(*options_, RunFolder::create(options_->trace, info_.name),
                                       Console::detect());
  introduce();
  options_->clock.set_start_nanoseconds(steady_nanoseconds());

  std::vector<std::unique_ptr<Rank>> ranks;
  for (int id = 0; id < count; ++id)
    ranks.push_back(std::make_unique<Rank>(*options_, fabric.endpoint(id)));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int id = 0; id < count; ++id) {
    threads.emplace_back([&, id] {
      try {
        train(*ranks[static_cast<std::size_t>(id)], body);
        fabric.finish(id);
      } catch (const UsageError& error) {
        errors[static_cast<std::size_t>(id)] = std::current_exception();
        fabric.fail(id, error.what());
      } catch (const RunError& error) {
        fabric.fail(id, error.what());  // its own, or what it heard from another
      } catch (const std::exception& error) {
        fabric.fail(id, fmt::format("rank {}: {}", id, error.what()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  running_->progress.end();
  if (running_->writer) running_->writer->finish();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  if (const std::string failure = fabric.failure(); !failure.empty())
    throw RunError(
        fmt::format("the run failed: {}{}", failure, running_->folder.where_the_trace_is()));
  return tell();
}

int Lesson::run_process([[maybe_unused]] const std::function<void(Rank&)>& body) {
#ifdef LOCKSTEP_HAS_MPI
  SignalWatch watch{[&](int) {
    if (running_ && running_->writer) running_->writer->finish();
    std::_Exit(130);
  }};
  MpiSession session;
  try {
    auto transport = session.endpoint(options_->clock.is_modelled());
    // One folder and one start for all: rank 0's.
    const bool root = session.rank() == 0;
    RunFolder folder = RunFolder::from_bytes(broadcast_from_root(
        *transport, root ? RunFolder::create(options_->trace, info_.name).to_bytes() : ""));
    const std::string start =
        broadcast_from_root(*transport, root ? std::to_string(steady_nanoseconds()) : "");
    options_->clock.set_start_nanoseconds(std::stoll(start));
    running_ = std::make_unique<Running>(*options_, std::move(folder), Console::detect());
    if (root) introduce();

    Rank rank{*options_, std::move(transport)};
    train(rank, body);
    running_->progress.end();
    if (running_->writer) running_->writer->finish();
    gather_to_root(*rank.transport, "written");
    int code = root ? tell() : 0;
    code = std::stoi(broadcast_from_root(*rank.transport, std::to_string(code)));
    return code;
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}\n", error.what());
    if (running_ && running_->writer) running_->writer->finish();
    session.abort(2);
  } catch (const std::exception& error) {
    fmt::print(stderr, "the run failed: rank {}: {}{}\n", session.rank(), error.what(),
               running_ ? running_->folder.where_the_trace_is() : "");
    if (running_ && running_->writer) running_->writer->finish();
    session.abort(1);
  }
#else
  return 2;
#endif
}

// One rank's whole life: the lesson's body, then its record to rank 0.
void Lesson::train(Rank& rank, const std::function<void(Rank&)>& body) {
  Running::Live& live = running_->of(rank);
  live.record.rank = rank.id;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  live.record.host = host;
  body(rank);
  for (const std::string& bytes : gather_to_root(*rank.transport, live.record.to_bytes()))
    running_->records.push_back(RankRecord::from_bytes(bytes));
}

std::vector<Phase> Lesson::phases() const {
  const Options& o = *options_;
  std::vector<Phase> phases;
  const int count = static_cast<int>(o.microbatches.size());
  for (int i = 0; i < count; ++i) {
    const int first = o.steps * i / count;
    phases.push_back({.name = fmt::format("m = {}", o.microbatches[static_cast<std::size_t>(i)]),
                      .first_step = first,
                      .steps = o.steps * (i + 1) / count - first,
                      .microbatches = o.microbatches[static_cast<std::size_t>(i)]});
  }
  return phases;
}

std::vector<Phase> Lesson::phases(const std::string& before, const std::string& after,
                                  int split) const {
  const int m = options_->microbatches.front();
  const int steps = options_->steps;
  std::vector<Phase> phases;
  split = std::clamp(split, 0, steps);
  if (split > 0) phases.push_back({before, 0, split, m});
  if (split < steps) phases.push_back({after, split, steps - split, m});
  return phases;
}

Batches Lesson::batches(Rank& rank, const Phase& phase, const Predicted& predicted) {
  Running::Live& live = running_->of(rank);
  live.record.phases.push_back({phase, predicted, {}, {}});
  live.bytes_before = rank.transport->bytes_sent();
  rank.memory.reset_peak();

  const std::string json = predicted_json(phase, predicted);
  if (live.traced) {
    rank.trace.metadata("predicted", json);
  } else if (running_->writer) {
    const Options& o = *options_;
    running_->writer->add({.run = running_->folder.run,
                           .lesson = info_.name,
                           .rank = rank.id,
                           .ranks = rank.count,
                           .mesh = rank.mesh.json(),
                           .device = o.device,
                           .launch = o.launch == Launch::mpi ? "mpi" : "threads",
                           .clock = o.clock.name(),
                           .cluster = o.clock.is_modelled() ? o.clock.cluster().name : "",
                           .clock_offset_ns = rank.clock.start_nanoseconds(),
                           .predicted = json},
                          rank.trace);
    live.traced = true;
  }
  return {*this, rank, phase};
}

Batches::Iterator Batches::begin() {
  load(phase_.first_step);
  return {this, phase_.first_step};
}

void Batches::load(int step) {
  lesson_.begin_step(rank_, step);
  const Options& o = lesson_.options();
  const int replica = rank_.mesh.coordinate(rank_.id, Axis::dp);
  const int share = o.batch / o.dp;
  batch_ = lesson_.corpus_->batch(o.seed, step,
                                  {.microbatches = phase_.microbatches,
                                   .size = share / phase_.microbatches,
                                   .first_sample = replica * share});
}

Batches::Iterator& Batches::Iterator::operator++() {
  batches_->lesson_.end_step(batches_->rank_, step_);
  ++step_;
  if (step_ < batches_->phase_.first_step + batches_->phase_.steps)
    batches_->load(step_);
  else
    batches_->lesson_.end_phase(batches_->rank_);
  return *this;
}

void Lesson::begin_step(Rank& rank, int step) {
  Running::Live& live = running_->of(rank);
  if (live.began == 0) live.began = steady_nanoseconds();
  rank.trace.set_step(step);
  live.step_start = rank.compute.now();
}

void Lesson::end_step(Rank& rank, int) {
  Running::Live& live = running_->of(rank);
  rank.trace.span(rank.compute.lane(), {.name = "step", .category = Category::step},
                  live.step_start, rank.compute.now());
  rank.trace.memory(rank.memory.current(), rank.compute.now());
  live.record.train_seconds = static_cast<double>(steady_nanoseconds() - live.began) * 1e-9;
}

void Lesson::end_phase(Rank& rank) {
  Running::Live& live = running_->of(rank);
  PhaseRecord& record = live.record.phases.back();
  record.peak = rank.memory.peak();
  for (const auto& [operation, bytes] : rank.transport->bytes_sent())
    if (const std::int64_t sent = bytes - live.bytes_before[operation]; sent > 0)
      record.bytes_sent[operation] = sent;
  rank.trace.set_step(-1);
}

void Lesson::step(Rank& rank, std::optional<double> loss) {
  if (!loss) return;
  Running::Live& live = running_->of(rank);
  const int step = rank.trace.step();
  live.record.losses.emplace_back(step, *loss);
  rank.trace.loss(*loss, rank.compute.now());
  const double seconds = static_cast<double>(steady_nanoseconds() - live.began) * 1e-9;
  const double tokens =
      static_cast<double>(options_->batch) * options_->model.sequence * (step + 1);
  running_->progress.show(step + 1,
                          fmt::format("step {:>3}/{}  loss {:.4f}  {:.0f} tokens/s", step + 1,
                                      options_->steps, *loss, tokens / seconds));
}

void Lesson::load(Rank&, const std::vector<Parameter*>& parameters) {
  if (!options_->load.empty()) load_checkpoint(options_->load, options_->model, parameters);
}

void Lesson::finish(Rank& rank, const std::vector<Parameter*>& parameters) {
  for (const Parameter* parameter : parameters) {
    const float* values = parameter->value.f32();
    running_->of(rank).record.parameters.push_back(
        {parameter->name, parameter->order, {values, values + parameter->value.elements()}});
  }
}

// On rank 0, when all ranks are done and their traces written: everything that is told at the end.
int Lesson::tell() {
  const Options& o = *options_;
  Report report{.options = o, .lesson = info_.name, .ranks = std::move(running_->records)};
  const bool trained = !report.ranks.front().parameters.empty();
  if (running_->writer) {
    running_->folder.merge(o.ranks);
    read_traces({running_->folder.path / "trace.json"}, report.timeline);
  }
  bool failed = false;
  if (trained) {
    report.losses = Report::collect_losses(report.ranks, o.steps);
    const auto parameters = Report::collect_parameters(report.ranks);
    if (o.parity) {
      Progress progress{running_->console, o.steps, o.quiet || !running_->console.terminal};
      const Reference reference = train_on_one_device(o, *corpus_, report.phases(), [&](int done) {
        progress.show(done,
                      fmt::format("the same on one device, to compare: step {}/{}", done, o.steps));
      });
      report.reference_losses = reference.losses;
      report.parity = compare(report.losses, parameters, reference);
      failed = !report.parity->within(info_.tolerance);
    }
    report.sample = use_trained_model(o, parameters);
  }
  if (!o.quiet) fmt::print("{}", report.text(running_->console));
  if (running_->writer) running_->folder.write_report(report.json());
  if (!o.report.empty()) write_text_file(o.report, report.json());
  if (!o.quiet && running_->writer) fmt::print("{}\n", running_->folder.how_to_look(o.view));
  if (failed)
    fmt::print(stderr, "parity failed: this run is not what one device computes ({})\n",
               info_.tolerance > 0 ? fmt::format("tolerance {:.0e}", info_.tolerance)
                                   : "it should be, to the bit");
  return failed ? 1 : 0;
}

}  // namespace lockstep
