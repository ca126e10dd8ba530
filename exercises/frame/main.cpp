// The main function of every exercise's check. With --report, the program tells its verdict to the
// supervisor (exercises/supervise), which judges and starts the processes of --launch mpi. Without
// --report, it prints its verdict. Exit codes: report.h.

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string_view>

#include "core/base/error.h"
#include "core/base/print.h"
#include "core/base/printable.h"
#include "core/comm/mpi/environment.h"
#include "exercises/frame/ranks.h"
#include "exercises/frame/report.h"

using namespace lockstep;
using namespace lockstep::exercises;

namespace {

struct Verdict {
  int code = right_code;
  std::string text;
};

/// `trace` is the folder for the trace of the run that the check shows; "" for no trace.
Verdict verdict_of_check(Ranks& ranks, Reporter& reporter, std::uint64_t seed,
                         const std::string& trace) {
  const auto wrong = [seed](const std::string& what, const std::string& why) {
    return Verdict{wrong_code, fmt::format("{}\n\n{}(the same numbers again: --seed {})", what,
                                           why.empty() ? why : why + "\n\n", seed)};
  };
  Check trial{ranks, reporter, seed};
  try {
    check(trial);
  } catch (const NotWritten&) {
    return {not_written_code, "not written yet"};
  } catch (const Wrong& error) {
    if (trial.used_early().empty()) return wrong(error.what(), error.why);
    return wrong(fmt::format("{}\n\nThis was computed with numbers that {} had not yet left there.",
                             error.what(), trial.used_early()),
                 why_early);
  } catch (const UsageError&) {
    throw;
  } catch (const abi::__forced_unwind&) {
    reporter.give_verdict(wrong_code, "The answer calls pthread_exit().");
    throw;
  } catch (...) {
    const std::string& where = trial.current_case();
    return wrong((where.empty() ? "" : where + ": ") + text_of_exception(),
                 "This exception has ended your function.");
  }
  std::string text = fmt::format("{} are right. {}", count_of(trial.cases(), "case"), learned);
  if (!trial.picture().text.empty())
    text += fmt::format("\n\n{}\n\n{}", trial.caption(), trial.picture().text);
  // runs/exercise_15_1f1b is titled "exercise_15_1f1b", as a lesson's run has the lesson's name.
  if (!trace.empty()) write_trace(trial.picture(), std::filesystem::path{trace}.filename(), trace);
  return {right_code, text};
}

int conclude(Reporter& reporter, const Verdict& verdict) {
  if (reporter.has_supervisor())
    reporter.give_verdict(verdict.code, verdict.text);
  else
    fmt::print("{}\n", verdict.text);
  return verdict.code;
}

#ifdef LOCKSTEP_HAS_MPI
/// Runs the check in one of the processes that mpirun has started. All come to the same verdict,
/// unless a body fails.
int run_process(Reporter& reporter, std::uint64_t seed, const std::string& device,
                const std::string& trace) {
  std::unique_ptr<Ranks> ranks = mpi_ranks(device, reporter);
  const bool first = mpi_rank_from_environment() == 0;
  const Verdict verdict = verdict_of_check(*ranks, reporter, seed, first ? trace : "");
  if (verdict.code == right_code) {
    ranks.reset();  // ends MPI, together with all ranks
    return conclude(reporter, verdict);
  }
  // Other ranks may still be waiting for this one, so MPI can't be shut down cleanly.
  std::_Exit(conclude(reporter, verdict));
}
#endif

}  // namespace

/// Read by the address sanitizer: MPI leaves memory allocated at its end, and an answer must not
/// take all of the machine's. Freed memory is kept from reuse for a while (the quarantine), but
/// less of it than usual, because a check may need much memory itself.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:detect_stack_use_after_return=1:hard_rss_limit_mb=2000:"
         "max_allocation_size_mb=2000:quarantine_size_mb=32";
}

int main(int argc, char** argv) {
  std::uint64_t seed = std::random_device{}();
  bool mpi = false;
  std::string device = "cpu", trace, report;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--seed" && !value.empty()) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--launch" && (value == "mpi" || value == "threads")) {
      mpi = value == "mpi";
      ++i;
    } else if (flag == "--device" && (value == "cpu" || value == "cuda")) {
      device = value;
      ++i;
    } else if (flag == "--trace" && !value.empty()) {
      trace = argv[++i];
    } else if (flag == "--report" && !value.empty()) {
      report = argv[++i];
    } else {
      fmt::print(stderr,
                 "unknown flag '{}'; there are --seed N, --launch threads|mpi, --device cpu|cuda, "
                 "--trace DIR\n",
                 flag);
      return refused_code;
    }
  }
  Reporter reporter{report, mpi ? mpi_rank_from_environment() : 0, mpi ? most_ranks : 1};
  try {
#ifdef LOCKSTEP_HAS_MPI
    if (mpi && under_mpi()) return run_process(reporter, seed, device, trace);
#endif
    if (mpi) throw UsageError("--launch mpi needs the supervisor: exercises/supervise");
    const std::unique_ptr<Ranks> ranks = thread_ranks(device);
    return conclude(reporter, verdict_of_check(*ranks, reporter, seed, trace));
  } catch (const UsageError& error) {
    if (!reporter.has_supervisor()) print_error("{}\n", one_line(error.what()));
    reporter.give_verdict(refused_code, error.what());
    return refused_code;
  }
}
