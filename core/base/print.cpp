#include "core/base/print.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep {

void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)  // open() returns the lowest number
        [[maybe_unused]]
      const int same = ::open("/dev/null", O_RDWR);
}

std::string lost_output() {
  errno = 0;
  const bool failed_now = std::fflush(stdout) != 0;
  if (failed_now) return std::strerror(errno);
  return std::ferror(stdout) != 0 ? "an earlier part was not written" : "";
}

std::string cannot_print(const std::string& why) {
  return "can't write to stdout: " + why;
}

}  // namespace lockstep
