#include "core/text/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lockstep {

namespace {

constexpr const char* console_variable = "LOCKSTEP_CONSOLE";  // "terminal colour width"

}  // namespace

Console Console::detect() {
  Console console;
  if (const char* inherited = std::getenv(console_variable)) {
    int terminal = 0;
    int colour = 0;
    if (std::sscanf(inherited, "%d %d %d", &terminal, &colour, &console.width) == 3) {
      console.terminal = terminal != 0;
      console.colour = colour != 0;
      return console;
    }
  }
  console.terminal = ::isatty(STDOUT_FILENO) != 0;
  const char* term = std::getenv("TERM");
  console.colour = console.terminal && std::getenv("NO_COLOR") == nullptr && term != nullptr &&
                   std::strcmp(term, "dumb") != 0;
  winsize size{};
  if (console.terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    console.width = std::min<int>(size.ws_col, 200);
  return console;
}

void Console::pass_on() const {
  char text[64];
  std::snprintf(text, sizeof text, "%d %d %d", terminal ? 1 : 0, colour ? 1 : 0, width);
  ::setenv(console_variable, text, 1);
}

void Progress::show(int done, const std::string& text) {
  if (quiet_) return;
  if (console_.terminal) {
    std::printf("\r\033[K%s", text.c_str());
    std::fflush(stdout);
    open_ = true;
    if (done == total_) end();
  } else if (done == total_ || done * 10 / total_ != (done - 1) * 10 / total_) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
}

void Progress::end() {
  if (open_) std::printf("\n");
  if (open_) std::fflush(stdout);
  open_ = false;
}

}  // namespace lockstep
