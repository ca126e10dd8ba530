#pragma once

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>

#include "core/model/gpt.h"

namespace lockstep::bench {

/// PyTorch's training step for the same model and batch. A separate process (torch_step.py)
/// computes one step per request, on one thread.
class TorchStep {
 public:
  /// Starts the process. Returns null if `python3` has no PyTorch, or if `compiled` is true and
  /// PyTorch can't compile the step here.
  static std::unique_ptr<TorchStep> start(const GptConfig& config, int batch, bool compiled);
  TorchStep(const TorchStep&) = delete;
  ~TorchStep();

  /// Computes a step and returns its thread's CPU time in seconds.
  double step();
  /// Returns PyTorch's version.
  const std::string& version() const { return version_; }

 private:
  TorchStep(pid_t process, std::FILE* to, std::FILE* from);
  bool read_line(std::string& line);

  pid_t process_;
  std::FILE *to_, *from_;
  std::string version_;
};

}  // namespace lockstep::bench
