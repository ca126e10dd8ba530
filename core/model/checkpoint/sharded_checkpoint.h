#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/comm/transport/transport.h"
#include "core/model/adamw.h"
#include "core/model/checkpoint/ownership.h"
#include "core/model/parameter.h"
#include "core/plan/plan.h"

namespace lockstep {

// The folder that --save writes:
//
//   config.json                          the model, as in transformers
//   rank-00000-of-00004.safetensors ...  each rank's part of the parameters and of the moments
//   manifest.json                        the step, and of each tensor the boxes and their files
//
// A shard's tensors are boxes, such as "transformer.wte.weight[0:64, 0:64]". To load a slice, a
// rank intersects it with these boxes, so any mesh can load what any other mesh has saved.

/// The state of a rank's training.
struct TrainingState {
  Device device;
  const std::vector<Parameter*>& parameters;  ///< or slices of them
  const AdamW& optimizer;
  std::int64_t step = 0;  ///< steps taken, including those before --load
  std::string unsound{};  ///< why this state must not replace a good one, or ""
};

/// A copy of a rank's state in the host's memory. The training may go on while it is saved.
struct StateCopy {
  /// Waits for the device, and copies everything.
  explicit StateCopy(const TrainingState& state);
  std::vector<TensorPart> parts;
  std::int64_t step;
  std::int64_t optimizer_steps;
  std::string unsound;
};

/// Collective: saves the parameters of all ranks and the optimizer's moments in the folder `path`,
/// completely or not at all. Each rank writes the elements of which it is the lowest holder, and
/// needs no memory beyond a copy of its largest parameter. Returns "" on success; if the state is
/// unsound, saves nothing and returns the reason on every rank. Throws UsageError or RunError on
/// the rank that fails, or on rank 0.
std::string save_checkpoint(Transport& ranks, const std::string& path, const Plan& plan,
                            const TrainingState& state);

/// Does the same with a copy of the state, on any thread.
std::string save_checkpoint(Transport& ranks, const std::string& path, const Plan& plan,
                            const StateCopy& state);

/// The size above which transformers also divides a model into several files.
constexpr std::uint64_t most_bytes_of_file = 5'000'000'000;

/// Collective: writes the model for transformers' from_pretrained: the folder `path` with
/// config.json and model.safetensors or, if that would have more than `most_bytes`, several files
/// and their index; or one file alone if `path` ends in .safetensors. All ranks write their own
/// elements into each file, so none needs memory for the whole model. `flag` is --export or --save.
/// Otherwise like save_checkpoint().
std::string export_model(Transport& ranks, const std::string& flag, const std::string& path,
                         const Plan& plan, const TrainingState& state,
                         std::uint64_t most_bytes = most_bytes_of_file);

}  // namespace lockstep
