#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/model/checkpoint/background_save.h"
#include "core/pipeline/executor.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/20_when_ranks_die/coordinator.h"
#include "lessons/20_when_ranks_die/fault_injection.h"
#include "lessons/20_when_ranks_die/peer_checkpoint.h"
#include "lessons/20_when_ranks_die/when_ranks_die.h"

namespace lockstep {

/// Returns the plan of a pipeline of `members` ranks. If there are fewer than the run began with,
/// the layers are divided evenly, whatever --split says.
inline Plan plan_of_pipeline(const Plan& plan, int members) {
  Plan fewer = plan;
  if (members != plan.stages()) fewer.split.clear();
  fewer.set_mesh(Mesh::along(Axis::pp, members));
  return fewer;
}

/// A rank of a 1F1B pipeline (lesson 9) that may lose ranks.
///
/// Each rank holds another part of the state, so a death loses some of it. The others then divide
/// the layers among themselves, load the last checkpoint from one another's memory, and repeat the
/// steps since it was taken.
class SurvivingPipeline final : public Survivor {
 public:
  SurvivingPipeline(Rank& rank, Coordinator& coordinator, FaultInjection& faults,
                    const SurvivalSettings& settings)
      : rank_(rank), coordinator_(coordinator), faults_(faults), settings_(settings) {}

  void join(int step, const Load& load) override {
    quorum_ = coordinator_.quorum(rank_, step);
    stage_ = std::make_unique<Stage>(rank_, coordinator_, quorum_, settings_);
    load(stage_->model.parameters(), stage_->optimizer);
    next_ = step;
    begin_checkpoints();
  }

  std::optional<double> step(int step, Batch& batch) override {
    batches_[step] = std::move(batch);
    while (true) {
      const Quorum quorum = coordinator_.quorum(rank_, step);
      try {
        if (quorum.number != quorum_.number) recover(quorum, step);
        for (; next_ < step; ++next_) {  // the steps that the checkpoint does not have
          run(next_);
          stage_->optimizer.step();
        }
        std::optional<BatchLoss> loss;
        if (attempt(step, loss)) return loss ? std::optional<double>{*loss} : std::nullopt;
      } catch (const RunError&) {
        if (!coordinator_.is_broken(quorum_)) throw;  // not because a rank is lost
        end_waits(rank_);
      }
    }
  }

  void finish() override {
    try {
      checkpoint_->finish();
      if (stage_->saves) stage_->saves->finish();
    } catch (const RunError&) {  // a rank has died after the last step, which counts
      if (!coordinator_.is_broken(quorum_)) throw;
    }
  }
  const std::vector<Parameter*>& parameters() const override { return stage_->model.parameters(); }
  const AdamW& optimizer() const override { return stage_->optimizer; }

 private:
  /// This rank's stage in the pipeline of a quorum.
  struct Stage {
    Stage(Rank& rank, Coordinator& coordinator, const Quorum& quorum,
          const SurvivalSettings& settings)
        : connection(coordinator.connect(rank, quorum)),
          plan(plan_of_pipeline(rank.plan, static_cast<int>(quorum.members.size()))),
          endpoint{connection.transport, rank.device, collectives_of(rank, connection)},
          group(endpoint, quorum.members, "pp", connection.channels),
          place(plan.place(group.rank())),
          model(plan, place, rank.device),
          optimizer(model.parameters(), rank.device, plan.optimizer),
          pipeline(endpoint, group, one_f_one_b(group.size(), plan.batch.microbatches), {&model},
                   plan.boundary(plan.batch.microbatches)) {
      auto savers = settings.save.empty() ? nullptr : coordinator.connect_savers(rank, quorum);
      if (savers) saves.emplace(std::move(savers), settings.save, plan);
    }
    Coordinator::Connection connection;
    Plan plan;
    Endpoint endpoint;
    Group group;
    Place place;
    Gpt model;
    AdamW optimizer;
    PipelineExecutor pipeline;
    std::optional<BackgroundSave> saves;
  };

  /// Runs the passes of a step on this rank's stage.
  std::optional<BatchLoss> run(int step) {
    stage_->model.zero_gradients();
    return stage_->pipeline.step(batches_.at(step));
  }

  /// Returns whether the step counts.
  bool attempt(int step, std::optional<BatchLoss>& loss) {
    faults_.strike(step, DeathPoint::start);
    const FaultInjection::InBackward in_backward{faults_, step, stage_->model};
    loss = run(step);
    checkpoint_->finish();  // it travelled while this step computed
    faults_.strike(step, DeathPoint::sum);
    if (coordinator_.vote(rank_, quorum_, 0) != Vote::commit) return false;
    checkpoint_->complete();
    saved_.reset();
    batches_.erase(batches_.begin(), batches_.upper_bound(checkpoint_->step()));
    stage_->optimizer.step();
    next_ = step + 1;
    if (next_ % settings_.interval == 0) take_checkpoint();
    return true;
  }

