#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/comm/group.h"
#include "core/model/losses.h"
#include "core/plan/boundary.h"

namespace lockstep {

/// GPipe with explicit messages: one stage per rank, all forward passes, then all backward passes,
/// each between a blocking receive and a blocking send. Losses and gradients are bitwise identical
/// to those of PipelineExecutor with gpipe(), but a step takes longer if messages are expensive,
/// because the rank computes nothing while it is sending.
class NaivePipeline {
 public:
  /// `pipeline` holds the stages' ranks in order, `stage` is the model of this rank's stage, and
  /// `boundary` describes the tensor sent between two stages. Group and model must outlive this
  /// object.
  NaivePipeline(Group& pipeline, Gpt& stage, Boundary boundary)
      : pipeline_(pipeline), stage_(stage), boundary_(boundary) {}

  /// Runs the forward and backward passes of all microbatches and adds to the model's gradients.
  /// Returns the batch's mean loss on the last rank, and nothing elsewhere.
  std::optional<BatchLoss> step(const Batch& batch) {
    const int me = pipeline_.rank(), last = pipeline_.size() - 1;
    const int microbatches = static_cast<int>(batch.microbatches.size());
    std::vector<Stash> stashes(batch.microbatches.size());
    Losses losses{stage_.device(), batch.microbatches.size()};

    for (int i = 0; i < microbatches; ++i) {
      Stash& stash = stashes[static_cast<std::size_t>(i)];
      const Microbatch& tokens = batch.microbatches[static_cast<std::size_t>(i)];
      Tensor x = me > 0 ? receive(me - 1) : Tensor{};  // the first stage reads the tokens
      const Tensor y = compute(Category::forward, i,
                               [&] { return stage_.forward(tokens, std::move(x), stash); });
      if (me < last) pipeline_.send(y, me + 1).wait();
      if (me == last) losses.take(static_cast<std::size_t>(i), stage_, stash);
    }
    for (int i = 0; i < microbatches; ++i) {
      Stash& stash = stashes[static_cast<std::size_t>(i)];
      Tensor dy = me < last ? receive(me + 1) : Tensor{};  // the last stage starts from the loss
      const Tensor dx =
          compute(Category::backward, i, [&] { return stage_.backward(std::move(dy), stash); });
      if (me > 0) pipeline_.send(dx, me - 1).wait();
    }
    return me == last ? std::optional{losses.total()} : std::nullopt;
  }

 private:
  Tensor receive(int from) {
    Tensor data{stage_.device().memory, boundary_.shape, MemoryCategory::activations,
                boundary_.dtype};
    pipeline_.receive(data, from).wait();
    return data;
  }

  /// Runs `work` as a pipeline action, which appears in the timeline.
  template <class Work>
  Tensor compute(Category category, int microbatch, const Work& work) {
    Tensor output = stage_.device().compute.range({.name = "action",
                                                   .category = category,
                                                   .stage = pipeline_.rank(),
                                                   .microbatch = microbatch},
                                                  work);
    record_memory(stage_.device());
    return output;
  }

  Group& pipeline_;
  Gpt& stage_;
  Boundary boundary_;
};

}  // namespace lockstep
