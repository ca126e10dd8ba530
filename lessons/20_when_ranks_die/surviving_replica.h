#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "core/base/crc32.h"
#include "core/model/adamw.h"
#include "core/model/checkpoint/background_save.h"
#include "lessons/02_data_parallel/data_parallel.h"
#include "lessons/20_when_ranks_die/coordinator.h"
#include "lessons/20_when_ranks_die/fault_injection.h"
#include "lessons/20_when_ranks_die/when_ranks_die.h"

namespace lockstep {

/// A replica of data parallelism (lesson 2) whose group may lose and gain members.
///
/// Every replica holds the whole state, so no death loses any of it. A step has three parts: a
/// quorum, which says who takes part; an attempt, which changes nothing but gradients; and a vote.
/// Only after the vote do the members update. If one of them dies during the attempt, the others
/// repeat it without that member.
class SurvivingReplica final : public Survivor {
 public:
  SurvivingReplica(Rank& rank, Coordinator& coordinator, FaultInjection& faults,
                   const SurvivalSettings& settings)
      : rank_(rank),
        coordinator_(coordinator),
        faults_(faults),
        settings_(settings),
        model_(rank.plan, rank.place, rank.device),
        optimizer_(model_.parameters(), rank.device, rank.plan.optimizer) {}

  void join(int step, const Load& load) override {
    load(model_.parameters(), optimizer_);
    connect(coordinator_.quorum(rank_, step));
  }

  std::optional<double> step(int step, Batch& mine) override {
    while (true) {
      connect(coordinator_.quorum(rank_, step));
      try {
        if (const std::optional<BatchLoss> loss = attempt(step, mine)) return *loss;
      } catch (const RunError&) {
        if (!coordinator_.is_broken(quorum_)) throw;  // not because a member is lost
        end_waits(rank_);
      }
    }
  }

  void finish() override {
    if (members_->saves) try {
        members_->saves->finish();
      } catch (const RunError&) {  // a member has died after the last step, which counts
        if (!coordinator_.is_broken(quorum_)) throw;
      }
  }
  const std::vector<Parameter*>& parameters() const override { return model_.parameters(); }
  const AdamW& optimizer() const override { return optimizer_; }

 private:
  /// The group of a quorum, and its buckets of gradients.
  struct Members {
    Members(Rank& rank, Coordinator& coordinator, const Quorum& quorum, Gpt& model,
            const SurvivalSettings& settings)
        : connection(coordinator.connect(rank, quorum)),
          group({connection.transport, rank.device, collectives_of(rank, connection)},
                quorum.members, "dp", connection.channels),
          gradients(model, group, settings.bucket_bytes) {
      auto savers = settings.save.empty() ? nullptr : coordinator.connect_savers(rank, quorum);
      if (savers) saves.emplace(std::move(savers), settings.save, rank.plan);
    }
    Coordinator::Connection connection;
    Group group;
    DataParallel gradients;
    std::optional<BackgroundSave> saves;
  };

  /// Makes the connections between the members of a quorum, unless there are some already.
  void connect(const Quorum& quorum) {
    const bool known = members_ && quorum.number == quorum_.number;
    quorum_ = quorum;
    if (known) return;
    members_.reset();
    members_.emplace(rank_, coordinator_, quorum, model_, settings_);
  }

  /// Returns nothing if the members vote against it.
  std::optional<BatchLoss> attempt(int step, Batch& mine) {
    catch_up(step);
    faults_.corrupt(step, model_);
    faults_.strike(step, DeathPoint::start);
    const FaultInjection::InBackward in_backward{faults_, step, model_};
    // The loss is the mean over the samples that are there, so gradients keep their size. The batch
    // is smaller by the absent replicas' samples.
    weigh(mine, members_->group.size());
    model_.zero_gradients();
    BatchLoss loss = accumulate_gradients(model_, mine);
    members_->gradients.sum_gradients();
    faults_.strike(step, DeathPoint::sum);
    if (coordinator_.vote(rank_, quorum_, checksum()) != Vote::commit) return {};
    optimizer_.step();
    if (members_->saves && (step + 1) % settings_.interval == 0) save(step + 1);
    return loss;
  }

  /// Begins to save the state after so many steps, while the next ones run.
  void save(int steps) try {
    members_->saves->begin(
        {rank_.device, model_.parameters(), optimizer_, settings_.trained_steps + steps});
  } catch (const RunError&) {  // a member is lost, and with it the save before; the step counts
    if (!coordinator_.is_broken(quorum_)) throw;
  }

  /// Members that are behind take parameters and moments from those that are not, each from another
  /// one if there are enough.
  void catch_up(int step) {
    if (quorum_.behind.empty()) return;
    std::vector<int> sources;  // as members of the group
    std::vector<int> targets;
    for (int i = 0; i < members_->group.size(); ++i)
      (std::ranges::count(quorum_.behind, members_->group.world_rank(i)) > 0 ? targets : sources)
          .push_back(i);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const int from = sources[i % sources.size()];
      if (members_->group.rank() == from) send_state(targets[i]);
      if (members_->group.rank() == targets[i]) {
        receive_state(from);
        optimizer_.resume(settings_.optimizer_steps + step);
      }
    }
    quorum_.behind.clear();
  }
  void send_state(int to) {
    for (const Parameter* parameter : model_.parameters())
      members_->group.send(parameter->value, to).wait();
    for (const auto& [parameter, momentum, variance] : optimizer_.moments()) {
      members_->group.send(momentum, to).wait();
      members_->group.send(variance, to).wait();
    }
  }
  void receive_state(int from) {
    for (const Parameter* parameter : model_.parameters())
      members_->group.receive(parameter->value, from).wait();
    for (const auto& [parameter, momentum, variance] : optimizer_.moments()) {
      members_->group.receive(momentum, from).wait();
      members_->group.receive(variance, from).wait();
    }
  }

  /// Replicas' parameters are bitwise identical, so equal checksums are evidence that no bit of
  /// them has changed by accident since the last update.
  std::uint32_t checksum() const {
    Crc32 checksum;
    for (const Parameter* parameter : model_.parameters()) {
      const std::vector<float> values = parameter->f32_values(rank_.device);
      checksum.add(values.data(), values.size() * sizeof(float));
    }
    return checksum.value();
  }

  Rank& rank_;
  Coordinator& coordinator_;
  FaultInjection& faults_;
  SurvivalSettings settings_;
  Gpt model_;
  AdamW optimizer_;
  Quorum quorum_;
  std::optional<Members> members_;
};

}  // namespace lockstep
