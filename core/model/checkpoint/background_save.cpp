#include "core/model/checkpoint/background_save.h"

#include <utility>

#include "core/base/error.h"

namespace lockstep {

BackgroundSave::~BackgroundSave() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundSave::begin(const TrainingState& state) {
  finish();
  thread_ = std::thread{[this, copy = StateCopy{state}] {
    try {
      if (const std::string why = save_checkpoint(*ranks_, path_, plan_, copy); !why.empty())
        throw RunError(why + ", so nothing was saved in " + path_);
    } catch (...) {
      error_ = std::current_exception();
    }
  }};
}

void BackgroundSave::finish() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace lockstep