  /// Starts to copy the state to the neighbour's memory, and with --save to disk; training goes on
  /// meanwhile.
  void take_checkpoint() try {
    checkpoint_->begin(stage_->optimizer, next_ - 1);
    if (stage_->saves)
      stage_->saves->begin({rank_.device, stage_->model.parameters(), stage_->optimizer,
                            settings_.trained_steps + next_});
  } catch (const RunError&) {  // a rank is lost, but the step counts
    if (!coordinator_.is_broken(quorum_)) throw;
  }

  void begin_checkpoints() {
    checkpoint_ = std::make_unique<PeerCheckpoint>(rank_.device, stage_->group, stage_->plan);
    checkpoint_->begin(stage_->optimizer, next_ - 1);
  }

  /// Divides the layers among the ranks that are left, and loads the last complete checkpoint.
  void recover(const Quorum& quorum, int step) {
    quorum_ = quorum;
    if (checkpoint_) checkpoint_->detach();
    if (checkpoint_ && checkpoint_->is_complete()) saved_ = std::move(checkpoint_);
    stage_.reset();
    if (!saved_)
      throw RunError("a rank died before the ranks had exchanged their first checkpoint");
    stage_ = std::make_unique<Stage>(rank_, coordinator_, quorum, settings_);
    load_from_peers(*saved_);
    next_ = saved_->step() + 1;
    if (stage_->group.rank() == 0)
      coordinator_.note(
          step,
          fmt::format("{} the layers, and loaded the state {} from memory",
                      stage_->group.size() == 1
                          ? fmt::format("rank {} took all", rank_.id)
                          : fmt::format("{} ranks divided", stage_->group.size()),
                      next_ == 0 ? "before step 0" : fmt::format("after step {}", next_ - 1)));
    begin_checkpoints();
  }

  /// For each rank of the new pipeline and each parameter of its stage, the rank whose memory has
  /// the state sends it. All ranks go through the same list, so sends and receives match.
  void load_from_peers(const PeerCheckpoint& saved) {
    Stage& stage = *stage_;
    std::map<int, AdamW::Moments> mine;
    for (const AdamW::Moments& each : stage.optimizer.moments())
      mine.emplace(each.parameter->order, each);
    for (int member = 0; member < stage.group.size(); ++member)
      for (const Held& held : stage.plan.place(member).held) {
        const ParameterSpec& spec =
            stage.plan.parameters()[static_cast<std::size_t>(held.parameter)];
        const int source = saved.source(spec.order, quorum_.members);
        if (source < 0)
          throw RunError(fmt::format(
              "both ranks that had the state of {} in memory are dead; continue from a checkpoint "
              "on disk",
              spec.name));
        const bool sends = source == rank_.id, receives = member == stage.group.rank();
        if (sends && receives) put(mine.at(spec.order), saved.state(spec.order));
        if (sends && !receives) stage.group.send(saved.state(spec.order), member).wait();
        if (!sends && receives) {
          const Tensor state{
              rank_.device.memory, {3 * spec.shape.elements()}, MemoryCategory::communication};
          stage.group.receive(state, stage_member(source)).wait();
          put(mine.at(spec.order), state);
        }
      }
    stage.optimizer.resume(settings_.optimizer_steps + saved.step() + 1);
  }
  int stage_member(int rank) const {
    return static_cast<int>(std::ranges::find(quorum_.members, rank) - quorum_.members.begin());
  }
  void put(const AdamW::Moments& to, View state) {
    const std::int64_t n = to.momentum.elements();
    rank_.compute.launch(
        Span{.name = "load checkpoint"}, {.bytes = 2.0 * static_cast<double>(state.bytes())},
        [&](const Kernels& kernels, Queue queue) {
          for (int part = 0; const View& into : {to.parameter->value, to.momentum, to.variance})
            kernels.copy(queue, state.columns(n * part++, n), into.reshaped({n}));
        });
  }

  Rank& rank_;
  Coordinator& coordinator_;
  FaultInjection& faults_;
  SurvivalSettings settings_;
  Quorum quorum_;
  std::map<int, Batch> batches_;           ///< since the complete checkpoint, by step
  int next_ = 0;                           ///< the next step that this rank's state has not taken
  std::unique_ptr<PeerCheckpoint> saved_;  ///< of a pipeline that is no more
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<PeerCheckpoint> checkpoint_;  ///< of this pipeline
};

}  // namespace lockstep
