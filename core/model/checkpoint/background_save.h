#pragma once

#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "core/model/checkpoint/sharded_checkpoint.h"

namespace lockstep {

/// Saves checkpoints on a thread of its own, while the ranks train. The training waits only for the
/// copy of its state.
class BackgroundSave {
 public:
  /// `ranks` connects the ranks that save together, and nothing else may use it. `path` is the
  /// folder, as in save_checkpoint().
  BackgroundSave(std::unique_ptr<Transport> ranks, std::string path, Plan plan)
      : ranks_(std::move(ranks)), path_(std::move(path)), plan_(std::move(plan)) {}
  /// Waits for the save in progress. Ignores its failure; the checkpoint before it is then still
  /// there.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Collective: copies the state and begins to save it, after the save before has ended. Throws as
  /// finish() does.
  void begin(const TrainingState& state);
  /// Waits until the save in progress has ended. Throws what it threw, and RunError if the state
  /// was unsound.
  void finish();

 private:
  std::unique_ptr<Transport> ranks_;
  std::string path_;
  Plan plan_;
  std::thread thread_;
  std::exception_ptr error_;
};

}  // namespace lockstep
