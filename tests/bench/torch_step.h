#pragma once

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>

#include "core/model/gpt.h"

namespace lockstep::bench {

/// PyTorch's training step of the same model and batch, in a process of its own (torch_step.py)
/// that computes one step at a time when asked to, on one thread.
class TorchStep {
 public:
  /// Starts the process. Returns nothing if `python3` has no PyTorch, or if this step can't be
  /// compiled here.
  static std::unique_ptr<TorchStep> start(const GptConfig& config, int batch, bool compiled);
  TorchStep(const TorchStep&) = delete;
  ~TorchStep();

  /// Computes a step and returns the seconds that its thread computed.
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
