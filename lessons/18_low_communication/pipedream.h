#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/losses.h"
#include "core/pipeline/stage_messages.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/18_low_communication/weight_versions.h"

namespace lockstep {

/// PipeDream (Narayanan 2019): a pipeline that never waits for itself to become empty. All batches
/// of the run pass through it as one long sequence of microbatches, in 1F1B's order, and every
/// stage updates its own weights after each microbatch's backward pass:
///
///     stage 0   F0 F1 F2          B0 F3 B1 F4 B2 F5 B3 ...      F3 uses the weights after B0
///     stage 1      F0 F1       B0 F2 B1 F3 B2 F4 B3 ...         F3 uses the weights after B1
///     stage 2         F0 B0 F1 B1 F2 B2 F3 B3 ...               F3 uses the weights after B2
///
/// Between a microbatch's forward and its backward pass, stage q of p stages updates its weights
/// p - 1 - q times. The backward pass must use the weights of the forward pass, so the stage keeps
/// p - q versions (WeightVersions). The gradient is then applied to the latest version.
class PipeDream {
 public:
  /// `stages` holds the pipeline's ranks in order, `stage` is the model of this rank's stage, and
  /// the run has `batches` batches of `microbatches` microbatches. Group, model and optimizer must
  /// outlive this object.
  PipeDream(Endpoint endpoint, const Group& stages, Gpt& stage, AdamW& optimizer, Boundary boundary,
            int microbatches, int batches)
      : schedule_(one_f_one_b(stages.size(), microbatches * batches)),
        actions_(schedule_.actions[static_cast<std::size_t>(stages.rank())]),
        messages_(endpoint, stages, schedule_, boundary),
        stage_(stage),
        optimizer_(optimizer),
        versions_(stage),
        microbatches_(microbatches),
        losses_(stage.device(), static_cast<std::size_t>(microbatches)) {}

  /// Runs the stage's actions up to the forward pass of this batch's last microbatch and the
  /// backward pass that follows it, or, with the last batch, all actions that are left. Returns the
  /// batch's mean loss on the last rank, and nothing elsewhere.
  std::optional<BatchLoss> step(Batch batch) {
    if (batches_.empty()) messages_.begin();
    const int batch_end = (static_cast<int>(batches_.size()) + 1) * microbatches_;
    batches_.push_back(std::make_unique<Batch>(std::move(batch)));
    for (; next_ < actions_.size(); ++next_) {
      const Action& action = actions_[next_];
      if (action.op == Op::forward && action.microbatch == batch_end) break;
      run(action);
    }
    if (next_ == actions_.size()) messages_.end();
    return stage_.stage().head ? std::optional{losses_.total()} : std::nullopt;
  }

 private:
  void run(const Action& action) {
    Device device = stage_.device();
    InFlight& mine = in_flight_[action.microbatch];
    Tensor input = messages_.before(next_);
    Tensor output = device.compute.range({.name = "action",
                                          .category = category(action.op),
                                          .stage = action.stage,
                                          .microbatch = action.microbatch},
                                         [&] {
                                           return action.op == Op::forward
                                                      ? forward(action, std::move(input), mine)
                                                      : backward(std::move(input), mine);
                                         });
    messages_.after(next_, std::move(output));
    if (action.op == Op::backward) {
      versions_.next(mine.version);
      // The loss is divided by the tokens of the whole batch, but this update is for one
      // microbatch: its gradient is the mean over its own tokens.
      optimizer_.step(static_cast<float>(microbatches_));
      in_flight_.erase(action.microbatch);
      if (const int batch = action.microbatch / microbatches_;
          action.microbatch % microbatches_ == microbatches_ - 1)
        batches_[static_cast<std::size_t>(batch)].reset();
    }
    record_memory(device);
  }

  struct InFlight {
    int version = 0;  ///< of the weights that the forward pass has used
    Stash stash;
  };

  Tensor forward(const Action& action, Tensor input, InFlight& mine) {
    const int batch = action.microbatch / microbatches_, index = action.microbatch % microbatches_;
    Microbatch microbatch =
        batches_[static_cast<std::size_t>(batch)]->microbatches[static_cast<std::size_t>(index)];
    microbatch.last = true;  // each microbatch completes its own gradients
    mine.version = versions_.hold();
    Tensor output = stage_.forward(microbatch, std::move(input), mine.stash);
    if (stage_.stage().head) losses_.take(static_cast<std::size_t>(index), stage_, mine.stash);
    return output;
  }

  Tensor backward(Tensor input, InFlight& mine) {
    versions_.use(mine.version);
    stage_.zero_gradients();
    return stage_.backward(std::move(input), mine.stash);
  }

  Schedule schedule_;  ///< of all microbatches of the run
  const std::vector<Action>& actions_;
  StageMessages messages_;
  Gpt& stage_;
  AdamW& optimizer_;
  WeightVersions versions_;
  int microbatches_;  ///< of a batch
  std::size_t next_ = 0;
  std::vector<std::unique_ptr<Batch>> batches_;  ///< null once their last backward pass is done
  std::map<int, InFlight> in_flight_;            ///< by microbatch
  Losses losses_;                                ///< on the last rank
};

}  // namespace lockstep
