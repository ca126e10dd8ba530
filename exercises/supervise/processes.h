#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::exercises {

/// A pipe whose read end does not block.
struct Pipe {
  Pipe();
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  /// Where other processes of this host open the write end while this object lives.
  std::string path() const;

  int read_end, write_end;
};

/// Starts a process in a session of its own, without a terminal and without input, whose output
/// goes to `output`. It runs `body` and exits with the code that it returns, and dies when this
/// process does.
pid_t start(int output, const std::function<int()>& body);
/// Becomes the program, with these arguments. Returns, with an exit code, only if there is none.
int become(const std::vector<std::string>& words);

/// The children of this process, their children, and so on. It must have called adopt_orphans().
std::vector<pid_t> descendants();
/// Kills all descendants, also those that have left their session, and waits until they are gone.
void end_descendants();

}  // namespace lockstep::exercises
