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

  /// The path at which other processes of this host can open the write end while this object
  /// exists.
  std::string path() const;

  int read_end, write_end;
};

/// Starts a process in a session of its own, without a terminal and without input, whose output
/// goes to `output`. It runs `body` and exits with the code that it returns, and it is killed when
/// this process dies.
pid_t start(int output, const std::function<int()>& body);
/// Replaces this process with the program, with these arguments. If that fails, prints the reason
/// and returns an exit code.
int become(const std::vector<std::string>& words);

/// The children of this process, their children, and so on. This process must have called
/// adopt_orphans().
std::vector<pid_t> descendants();
/// Kills all descendants, including those that have left their session, and waits until they are
/// gone.
void end_descendants();

}  // namespace lockstep::exercises
