// The main function of every exercise's check. Exit code 0: the answer is right, 4: it is wrong, 3:
// it has not been written (with --launch mpi, that is 4, too), 2: unknown flags.

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string_view>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/run/files/rank_message.h"
#include "core/run/launch/gpus.h"
#include "core/run/launch/launch.h"
#include "exercises/frame/ranks.h"

using namespace lockstep;
using namespace lockstep::exercises;

namespace {

constexpr int wrong_code = 4, not_written_code = 3;
constexpr const char* not_written_text = "not written yet";

struct Verdict {
  int code = 0;
  std::string text;
};

/// For the address sanitizer's report.
struct {
  const Check* check = nullptr;
  std::uint64_t seed = 0;
} running;

/// `trace` is the folder for the trace of the run that the check shows; "" if it is not wanted.
Verdict verdict_of(Ranks& ranks, std::uint64_t seed, const std::string& trace) {
  Check trial{ranks, seed};
  running = {&trial, seed};
  try {
    check(trial);
  } catch (const NotWritten&) {
    return {not_written_code, not_written_text};
  } catch (const Wrong& wrong) {
    return {wrong_code, fmt::format("{}\n\n{}\n\n(the same numbers again: --seed {})", wrong.what(),
                                    wrong.why, seed)};
  }
  std::string text = fmt::format("{} are right. {}", count_of(trial.cases(), "case"), learned);
  if (!trial.picture().text.empty())
    text += fmt::format("\n\n{}\n\n{}", trial.caption(), trial.picture().text);
  // runs/exercise_15_1f1b is titled "exercise_15_1f1b", as a lesson's run has the lesson's name.
  if (!trace.empty()) write_trace(trial.picture(), std::filesystem::path{trace}.filename(), trace);
  return {0, text};
}

#ifdef LOCKSTEP_HAS_MPI
/// Runs the check in one of the processes that mpirun has started. All come to the same verdict,
/// except if a body fails; the process that started them prints it once.
int run_process(std::uint64_t seed, const std::string& device, const std::string& trace) {
  const std::unique_ptr<Ranks> ranks = mpi_ranks(device);
  const int id = mpi_rank_from_environment();
  const Verdict verdict = verdict_of(*ranks, seed, id == 0 ? trace : "");
  if (verdict.code == 0) {
    if (id == 0) fmt::print("{}\n", verdict.text);
    return 0;
  }
  write_message({RankMessage::Kind::usage_error, id, host_name(), verdict.text});
  // Other ranks may still wait for this one, so that MPI can't be ended in order.
  std::_Exit(2);
}
#endif

}  // namespace

/// Read by the address sanitizer: MPI leaves memory allocated at its end, and a loop that never
/// ends and appends to a vector must not take all of the machine's.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:detect_stack_use_after_return=1:hard_rss_limit_mb=2000";
}

/// Called by the address sanitizer when it has found an error, just before the process ends.
/// `./lockstep check` shows this line together with the line of the answer (exercises/check.sh).
extern "C" void __asan_on_error();
extern "C" void __asan_on_error() {
  if (running.check != nullptr && !running.check->current_case().empty())
    fmt::print(stderr, "the case: {} (the same numbers again: --seed {})\n",
               running.check->current_case(), running.seed);
}

int main(int argc, char** argv) {
  std::uint64_t seed = std::random_device{}();
  [[maybe_unused]] bool seed_given = false;
  bool mpi = false;
  std::string device = "cpu", trace;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--seed" && !value.empty()) {
      seed = std::strtoull(argv[++i], nullptr, 10);
      seed_given = true;
    } else if (flag == "--launch" && (value == "mpi" || value == "threads")) {
      mpi = value == "mpi";
      ++i;
    } else if (flag == "--device" && (value == "cpu" || value == "cuda")) {
      device = value;
      ++i;
    } else if (flag == "--trace" && !value.empty()) {
      trace = argv[++i];
    } else {
      fmt::print(stderr,
                 "unknown flag '{}'; there are --seed N, --launch threads|mpi, --device cpu|cuda, "
                 "--trace DIR\n",
                 flag);
      return 2;
    }
  }
  try {
#ifdef LOCKSTEP_HAS_MPI
    if (mpi && under_mpi()) return run_process(seed, device, trace);
    if (mpi) {
      // All processes need the same random numbers.
      std::string text = std::to_string(seed), name = "--seed";
      std::vector<char*> arguments(argv, argv + argc);
      if (!seed_given) arguments.insert(arguments.end(), {name.data(), text.data()});
      const int count = static_cast<int>(arguments.size());
      arguments.push_back(nullptr);
      find_mpirun();
      this_place(device == "cuda", /*local=*/0);  // refuses if there is no GPU
      const int code = run_under_mpirun(most_ranks, count, arguments.data());
      return code == 2 ? wrong_code : code;
    }
#endif
    if (mpi) throw UsageError("--launch mpi: Lockstep was built without MPI");
    const std::unique_ptr<Ranks> ranks = thread_ranks(device);
    const Verdict verdict = verdict_of(*ranks, seed, trace);
    fmt::print("{}\n", verdict.text);
    return verdict.code;
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
