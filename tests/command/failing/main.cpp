#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/run/bare_lesson.h"

using namespace lockstep;

namespace {

[[noreturn]] void go_on(bool compute) {
  volatile double sum = 0;
  while (true) {
    if (compute)
      for (int i = 0; i < 1000; ++i) sum = sum + 1;
    else
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
}

}  // namespace

// A lesson for tests: ranks meet at a barrier in each step, until one of them fails, in one of
// several ways, while the others are waiting for it, sleeping or computing.
int main(int argc, char** argv) {
  BareLesson lesson{{.name = "99 failing",
                     .question = "How does a run end?",
                     .steps = 1000000,
                     .microbatches = {1},
                     .axes = {Axis::dp}},
                    argc,
                    argv};
  const int& victim = lesson.flag("--victim", 2, "the rank that fails");
  const int& at = lesson.flag("--at", 3, "the step in which it fails");
  const bool& early = lesson.flag(
      "--early", false,
      "it throws or sleeps before the first step, while the others create another group");
  const auto& how =
      lesson.flag<std::string>("--how", "throw",
                               "throw, refuse, exit, crash, sleep, compute, kernel (which "
                               "ends), stop, stop-first (before MPI starts), stop-last (after the "
                               "last step), stop-after (after MPI has ended), or not");
  const double& seconds = lesson.flag("--seconds", 5.0, "how long that kernel takes");
  const bool& persist = lesson.flag(
      "--persist", false, "after a failure, ranks go on until their next operation fails");
  const auto& others =
      lesson.flag<std::string>("--others", "wait", "what others do then: wait, sleep, compute");

  const auto work = [&](Rank& rank) {
    const int channels = rank.transport->open_channels(Group::channels_taken);
    if (early && rank.id == victim) {
      if (how == "throw") throw std::runtime_error("its own words");
      if (how == "sleep") go_on(false);
    }
    std::optional<Group> another;
    if (early) {
      std::vector<int> all;
      for (int i = 0; i < rank.count; ++i) all.push_back(i);
      another.emplace(rank.endpoint, all, "another", channels);
    }
    for ([[maybe_unused]] const Batch& batch :
         lesson.batches(rank, lesson.phases().front(),
                        Predicted::without_memory("nothing is predicted here"))) {
      rank.compute.range({.name = "compute", .category = Category::forward},
                         [] { std::this_thread::sleep_for(std::chrono::milliseconds{2}); });
      if (rank.trace.step() == at && how != "not") {
        if (rank.id != victim && others != "wait") go_on(others == "compute");
        if (rank.id == victim && others != "wait")
          std::this_thread::sleep_for(std::chrono::milliseconds{100});
        if (rank.id == victim && how == "kernel")
          rank.compute.range({.name = "forward", .category = Category::forward}, [&] {
            rank.compute.launch({.name = "long"}, {}, [&](const Kernels&, Queue) {
              fmt::print("the kernel begins\n");
              std::fflush(stdout);
              std::this_thread::sleep_for(std::chrono::duration<double>{seconds});
            });
          });
        if (rank.id == victim && how == "throw") throw std::runtime_error("its own words");
        if (rank.id == victim && how == "refuse") throw UsageError("its own refusal");
        if (rank.id == victim && how == "exit") std::_Exit(1);
        if (rank.id == victim && how == "crash") std::raise(SIGSEGV);
        if (rank.id == victim && how == "stop") std::raise(SIGSTOP);
        if (rank.id == victim && (how == "sleep" || how == "compute")) go_on(how == "compute");
      }
      rank.world.barrier().wait();
    }
  };
  // Searches argv directly, because lessons parse their flags in run(), and the first of these
  // stops happens before that.
  const auto stops = [&](const std::string& when) {
    return std::find(argv, argv + argc, when) != argv + argc &&
           mpi_rank_from_environment() == victim && under_mpi();
  };
  if (stops("stop-first")) std::raise(SIGSTOP);
  const int code = lesson.run([&](Rank& rank) {
    try {
      work(rank);
      if (rank.id == victim && how == "stop-last") std::raise(SIGSTOP);
    } catch (const RunError&) {
      while (persist) Work ignored = rank.world.barrier();
      throw;
    }
  });
  if (stops("stop-after")) std::raise(SIGSTOP);
  return code;
}
