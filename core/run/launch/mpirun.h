#pragma once

#include <sys/types.h>

#include <functional>
#include <initializer_list>
#include <string>

#include "core/run/options/hosts.h"

namespace lockstep {

/// A started mpirun, with its stderr and stdout in pipes.
struct Mpirun {
  pid_t process = 0;
  int errors = -1;
  int output = -1;
};

/// Starts this program as `ranks` processes under mpirun, with the same arguments. mpirun ends when
/// this process ends, for whatever reason.
Mpirun start_mpirun(int ranks, const HostChoice& hosts, int argc, char** argv);

/// Waits until one of the descriptors has input, but at most `milliseconds`. Ignores negative ones.
void wait_for_input(std::initializer_list<int> descriptors, int milliseconds);

/// The read end of a pipe.
class PipeEnd {
 public:
  explicit PipeEnd(int descriptor) : descriptor_(descriptor) {}
  ~PipeEnd() { close(); }
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;

  /// -1 once the input has ended.
  int descriptor() const { return descriptor_; }
  /// Returns the input that has arrived, which may be "". Does not wait.
  std::string read();

 private:
  void close();
  int descriptor_;
};

/// Divides the input from a pipe into lines.
class Lines {
 public:
  explicit Lines(int descriptor) : pipe_(descriptor) {}
  int descriptor() const { return pipe_.descriptor(); }
  /// Passes on the lines that are complete, without their newlines; at the end of the input, also
  /// the rest. Does not wait. Returns whether there was any input.
  bool read(const std::function<void(const std::string&)>& take);

 private:
  PipeEnd pipe_;
  std::string text_;
};

/// Copies the input from a pipe to this process's stdout.
class OutputCopy {
 public:
  explicit OutputCopy(int descriptor) : pipe_(descriptor) {}
  int descriptor() const { return pipe_.descriptor(); }
  /// Copies the input that has arrived. Does not wait for more. Returns whether there was any.
  bool copy();
  /// The reason why output has been lost, or "".
  const std::string& failure() const { return failure_; }

 private:
  PipeEnd pipe_;
  std::string failure_;
};

}  // namespace lockstep
