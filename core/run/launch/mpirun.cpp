#include "core/run/launch/mpirun.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/child_process.h"
#include "core/base/error.h"
#include "core/base/token.h"
#include "core/run/launch/loopback.h"
#include "core/run/launch/mpirun_log.h"

namespace lockstep {

namespace {

/// mpirun and its arguments. When a rank fails, OpenMPI 4.1 sends SIGCONT to the others on its
/// host, then SIGTERM, and then SIGKILL. Before each of the last two, it waits until one of these
/// ranks has ended, or for odls_base_sigkill_timeout seconds. On SIGTERM the ranks report their
/// last operations and end their traces. (SIGCONT does not tell them of a failure: mpirun also
/// sends it when it has been stopped and continues.)
std::vector<std::string> command(int ranks, const HostChoice& hosts, int argc, char** argv) {
  char self[4096];
  const ssize_t size = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (size <= 0) throw RunError("can't find this program's executable");
  self[size] = '\0';

  std::vector<std::string> words;
  if (is_one_host(hosts)) words = preload_loopback();
  const bool preloads = !words.empty();  // preload into mpirun, but not into the ranks
  for (const char* word : {"mpirun", "--oversubscribe", "--bind-to", "none", "--mca",
                           "odls_base_sigkill_timeout", "1", "-n"})
    words.emplace_back(word);
  words.push_back(std::to_string(ranks));
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  for (const std::string& word : hosts.arguments()) words.push_back(word);
  // Remote hosts receive only the variables named here; this host inherits the whole environment.
  for (const char* variable :
       {"LOCKSTEP_RUN", "LOCKSTEP_CONSOLE", "LOCKSTEP_REPORTS", token_variable})
    if (hosts.any() && std::getenv(variable) != nullptr) {
      words.emplace_back("-x");
      words.emplace_back(variable);
    }
  if (preloads)
    for (const std::string& word : preload_own()) words.push_back(word);
  words.emplace_back(self);
  for (std::string& word : arguments_without({"--view-token", "--view-token-file"}, argc, argv))
    words.push_back(std::move(word));
  return words;
}

std::array<int, 2> new_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw RunError(
        fmt::format("can't start mpirun: {}{}", std::strerror(errno), limits_on_starting()));
  return ends;
}

}  // namespace

Mpirun start_mpirun(int ranks, const HostChoice& hosts, int argc, char** argv) {
  const std::vector<std::string> words = command(ranks, hosts, argc, argv);
  const std::vector<char*> arguments = pointers_to(words);
  log_rank_states();
  const auto errors = new_pipe(), output = new_pipe();
  // mpirun gets its own process group. Otherwise it would receive Ctrl-C twice, from the terminal
  // and from this process, and at the second one it would kill the ranks before they have ended
  // their traces. Its stdin is /dev/null, because a background group may not read it.
  const pid_t child =
      start_process({.reads = false, .output = output[1], .errors = errors[1]}, [&] {
        ::setpgid(0, 0);
        ::execvp(arguments.front(), arguments.data());
        return 127;
      });
  if (child < 0) throw RunError(fmt::format("can't start mpirun: {}", std::strerror(errno)));
  ::close(errors[1]);
  ::close(output[1]);
  return {child, errors[0], output[0]};
}

void wait_for_input(std::initializer_list<int> descriptors, int milliseconds) {
  std::vector<pollfd> events;
  for (const int descriptor : descriptors) events.push_back({descriptor, POLLIN, 0});
  ::poll(events.data(), events.size(), milliseconds);
}

void PipeEnd::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

std::string PipeEnd::read() {
  pollfd event{descriptor_, POLLIN, 0};
  if (::poll(&event, 1, 0) <= 0) return {};
  std::string bytes(4096, '\0');
  const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
  if (count == 0 || (count < 0 && errno != EINTR)) close();
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

bool Lines::read(const std::function<void(const std::string&)>& take) {
  const std::string bytes = pipe_.read();
  text_ += bytes;
  if (pipe_.descriptor() < 0 && !text_.empty()) text_ += '\n';
  for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos;) {
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    while (line.ends_with('\r')) line.pop_back();
    take(line);
  }
  return !bytes.empty();
}

bool OutputCopy::copy() {
  const std::string bytes = pipe_.read();
  for (std::size_t done = 0; done < bytes.size() && failure_.empty();) {
    const ssize_t count = ::write(STDOUT_FILENO, bytes.data() + done, bytes.size() - done);
    if (count >= 0)
      done += static_cast<std::size_t>(count);
    else if (errno != EINTR)
      failure_ = std::strerror(errno);
  }
  return !bytes.empty();
}

}  // namespace lockstep
