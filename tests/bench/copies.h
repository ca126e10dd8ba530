#pragma once

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/transport/control.h"
#include "tests/bench/side_by_side.h"
#include "tests/support/copies_checks.h"

/// Alternates training steps of data parallelism or ZeRO on two ranks with steps of another
/// technique on the same ranks. Works for ranks in threads and in processes.
namespace lockstep::bench {

/// The model to train, with `batch` sequences per rank.
struct CopiesWork {
  const char* name;
  GptConfig model;
  int batch;
  bool bound;  ///< whether compute exceeds communication; only then do the requirements apply
  const char* what;
};

/// A model in which compute exceeds communication, and the lessons' own model.
inline const std::vector<CopiesWork>& copies_works() {
  static const std::vector<CopiesWork> works{
      {"h128",
       {.layers = 4, .hidden = 128, .heads = 4, .sequence = 64, .vocabulary = 256},
       16,
       true,
       "4 layers of h = 128, 16 x 64 tokens a rank"},
      {"h64", GptConfig{}, 12, false, "the lessons' model: 8 layers of h = 64, 12 x 64 tokens"}};
  return works;
}

inline Options two_copies(const CopiesWork& work) {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::dp, 2));
  set_model(options.plan, work.model);
  options.plan.batch.microbatches = 1;
  options.plan.batch.sequences = 2 * work.batch;
  options.plan.optimizer.clip = 0;
  options.output.trace = "none";
  return options;
}

/// Bucket size in bytes, as in the lessons.
constexpr std::int64_t copies_bucket = 50'000;

/// An independent copy that trains on its rank's share without communication.
class Alone {
 public:
  Alone(Rank& rank, const Options& options)
      : rank_(rank),
        options_(options),
        model_(options.plan.model(), rank.device, StageLayers::whole(options.plan.model()),
               options.plan.seed),
        optimizer_(model_.parameters(), rank.device, options.plan.optimizer) {}

  void step(const Corpus& corpus, int step) {
    model_.zero_gradients();
    accumulate_gradients(model_, corpus.batch(options_.plan.seed, step,
                                              {.microbatches = 1,
                                               .size = options_.plan.batch.sequences / rank_.count,
                                               .replicas = rank_.count,
                                               .replica = rank_.id}));
    optimizer_.step();
  }

 private:
  Rank& rank_;
  const Options& options_;
  Gpt model_;
  AdamW optimizer_;
};

/// One rank's time for a turn, in seconds.
struct TurnTime {
  double wall = 0;
  double processor = 0;  ///< CPU time of the whole process, all threads
};

inline TurnTime turn_time(const std::function<void()>& work) {
  const auto processor = [] {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
  };
  const double before = processor();
  const double wall = seconds_of(work);
  return {wall, processor() - before};
}

/// Rank 0's measurements of two ways to train, which alternate on the same ranks.
struct Compared {
  /// A turn ends when the last rank has finished its step. Ranks that sum their gradients wait for
  /// any rank that other programs keep off its core; independent copies do not wait. Because a turn
  /// lasts until the slowest rank is done, the remaining difference between the two sides is the
  /// cost of communication.
  SideBySide sides;
  /// The same comparison, computed from the sum of the ranks' rates. On an otherwise idle machine,
  /// the two comparisons agree.
  SideBySide by_rates;
  double processor_ratio = 0;  ///< our CPU time over the other side's
};
/// Calls `ours` and `other` with the step number. Each turn is one step, and all ranks start the
/// step together.
inline Compared compare_steps(Rank& rank, int rounds, const std::function<void(int)>& ours,
                              const std::function<void(int)>& other) {
  std::vector<TurnTime> times;
  int step = 0;
  const auto turn = [&](const std::function<void(int)>& side) {
    rank.world.barrier().wait();
    times.push_back(turn_time([&] { side(step); }));
  };
  for (int round = 0; round < 2; ++round) {  // warm-up
    ours(step);
    other(step);
  }
  for (int round = 0; round < rounds; ++round, ++step) {
    const bool first = round % 2 == 0;
    turn(first ? ours : other);
    turn(first ? other : ours);
    if (!first) std::swap(times[times.size() - 2], times.back());
  }
  std::string mine(times.size() * sizeof(TurnTime), '\0');
  std::memcpy(mine.data(), times.data(), mine.size());
  std::vector<TurnTime> together(times.size());  // wall: sum of all ranks' rates
  std::vector<double> most(times.size());
  for (const std::string& bytes : gather_to_root(*rank.transport, mine)) {
    std::memcpy(times.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      together[i].wall += 1 / times[i].wall;
      together[i].processor += times[i].processor;
      most[i] = std::max(most[i], times[i].wall);
    }
  }
  Compared compared;
  std::vector<double> processor;
  for (std::size_t i = 0; i + 1 < times.size() && rank.id == 0; i += 2) {
    compared.by_rates.add(rank.count / together[i].wall, rank.count / together[i + 1].wall);
    compared.sides.add(most[i], most[i + 1]);
    processor.push_back(together[i].processor / together[i + 1].processor);
  }
  compared.processor_ratio = median(processor);
  return compared;
}

