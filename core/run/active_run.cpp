#include "core/run/active_run.h"

#include "core/comm/mpi/environment.h"
#include "core/run/files/rank_message.h"

namespace lockstep {

ActiveRun::ActiveRun(const LessonInfo& info_, Options& options_, const Corpus& corpus_)
    : info(info_),
      options(options_),
      corpus(corpus_),
      console(Console::detect()),
      progress(console, options.run.steps, options.output.quiet),
      stop(!options.output.save.empty(), options.platform.launch == Launch::mpi),
      meters(static_cast<std::size_t>(options.run.ranks)) {}

void ActiveRun::lock_save() {
  if (!options.output.save.empty()) save_lock_.emplace("--save", options.output.save);
  if (!options.output.export_to.empty()) export_lock_.emplace("--export", options.output.export_to);
}

void ActiveRun::open(RunFolder folder_) {
  folder = std::move(folder_);
  if (options.platform.device == "cpu") program = resident_bytes();
  const Output& output = options.output;
  if (output.trace != "none")
    writer = std::make_unique<TraceWriter>(folder.path, output.view, output.view_token,
                                           [this](const std::string& why) { warn_of_trace(why); });
  opened = true;
}

void ActiveRun::train(Rank& rank, const std::function<void(Rank&)>& body) {
  meters[static_cast<std::size_t>(rank.id)] = std::make_unique<RankMeter>(*this, rank);
  {
    std::lock_guard lock{mutex_};
    traces_[rank.id] = &rank.trace;
  }
  body(rank);
  rank.memory.release_idle();  // all of the body's memory is idle now
}

void ActiveRun::warn_of_trace(const std::string& why) {
  if (warned_of_trace_.exchange(true)) return;
  write_message({RankMessage::Kind::trace_warning, under_mpi() ? mpi_rank_from_environment() : 0,
                 host_name(), console.start_of_line() + why});
}

void ActiveRun::keep_traces(double patience_seconds) noexcept {
  try {
    if (writer) writer->finish(patience_seconds);
  } catch (const std::exception&) {
  }
}

Batch ActiveRun::batch(const Rank& rank, int step, int microbatches) const {
  const RunConfig& run = options.run;
  BatchShape samples = rank.plan.samples(rank.place, microbatches);
  if (!info.trains)  // every rank reads the whole batch
    samples = {.microbatches = microbatches, .size = run.batch / microbatches};
  return corpus.batch(run.seed, run.trained_steps + step, samples);
}

std::string ActiveRun::last_operations_of(int rank) const {
  std::lock_guard lock{mutex_};
  const auto found = traces_.find(rank);
  return found != traces_.end() ? last_operations(*found->second) : "";
}

}  // namespace lockstep
