#include "core/run/active/active_run.h"

#include "core/run/files/rank_message.h"

namespace lockstep {

void RanksAtWork::add(ActiveRun& run, Rank& rank) {
  meters_[static_cast<std::size_t>(rank.id)] = std::make_unique<RankMeter>(run, rank);
  std::lock_guard lock{mutex_};
  traces_[rank.id] = &rank.trace;
}

std::string RanksAtWork::last_operations(int rank) const {
  std::lock_guard lock{mutex_};
  const auto found = traces_.find(rank);
  return found != traces_.end() ? lockstep::last_operations(*found->second) : "";
}

ActiveRun::ActiveRun(const LessonInfo& info_, Options& options_, const Corpus& corpus_,
                     const Hooks& hooks_)
    : info(info_),
      options(options_),
      corpus(corpus_),
      hooks(hooks_),
      console(Console::detect()),
      progress(console, options.run.steps, options.output.quiet),
      stop(!options.output.save.empty(), options.platform.launch == Launch::mpi),
      recording(console),
      ranks(options.plan.mesh.ranks()) {}

void ActiveRun::lock_outputs() {
  if (!options.output.save.empty()) save_lock_.emplace("--save", options.output.save);
  if (!options.output.export_to.empty()) export_lock_.emplace("--export", options.output.export_to);
  report_lock_ = lock_report(options.output.report);
}

void ActiveRun::open(RunFolder folder) {
  if (options.platform.device == "cpu") before_ranks = resident_bytes();
  recording.open(std::move(folder), options, info.replays);
}

void ActiveRun::train(Rank& rank, const std::function<void(Rank&)>& body) {
  ranks.add(*this, rank);
  body(rank);
  if (rank.operations) rank.operations->end_section(RunOperations::Section::no_step);
  rank.memory.release_idle();  // all of the body's memory is idle now
}

Batch ActiveRun::batch(const Rank& rank, int step, int microbatches) const {
  BatchShape samples = rank.plan.samples(rank.place, microbatches);
  if (!info.training)  // every rank reads the whole batch
    samples = {.microbatches = microbatches,
               .size = rank.plan.batch.sequences / microbatches,
               .documents = rank.plan.batch.documents};
  const int data = options.run.trained_steps + step;
  if (options.platform.on_meta())
    return batch_without_tokens(samples, rank.plan.model().sequence, rank.plan.seed, data);
  return corpus.batch(rank.plan.seed, data, samples);
}

}  // namespace lockstep
