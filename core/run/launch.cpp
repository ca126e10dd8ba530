#include "core/run/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace lockstep {

namespace {

// A handler may do next to nothing, and a library's threads may be the ones to run it: it writes
// the signal's number into a pipe, and the watch's own thread does the rest.
int signal_pipe[2] = {-1, -1};

void note_signal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t ignored = ::write(signal_pipe[1], &byte, 1);
  errno = saved;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

/// mpirun explains an end that was not good in blocks between rules of dashes. Of a rank that died
/// it is the only one who knows, and that is told in one line; that ranks ended with a code they
/// have said themselves.
class MpirunMessages {
 public:
  /// `epilogue` follows the line about a rank that died.
  explicit MpirunMessages(std::string epilogue) : epilogue_(std::move(epilogue)) {}

  void line(const std::string& text) {
    const bool rule = text.size() > 60 && text.find_first_not_of('-') == std::string::npos;
    if (!rule && !inside_) return fmt::print(stderr, "{}\n", text);
    if (!rule) {
      block_ += text + "\n";
      return;
    }
    if (inside_) end_block();
    inside_ = !inside_;
  }

  /// What came last, if its rule did not.
  void end() {
    if (inside_) end_block();
  }

 private:
  void end_block() {
    constexpr const char* died = "noticed that process rank ";
    const auto told = [&](const char* words) { return block_.find(words) != std::string::npos; };
    if (const auto at = block_.find(died); at != std::string::npos) {
      // "process rank 3 with PID 0 on node vm exited on signal 9 (Killed)."
      const int rank = std::atoi(block_.c_str() + at + std::strlen(died));
      const auto node = block_.find("on node ", at);
      std::string rest = node != std::string::npos ? block_.substr(node + 3) : "";
      rest = rest.substr(0, rest.find_last_not_of(".\n") + 1);
      fmt::print(stderr, "the run failed: rank {} on {}{}\n", rank, rest, epilogue_);
    } else if (!told("Primary job") && !told("MPI_ABORT was invoked") &&
               !told("non-zero status, thus causing")) {
      fmt::print(stderr, "{}", block_);
    }
    block_.clear();
  }

  std::string epilogue_;
  std::string block_;
  bool inside_ = false;
};

constexpr const char* no_mpirun =
    "--launch mpi: there is no mpirun; install openmpi-bin, or use --launch threads";

}  // namespace

void find_mpirun() {
  const char* path = std::getenv("PATH");
  std::istringstream folders{path != nullptr ? path : ""};
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return;
  throw UsageError(no_mpirun);
}

int run_under_mpirun(int ranks, int argc, char** argv, const std::string& epilogue) {
  char self[4096];
  const ssize_t size = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (size <= 0) throw RunError("can't find this program's own file");
  self[size] = '\0';

  std::vector<std::string> words{"mpirun",          "-n",        std::to_string(ranks),
                                 "--oversubscribe", "--bind-to", "none"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.emplace_back(self);
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  std::fflush(stdout);
  int errors[2];
  if (::pipe2(errors, O_CLOEXEC) != 0) throw RunError("can't make a pipe");
  const pid_t child = ::fork();
  if (child < 0) throw RunError(fmt::format("can't start mpirun: {}", std::strerror(errno)));
  if (child == 0) {
    // A group of its own: a Ctrl-C would reach mpirun twice, from the terminal and from here, and
    // after the second it kills the ranks before they have ended their traces. It ends with this
    // process, however that does. Nobody reads its stdin, which a background group may not.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (const int nothing = ::open("/dev/null", O_RDONLY); nothing >= 0)
      ::dup2(nothing, STDIN_FILENO);
    ::dup2(errors[1], STDERR_FILENO);
    ::execvp("mpirun", arguments.data());
    ::_exit(127);
  }
  std::atomic<bool> interrupted{false};
  // From SIGTERM to SIGKILL mpirun gives its ranks no more than some milliseconds; so they are
  // asked to end their traces first (it hands SIGUSR1 on).
  SignalWatch watch{[&interrupted, child](int) {
    if (!interrupted.exchange(true)) {
      ::kill(child, end_traces_signal);
      std::this_thread::sleep_for(std::chrono::milliseconds{200});
    }
    ::kill(child, SIGTERM);
  }};
  ::close(errors[1]);
  MpirunMessages messages{epilogue};
  FILE* lines = ::fdopen(errors[0], "r");
  char* text = nullptr;
  std::size_t capacity = 0;
  for (ssize_t length = 0; (length = ::getline(&text, &capacity, lines)) > 0;) {
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r')) --length;
    if (!interrupted) messages.line(std::string(text, static_cast<std::size_t>(length)));
  }
  messages.end();
  std::free(text);
  std::fclose(lines);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (interrupted) {
    fmt::print(stderr, "\ninterrupted{}\n", epilogue);
    return 130;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) throw UsageError(no_mpirun);
  if (WIFEXITED(status) && WEXITSTATUS(status) <= 2) return WEXITSTATUS(status);
  return 1;
}

SignalWatch::SignalWatch(std::function<void(int)> on_signal, std::vector<int> signals)
    : signals_(std::move(signals)) {
  if (::pipe2(signal_pipe, O_CLOEXEC) != 0) throw RunError("can't make a pipe");
  for (const int signal : signals_) handle(signal, note_signal);
  thread_ = std::thread{[on_signal = std::move(on_signal)] {
    unsigned char signal = 0;
    while (::read(signal_pipe[0], &signal, 1) == 1 && signal != 0) on_signal(signal);
  }};
}

SignalWatch::~SignalWatch() {
  for (const int signal : signals_) handle(signal, SIG_DFL);
  note_signal(0);
  thread_.join();
  ::close(signal_pipe[0]);
  ::close(signal_pipe[1]);
}

}  // namespace lockstep
