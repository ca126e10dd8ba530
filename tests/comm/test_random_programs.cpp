#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <mutex>

#include "tests/comm/random_programs.h"
#include "tests/support/portion.h"
#include "tests/support/ranks.h"
#include "tests/support/watchdog.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

constexpr const char* devices[] = {"cpu", "meta"};

Options options_of(const Program& program, const char* device) {
  Options options = modelled_options(program.ranks);
  options.platform.device = device;
  return options;
}

}  // namespace

TEST_CASE("random programs without a deadlock: the detector is silent, the values are right") {
  const unsigned programs = portion_of(2000U, 600U);
  for (unsigned seed = 1; seed <= programs; ++seed) {
    const Program program = random_program((seed + 1) / 2);
    ThreadRun run{options_of(program, devices[seed % 2])};
    const Watchdog watchdog{run.fabric, 60};
    const std::string failure = run([&](Rank& rank) { Player{rank, program}.play(); });
    CHECK_MESSAGE(failure == "", "seed ", seed, ": ", failure);
  }
}

namespace {

enum class Fault { throws, throws_in_kernel, stalls, leaves_out, other_size, strided };

/// A random fault that affects one rank just before one of its steps.
struct Struck {
  Fault fault;
  int rank;
  std::size_t step;
};

Struck random_fault(const Program& program, unsigned seed) {
  std::mt19937 random{seed ^ 0x5eed};
  while (true) {
    const Struck struck{static_cast<Fault>(random() % 6),
                        static_cast<int>(random() % static_cast<unsigned>(program.ranks)),
                        random() % program.steps.size()};
    const Step& step = program.steps[struck.step];
    if (!program.takes_part(struck.rank, step)) continue;
    const bool sized = step.kind != Step::Kind::barrier;
    if (sized || (struck.fault != Fault::other_size && struck.fault != Fault::strided))
      return struck;
  }
}

std::optional<Step> strike(Fault fault, const Step& step, Rank& rank, ThreadRun& run,
                           Player& player) {
  switch (fault) {
    case Fault::throws:
      throw std::runtime_error("out of luck");
    case Fault::throws_in_kernel:
      if (rank.memory.device() == DeviceKind::meta)  // the meta device runs no kernels
        throw std::runtime_error("out of luck");
      rank.compute.launch({.name = "kernel"}, {}, [](const Kernels&, const Queue&) {
        throw std::runtime_error("out of luck");
      });
      return step;
    case Fault::stalls:
      run.sleep_until_failure();
      return {};
    case Fault::leaves_out:
      return {};
    case Fault::other_size: {
      Step other = step;
      ++other.elements;
      return other;
    }
    case Fault::strided: {
      std::vector<float> values(8);
      const View columns = View{values.data(), {2, 4}}.columns(0, 2);
      player.group(step).all_reduce(columns).wait();
      return step;
    }
  }
  return step;
}

bool names(const std::string& failure, int rank) {
  const std::string name = fmt::format("rank {}", rank);  // all ranks have one digit
  return failure.find(name) != std::string::npos;
}

}  // namespace

namespace {

/// Injects one fault into a random program. Returns "" if the run ended as expected, or else a
/// description of the error.
std::string wrong_with(unsigned seed, const char* device, Fault& fault) {
  const Program program = random_program(seed + 5000);
  const Struck struck = random_fault(program, seed);
  fault = struck.fault;
  const bool stalls = struck.fault == Fault::stalls;
  ThreadRun run{options_of(program, device), stalls ? 0.6 : 60};
  std::vector<std::int64_t> recorded(run.ranks.size());
  std::string failure;
  {
    const Watchdog watchdog{run.fabric, 10};
    failure = run([&](Rank& rank) {
      Player player{rank, program};
      try {
        player.play([&](std::size_t i) -> std::optional<Step> {
          if (rank.id != struck.rank || i != struck.step) return program.steps[i];
          recorded[static_cast<std::size_t>(rank.id)] = rank.trace.span_count();
          return strike(struck.fault, program.steps[i], rank, run, player);
        });
      } catch (const std::runtime_error& error) {
        // If a rank skips a step, another rank may receive the values of the wrong message.
        if (std::string{error.what()}.find("other values") == std::string::npos) throw;
      }
    });
  }
  std::string wrong;
  const auto expected = stalls ? fmt::format("rank {} has stalled", struck.rank)
                        : struck.fault <= Fault::throws_in_kernel
                            ? fmt::format("rank {}: out of luck", struck.rank)
                            : "";
  if (!names(failure, struck.rank) || failure.find("watchdog") != std::string::npos ||
      failure.find(expected) == std::string::npos)
    wrong = fmt::format("seed {} on {}, fault {} on rank {}: {}\n", seed, device,
                        static_cast<int>(fault), struck.rank, failure);
  for (auto& rank : run.ranks) {
    const auto events = rank->trace.drain();
    const auto spans = std::count_if(events.begin(), events.end(), [](const TraceEvent& event) {
      return event.kind == TraceEvent::Kind::span;
    });
    if (spans != rank->trace.span_count() || spans < recorded[static_cast<std::size_t>(rank->id)])
      wrong += fmt::format("seed {}: rank {} has lost spans\n", seed, rank->id);
  }
  return wrong;
}

}  // namespace

TEST_CASE("random faults: no run hangs, the error names the rank, and no span is lost") {
  const unsigned faults = portion_of(400U, 150U);
  std::atomic<unsigned> next = 1;
  std::mutex mutex;
  std::string wrong;
  std::array<int, 6> by_kind{};
  std::vector<std::thread> threads;  // stalled runs sleep in parallel
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (unsigned seed = next++; seed <= faults; seed = next++) {
        Fault fault{};
        const std::string mine = wrong_with(seed / 2, devices[seed % 2], fault);
        std::lock_guard lock{mutex};
        wrong += mine;
        ++by_kind[static_cast<std::size_t>(fault)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == "");
  for (const int count : by_kind) CHECK(count > static_cast<int>(faults / 30));
}
