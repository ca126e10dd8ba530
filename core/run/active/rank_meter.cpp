#include "core/run/active/rank_meter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <stdexcept>

#include "core/run/active/active_run.h"
#include "core/run/files/rank_message.h"
#include "core/run/results/config_json.h"

namespace lockstep {

RankMeter::RankMeter(ActiveRun& run, Rank& rank) : run_(run), rank_(rank) {
  results_.rank = rank.id;
  results_.host = host_name();
}

void RankMeter::begin_phase(const Phase& phase, const Predicted& predicted) {
  for (const MemoryCategory category : all_memory_categories)
    if (!predicted.peak_bytes[category].is_set())
      throw std::logic_error(
          fmt::format("the lesson neither predicts the peak of {} nor gives a reason, with "
                      "Figure::not_predicted",
                      name_of(category)));
  results_.phases.push_back({phase, predicted, {}, {}, {}});
  if (rank_.id == 0) {
    // The order in which a library's collectives add is not known, and ranks on the meta device do
    // not add at all.
    const bool in_order =
        predicted.sum_order && run_.options.output.parity && !run_.info.f32_reference &&
        rank_.plan.collectives == Collectives::built_in && !run_.options.platform.on_meta();
    run_.collected.orders.push_back(in_order ? predicted.sum_order() : SumOrder{});
    run_.collected.split_proposals.push_back(predicted.propose_split);
  }
  traffic_before_ = rank_.transport->traffic();
  rank_.memory.reset_peak();

  const std::string json = predicted_json(phase, predicted);
  if (traced_)
    rank_.trace.metadata("predicted", json);
  else if (run_.recording.writer)
    begin_trace(json);
}

void RankMeter::begin_trace(const std::string& predicted) {
  const Platform& platform = run_.options.platform;
  const std::optional<ModelledTime>& modelled = rank_.plan.modelled;
  run_.recording.writer->add({.run = run_.recording.folder.run,
                              .lesson = run_.info.name,
                              .rank = rank_.id,
                              .ranks = rank_.count,
                              .mesh = rank_.plan.mesh.json(),
                              .device = platform.device,
                              .launch = platform.launch == Launch::mpi ? "mpi" : "threads",
                              .clock = rank_.clock.name(),
                              .cluster = modelled ? modelled->cluster.name : "",
                              .cluster_description = modelled ? modelled->cluster.json() : "",
                              .config = config_json(run_.options),
                              .clock_offset_ns = rank_.clock.start_nanoseconds(),
                              .clock_uncertainty_ns = run_.recording.clock_uncertainty_ns,
                              .predicted = predicted},
                             rank_.trace);
  traced_ = true;
}

void RankMeter::begin_step(int step) {
  if (began_ == 0) {
    began_ = steady_nanoseconds();
    rank_.clock.start_pace();
  }
  rank_.trace.set_step(step);
  end_section(RunOperations::Section::no_step);
  step_start_ = rank_.compute.now();
}

void RankMeter::end_step() {
  rank_.compute.synchronise();
  if (GpuTimeline* timeline = rank_.compute.timeline()) timeline->realign(rank_.compute.queue());
  const Picoseconds end = rank_.clock.cluster().after(rank_.compute.now(), 0);
  rank_.trace.span(rank_.compute.lane(), {.name = "step", .category = Category::step}, step_start_,
                   end);
  results_.phases.back().last_step = end - step_start_;
  end_section(rank_.trace.step());
  record_memory(rank_.device);
  rank_.memory.parts().record_peak(rank_.trace);
  results_.train_seconds = static_cast<double>(steady_nanoseconds() - began_) * 1e-9;
}

void RankMeter::end_section(int step) {
  if (rank_.operations) rank_.operations->end_section(step);
}

void RankMeter::end_phase() {
  PhaseResults& phase = results_.phases.back();
  if (phase.predicted.at_end) phase.predicted.at_end(phase.predicted);
  phase.peak = rank_.memory.peak();
  const Traffic traffic = rank_.transport->traffic() - traffic_before_;
  phase.bytes_sent = traffic.bytes_sent;
  phase.overhead_bytes = traffic.overhead_bytes;
  // There are no observed bytes of these operations to compare with a prediction.
  for (const Operation operation : all_operations)
    if (traffic.library_calls[operation] > 0)
      phase.predicted.bytes_sent[operation] = Figure::not_predicted(
          "the transport does not count the bytes of a library's collectives");
  phase.peak_total = rank_.memory.peak_total();
  rank_.trace.set_step(-1);
  if (const auto now = resident_bytes(); now && run_.before_ranks)
    results_.process = {.id = ::getpid(), .program = run_.before_ranks->now, .resident = now->peak};
  rank_.memory.release_idle();
  if (rank_.gpu == nullptr) return;
  results_.gpu = {.address = rank_.gpu->info().address,
                  .in_use = rank_.gpu->memory_in_use(),
                  .ours = rank_.memory.current().total(),
                  .queues = rank_.gpu->most_queues()};
  const Transport::Communicators communicators = rank_.transport->communicators();
  results_.gpu.communicators = communicators.count;
  results_.gpu.communicator_bytes = communicators.bytes;
  if (GpuTimeline* timeline = rank_.compute.timeline()) {
    timeline->drain();
    results_.gpu.late = timeline->uncertainty();
    results_.gpu.least_delay = timeline->least_delay();
  }
}

void RankMeter::record_loss(double loss) {
  const Options& options = run_.options;
  const Place& place = rank_.place;
  const int step = rank_.trace.step();
  const int steps = options.run.steps;
  // The ranks of a tensor-parallel group have the same share of the loss, so only one of them
  // reports it.
  if (place.coordinate(Axis::tp) > 0) return;
  if (options.platform.on_meta()) {  // no loss on the meta device
    if (place.coordinate(Axis::dp_cp) == 0)
      run_.progress.show(step + 1, fmt::format("step {:>3}/{}", step + 1, steps));
    return;
  }
  results_.losses.emplace_back(step, loss);
  // Each replica knows only its share of the batch's mean loss, so the progress line shows the mean
  // over the first replica's own tokens.
  const std::size_t contributing = results_.phases.back().phase.replicas.size();
  const BatchShape own = rank_.plan.samples(place);
  const double own_mean = contributing > 0 ? loss * static_cast<double>(contributing)
                          : own.shares.empty()
                              ? loss * place.size(Axis::dp_cp)
                              : loss * place.size(Axis::cp) * static_cast<double>(own.all()) /
                                    static_cast<double>(own.microbatches * own.size);
  rank_.trace.loss(own_mean, rank_.compute.now());
  if (place.coordinate(Axis::dp_cp) > 0) return;
  const double seconds = static_cast<double>(steady_nanoseconds() - began_) * 1e-9;
  const double tokens = static_cast<double>(options.plan.batch.sequences) *
                        options.plan.model().sequence * (step + 1);
  run_.progress.show(
      step + 1, fmt::format("step {:>3}/{}  {}loss {:.4f}  {:.0f} tokens/s", step + 1, steps,
                            options.plan.mesh.size(Axis::dp) * options.plan.mesh.size(Axis::cp) > 1
                                ? "rank 0's "
                                : "",
                            own_mean, tokens / seconds));
}

void RankMeter::record_values(const std::vector<Parameter*>& parameters) {
  if (run_.options.platform.on_meta()) return;  // no values on the meta device
  for (const Parameter* parameter : parameters)
    results_.parameters.push_back({.name = parameter->name,
                                   .order = parameter->order,
                                   .values = parameter->f32_values(rank_.device),
                                   .slice = parameter->slice});
}

}  // namespace lockstep
