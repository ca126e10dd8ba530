// Runs the check of an exercise and judges the answer. An answer may print without end, fork, or
// end its process. So this program, which contains no answer, starts the check as another process,
// limits its time, its output and its processes, ends all of them, and accepts only a verdict that
// the check itself has confirmed (report.h).
//
//   supervise --source FILE --limit SECONDS PROGRAM [--launch mpi] [FLAGS]
//
// FILE is the answer, as messages name it. Prints the verdict, and exits with its code (report.h),
// or with 130 after Ctrl-C. With --launch mpi, mpirun starts this program once per rank, and each
// starts PROGRAM:
//
//   supervise --rank REPORTS OUTPUT PROGRAM FLAGS

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "core/base/error.h"
#include "core/base/program.h"
#include "core/comm/mpi/environment.h"
#include "core/run/files/rank_message.h"
#include "core/run/launch/launch.h"
#include "core/run/launch/processes.h"
#include "exercises/supervise/processes.h"
#include "exercises/supervise/verdict.h"

using namespace lockstep;
using namespace lockstep::exercises;

namespace {

using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string source;
  int seconds = 10;
  bool mpi = false;
  std::uint64_t seed = 0;
  Words program;  ///< and its flags
};

Settings parse(const Words& words) {
  Settings settings;
  auto word = words.begin();
  for (; word + 1 < words.end(); word += 2)
    if (*word == "--source")
      settings.source = word[1];
    else if (*word == "--limit")
      settings.seconds = std::stoi(word[1]);
    else
      break;
  settings.program.assign(word, words.end());
  if (settings.program.empty() || settings.seconds <= 0)
    throw UsageError("supervise --source FILE --limit SECONDS PROGRAM [FLAGS]");
  const auto value_of = [&](const char* flag) {
    const auto at = std::ranges::find(settings.program, flag);
    return at == settings.program.end() || at + 1 == settings.program.end() ? "" : at[1];
  };
  settings.mpi = value_of("--launch") == "mpi";
  settings.seed = std::random_device{}();
  if (const std::string given = value_of("--seed"); !given.empty())
    settings.seed = std::strtoull(given.c_str(), nullptr, 10);
  else  // all processes need the same random numbers
    settings.program.insert(settings.program.end(), {"--seed", std::to_string(settings.seed)});
  return settings;
}

void note_end(Report& report, int status) {
  report.status = status;
  report.end_time = Clock::now().time_since_epoch().count();
  report.has_ended = 1;
}

/// One rank under mpirun: starts the program, records how it ends, and ends the processes that it
/// leaves behind.
int run_rank(const std::string& reports_path, const std::string& output_path, Words program) {
  adopt_orphans();
  Reports reports{reports_path, most_ranks};
  const int output = ::open(output_path.c_str(), O_WRONLY | O_CLOEXEC);
  ::unsetenv(messages_variable);            // core then prints its messages for the user
  ::setenv("OMPI_MCA_opal_signal", "", 1);  // OpenMPI would print a stack at a signal
  program.insert(program.end(), {"--report", reports_path});
  const pid_t child = start(output, [&] { return become(program); });
  int status = 0;
  while (::waitpid(child, &status, WUNTRACED) != child) {
  }
  note_end(reports.all()[static_cast<std::size_t>(mpi_rank_from_environment())], status);
  end_descendants();
  return status == 0 ? 0 : 1;  // mpirun then ends the other ranks
}

/// Starts all ranks.
int launch(const std::string& reports_path, const std::string& output_path, const Words& program) {
  Words words{"supervise", "--rank", reports_path, output_path};
  words.insert(words.end(), program.begin(), program.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return run_program([&] {
    return run_under_mpirun(most_ranks, static_cast<int>(words.size()), arguments.data());
  });
}

/// Reads what has arrived, up to `most_output` bytes in total.
void read_into(Output& output, const Pipe& pipe) {
  char bytes[1 << 16];
  while (output.bytes() <= most_output) {
    const ssize_t count = ::read(pipe.read_end, bytes, sizeof bytes);
    if (count <= 0) return;
    output.take({bytes, static_cast<std::size_t>(count)});
  }
}

/// Returns a descriptor that becomes readable when a child ends or a signal interrupts this
/// process.
int watch_signals() {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  return ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool is_interrupted(int signals) {
  bool interrupted = false;
  signalfd_siginfo signal;
  while (::read(signals, &signal, sizeof signal) == sizeof signal)
    interrupted = interrupted || signal.ssi_signo != SIGCHLD;
  return interrupted;
}

/// Returns the status of `child` if it has ended or stopped. Reaps other children that have ended.
std::optional<int> end_of(pid_t child) {
  int status = 0;
  for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;)
    if (ended == child) return status;
  return {};
}

/// Asks the process that has started mpirun to end the run, and waits up to 3 s until it has.
void end_gently(pid_t launcher) {
  ::kill(launcher, SIGTERM);
  for (int i = 0; i < 300 && !end_of(launcher); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
}

int supervise(const Settings& settings) {
  adopt_orphans();
  Reports reports{settings.mpi ? most_ranks : 1};
  std::vector<std::uint64_t> keys;
  for (const Report& report : reports.all()) keys.push_back(report.key);
  const Pipe from_answer, from_launcher;
  Output printed{settings.source}, launched{""};
  const int signals = watch_signals();

  const std::string reports_path = reports.path(), output_path = from_answer.path();
  Words program = settings.program;
  if (!settings.mpi) program.insert(program.end(), {"--report", reports_path});
  const pid_t child = settings.mpi
                          ? start(from_launcher.write_end,
                                  [&] { return launch(reports_path, output_path, program); })
                          : start(from_answer.write_end, [&] { return become(program); });
  const auto deadline = Clock::now() + std::chrono::seconds{settings.seconds};
  auto why = Ended::by_itself;
  bool interrupted = false;
  std::optional<int> status;
  while (!status && why == Ended::by_itself && !interrupted) {
    std::array<pollfd, 3> events{{{from_answer.read_end, POLLIN, 0},
                                  {from_launcher.read_end, POLLIN, 0},
                                  {signals, POLLIN, 0}}};
    ::poll(events.data(), events.size(), 50);
    read_into(printed, from_answer);
    read_into(launched, from_launcher);
    interrupted = is_interrupted(signals);
    status = end_of(child);
    if (printed.bytes() > most_output)
      why = Ended::too_much_output;
    else if (descendants().size() > most_processes)
      why = Ended::too_many_processes;
    else if (!status && Clock::now() > deadline)
      why = Ended::too_late;
  }
  if (settings.mpi && !status) end_gently(child);
  if (!settings.mpi && status) note_end(reports.all().front(), *status);
  end_descendants();
  if (interrupted) return interrupted_code;
  read_into(printed, from_answer);
  read_into(launched, from_launcher);

  const Verdict verdict = verdict_of_reports(reports.all(), keys, why, printed, settings.seconds,
                                             settings.seed, settings.source);
  if (verdict.code == refused_code) {
    fmt::print("lockstep: {}\n{}", printable(verdict.text), launched.excerpt());
    return refused_code;
  }
  if (const std::string lines = printed.excerpt(); !lines.empty())
    fmt::print("--- your answer printed ---\n{}--- the verdict ---\n", lines);
  fmt::print("{} {}\n", verdict.code == right_code ? "✓" : "✗", printable(verdict.text));
  return verdict.code;
}

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  return run_program(
      [&] {
        if (words.size() > 3 && words.front() == "--rank")
          return run_rank(words[1], words[2], {words.begin() + 3, words.end()});
        return supervise(parse(words));
      },
      "lockstep: ");
}