/// Compares overlapped data parallelism to two independent copies.
inline Compared overlap_against_alone(Rank& rank, const CopiesWork& work, int rounds) {
  const Options options = two_copies(work);
  const Corpus corpus = testing::copies_corpus(options.plan.model());
  testing::Copies replicas{rank, options, testing::Scheme::overlap, copies_bucket};
  Alone alone{rank, options};
  return compare_steps(
      rank, rounds,
      [&](int step) {
        replicas.backward(corpus, step);
        replicas.update();
      },
      [&](int step) { alone.step(corpus, step); });
}

/// Compares ZeRO-3 (prefetch 1) to overlapped data parallelism.
inline Compared zero_3_against_overlap(Rank& rank, const CopiesWork& work, int rounds) {
  const Options options = two_copies(work);
  const Corpus corpus = testing::copies_corpus(options.plan.model());
  testing::Copies sharded{rank, options, testing::Scheme::zero_3, copies_bucket, 1};
  testing::Copies replicas{rank, options, testing::Scheme::overlap, copies_bucket};
  const auto step_of = [&](testing::Copies& copies) {
    return [&](int step) {
      copies.backward(corpus, step);
      copies.update();
    };
  };
  return compare_steps(rank, rounds, step_of(sharded), step_of(replicas));
}

/// Reports a row of the table: our speed relative to the other side's.
inline void report_speed(benchmark::State& state, const Compared& compared, double at_least,
                         const std::string& what) {
  report(state, compared.sides, at_least, what);
  state.counters["by_rates"] = median(compared.by_rates.speeds());
  state.counters["processor"] = compared.processor_ratio;
}
/// Reports a row of the table: our time relative to the other side's.
inline void report_time(benchmark::State& state, const Compared& compared, double at_most,
                        const std::string& what) {
  report_speed(state, compared, 0, what);
  const auto times_of = [](const SideBySide& sides) {
    std::vector<double> times = sides.speeds();
    for (double& each : times) each = 1 / each;
    return times;
  };
  const std::vector<double> times = times_of(compared.sides);
  state.counters["value"] = median(times);
  state.counters["low"] = quantile(times, 0.25);
  state.counters["high"] = quantile(times, 0.75);
  state.counters["by_rates"] = median(times_of(compared.by_rates));
  if (at_most > 0) state.counters["at_most"] = at_most;
}

/// A comparison, and the bound that it must meet if compute exceeds communication.
struct Comparison {
  const char* name;
  Compared (*run)(Rank&, const CopiesWork&, int rounds);
  void (*report)(benchmark::State&, const Compared&, double bound, const std::string& what);
  double bound;
  const char* what;
};
constexpr Comparison copies_comparisons[] = {
    {"dp", overlap_against_alone, report_speed, 0.95,
     "DP with overlap, times as fast as 2 independent copies"},
    {"zero_3", zero_3_against_overlap, report_time, 1.1,
     "ZeRO-3 with prefetch, its time over DP's with overlap"}};

/// Registers all comparisons. `on_ranks` calls its argument on every rank of a run with the given
/// options, and returns an error message or "".
template <class OnRanks>
void add_copies(const std::string& launch, int rounds, OnRanks on_ranks) {
  for (const CopiesWork& work : copies_works())
    for (const Comparison& comparison : copies_comparisons) {
      const bool bound = work.bound;
      add(fmt::format("{}_{}_{}", comparison.name, launch, work.name),
          [=](benchmark::State& state) {
            Compared compared;
            const std::string wrong = on_ranks(two_copies(work), [&](Rank& rank) {
              Compared mine = comparison.run(rank, work, rounds);
              if (rank.id == 0) compared = std::move(mine);
            });
            if (!wrong.empty()) return state.SkipWithError(wrong.c_str());
            comparison.report(state, compared, bound ? comparison.bound : 0,
                              fmt::format("{} ({})", comparison.what, work.what));
          });
    }
}

}  // namespace lockstep::bench
