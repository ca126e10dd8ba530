#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "core/device/host_copy.h"
#include "core/model/checkpoint.h"
#include "core/run/report/trained_model.h"
#include "core/run/running.h"

// Implements what a lesson's body calls: phases, steps, losses, final parameters; and their
// records.
namespace lockstep {

// Runs one rank from start to end.
void Lesson::train(Rank& rank, const std::function<void(Rank&)>& body) {
  Running::Live& live = running_->of(rank);
  live.record.rank = rank.id;
  live.record.host = host_name();
  running_->know(rank);
  body(rank);
  rank.memory.release_idle();  // the body's memory is all idle now
}

std::vector<Phase> Lesson::phases() const {
  std::vector<Phase> phases;
  for (auto& [m, phase] :
       turns(options_->run.microbatches, [](int m) { return fmt::format("m = {}", m); })) {
    phase.microbatches = m;
    phases.push_back(std::move(phase));
  }
  return phases;
}

std::vector<Phase> Lesson::phases(const std::string& before, const std::string& after,
                                  int split) const {
  const int m = options_->run.microbatches.front();
  const int steps = options_->run.steps;
  std::vector<Phase> phases;
  split = std::clamp(split, 0, steps);
  if (split > 0) phases.push_back({before, 0, split, m});
  if (split < steps) phases.push_back({after, split, steps - split, m});
  return phases;
}

Phase Lesson::turn(std::size_t i, std::size_t count) const {
  const auto steps = static_cast<std::size_t>(options_->run.steps);
  const int first = static_cast<int>(steps * i / count);
  return {.name = {},
          .first_step = first,
          .steps = static_cast<int>(steps * (i + 1) / count) - first,
          .microbatches = options_->run.microbatches.front()};
}

void Lesson::sums_in(Rank& rank, const std::function<SumOrder()>& order) {
  // The order in which a library's collectives add is not known.
  const bool known = options_->platform.comm == Collectives::ring && !options_->platform.on_meta();
  if (rank.id == 0 && known && options_->output.parity) running_->order = order();
}

Batches Lesson::batches(Rank& rank, const Phase& phase, Predicted predicted) {
  Running::Live& live = running_->of(rank);
  for (const MemoryCategory category : all_memory_categories)
    if (!predicted.peak_bytes[category].is_set())
      throw std::logic_error(
          fmt::format("the lesson predicts no peak of {}, and gives no reason: "
                      "Figure::not_predicted is for that",
                      name_of(category)));
  live.record.phases.push_back({phase, predicted, {}, {}, {}});
  if (rank.id == 0) running_->orders.push_back(running_->order);
  live.traffic_before = rank.transport->traffic();
  rank.memory.reset_peak();

  const std::string json = predicted_json(phase, predicted);
  if (live.traced) {
    rank.trace.metadata("predicted", json);
  } else if (running_->writer) {
    const Options& o = *options_;
    running_->writer->add(
        {.run = running_->folder.run,
         .lesson = info_.name,
         .rank = rank.id,
         .ranks = rank.count,
         .mesh = rank.plan.mesh.json(),
         .device = o.platform.device,
         .launch = o.platform.launch == Launch::mpi ? "mpi" : "threads",
         .clock = o.platform.clock.name(),
         .cluster = o.platform.clock.is_modelled() ? o.platform.clock.cluster().name : "",
         .clock_offset_ns = rank.clock.start_nanoseconds(),
         .clock_uncertainty_ns = running_->clock_uncertainty_ns,
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
  BatchShape samples = rank_.plan.samples(rank_.place, phase_.microbatches);
  if (!lesson_.info_.trains)  // every rank reads all of them
    samples = {.microbatches = phase_.microbatches, .size = o.run.batch / phase_.microbatches};
  batch_ = lesson_.corpus_->batch(o.run.seed, o.run.trained_steps + step, samples);
  move_to(rank_.device, batch_);
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
  if (live.began == 0) {
    live.began = steady_nanoseconds();
    rank.clock.start_pace();
  }
  rank.trace.set_step(step);
  live.step_start = rank.compute.now();
}

void Lesson::end_step(Rank& rank, int) {
  Running::Live& live = running_->of(rank);
  rank.compute.synchronise();
  if (GpuTimeline* timeline = rank.compute.timeline()) timeline->realign(rank.compute.queue());
  rank.trace.span(rank.compute.lane(), {.name = "step", .category = Category::step},
                  live.step_start, rank.compute.now());
  live.record.phases.back().last_step = rank.compute.now() - live.step_start;
  record_memory(rank.device);
  live.record.train_seconds = static_cast<double>(steady_nanoseconds() - live.began) * 1e-9;
}

void Lesson::end_phase(Rank& rank) {
  Running::Live& live = running_->of(rank);
  PhaseRecord& record = live.record.phases.back();
  record.peak = rank.memory.peak();
  const Traffic traffic = rank.transport->traffic() - live.traffic_before;
  record.bytes_sent = traffic.bytes_sent;
  record.overhead_bytes = traffic.overhead_bytes;
  // These operations have no observed bytes to compare with a prediction.
  for (const Operation operation : all_operations)
    if (traffic.library_calls[operation] > 0)
      record.predicted.bytes_sent[operation] = Figure::not_predicted(
          "the transport does not count the bytes of a library's collectives");
  record.peak_total = rank.memory.peak_total();
  rank.trace.set_step(-1);
  if (const auto now = resident_bytes(); now && running_->program)
    live.record.process = {
        .id = ::getpid(), .program = running_->program->now, .resident = now->peak};
  rank.memory.release_idle();
  if (rank.gpu == nullptr) return;
  live.record.gpu = {.address = rank.gpu->info().address,
                     .in_use = rank.gpu->memory_in_use(),
                     .ours = rank.memory.current().total()};
  if (GpuTimeline* timeline = rank.compute.timeline()) {
    timeline->drain();
    live.record.gpu.late = timeline->uncertainty();
    live.record.gpu.least_delay = timeline->least_delay();
  }
}

void Lesson::record(Rank& rank, std::optional<double> loss) {
  if (!loss) return;
  Running::Live& live = running_->of(rank);
  const int step = rank.trace.step();
  if (options_->platform.on_meta()) {  // there is no loss
    if (rank.place.coordinate(Axis::dp) == 0)
      running_->progress.show(step + 1,
                              fmt::format("step {:>3}/{}", step + 1, options_->run.steps));
    return;
  }
  // The ranks of a tensor-parallel group know the same share of the loss, which counts once.
  if (rank.place.coordinate(Axis::tp) > 0) return;
  live.record.losses.emplace_back(step, *loss);
  // Each replica knows its share of the mean over the batch. The running display shows the mean
  // over the first replica's own tokens.
  const double own_mean = *loss * rank.place.size(Axis::dp) * rank.place.size(Axis::cp);
  rank.trace.loss(own_mean, rank.compute.now());
  if (rank.place.coordinate(Axis::dp) > 0 || rank.place.coordinate(Axis::cp) > 0) return;
  const double seconds = static_cast<double>(steady_nanoseconds() - live.began) * 1e-9;
  const double tokens =
      static_cast<double>(options_->run.batch) * options_->run.model.sequence * (step + 1);
  running_->progress.show(
      step + 1,
      fmt::format("step {:>3}/{}  {}loss {:.4f}  {:.0f} tokens/s", step + 1, options_->run.steps,
                  options_->run.dp > 1 ? "rank 0's " : "", own_mean, tokens / seconds));
}

void Lesson::add_to_report(const Rank& rank, const std::string& name, const std::string& json) {
  if (rank.id == 0) running_->own[name] = json;
}

void Lesson::load(Rank& rank, const std::vector<Parameter*>& parameters, AdamW& optimizer) {
  const std::string& path = options_->run.load;
  if (path.empty()) return;
  load_checkpoint(path, rank.plan, rank.device, parameters);
  // A distributed optimizer's slices have their own master copies.
  load_checkpoint(path, rank.plan, rank.device, optimizer.parameters());
  load_moments(path, optimizer);
}

void Lesson::finish(Rank& rank, const std::vector<Parameter*>& parameters, const AdamW& optimizer) {
  if (options_->platform.on_meta()) return;  // there are no values
  RankRecord& record = running_->of(rank).record;
  for (const Parameter* parameter : parameters)
    record.parameters.push_back({.name = parameter->name,
                                 .order = parameter->order,
                                 .values = parameter->f32_values(rank.device),
                                 .slice = parameter->slice});
  if (!saves_moments(*options_)) return;
  for (const auto& [parameter, momentum, variance] : optimizer.moments()) {
    int order = 2 * parameter->order;
    for (const auto& [name, view] : {std::pair{".momentum", momentum}, {".variance", variance}})
      record.moments.push_back({.name = parameter->name + name,
                                .order = order++,
                                .values = to_host(rank.device, view),
                                .slice = parameter->slice});
  }
}

}  // namespace lockstep
