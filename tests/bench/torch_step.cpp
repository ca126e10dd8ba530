#include "tests/bench/torch_step.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <stdexcept>

namespace lockstep::bench {

std::unique_ptr<TorchStep> TorchStep::start(const GptConfig& config, int batch, bool compiled) {
  std::array<int, 2> down{}, up{};
  if (::pipe(down.data()) != 0 || ::pipe(up.data()) != 0)
    throw std::runtime_error("can't make a pipe");
  const std::string layers = std::to_string(config.layers), hidden = std::to_string(config.hidden),
                    heads = std::to_string(config.heads),
                    sequence = std::to_string(config.sequence),
                    vocabulary = std::to_string(config.vocabulary), size = std::to_string(batch);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("can't start python3");
  if (child == 0) {
    ::dup2(down[0], STDIN_FILENO);
    ::dup2(up[1], STDOUT_FILENO);
    for (const int fd : {down[0], down[1], up[0], up[1]}) ::close(fd);
    ::execlp("python3", "python3", LOCKSTEP_SOURCE_DIR "/tests/bench/torch_step.py", layers.c_str(),
             hidden.c_str(), heads.c_str(), sequence.c_str(), vocabulary.c_str(), size.c_str(),
             name_of(config.dtype), compiled ? "compiled" : "eager", nullptr);
    ::_exit(127);
  }
  ::close(down[0]);
  ::close(up[1]);
  std::unique_ptr<TorchStep> torch{
      new TorchStep{child, ::fdopen(down[1], "w"), ::fdopen(up[0], "r")}};
  if (!torch->read_line(torch->version_)) return nullptr;  // it printed the reason to stderr
  return torch;
}

TorchStep::TorchStep(pid_t process, std::FILE* to, std::FILE* from)
    : process_(process), to_(to), from_(from) {
  ::signal(SIGPIPE, SIG_IGN);
}

TorchStep::~TorchStep() {
  std::fclose(to_);  // the process exits when its input ends
  std::fclose(from_);
  ::waitpid(process_, nullptr, 0);
}

bool TorchStep::read_line(std::string& line) {
  line.clear();
  for (int c = std::fgetc(from_); c != EOF; c = std::fgetc(from_)) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
  }
  return false;
}

double TorchStep::step() {
  std::fputs("step\n", to_);
  std::fflush(to_);
  std::string seconds;
  if (!read_line(seconds)) throw std::runtime_error("PyTorch's process has ended");
  return std::stod(seconds);
}

}  // namespace lockstep::bench
