#include <doctest/doctest.h>

#include <chrono>
#include <latch>
#include <regex>

#include "tests/support/mismatches.h"
#include "tests/support/ranks.h"

// A rank that keeps others waiting for longer than the time-out is busy if it is computing;
// otherwise it has stalled.

using namespace lockstep;
using namespace lockstep::testing;
using std::chrono::steady_clock;

namespace {

constexpr double patience = 0.6;

/// A run with a short time-out, and the notices that it has issued. The last kernel of each test
/// ends by failing the run, so the short time-out does not apply to anything after that kernel.
struct ImpatientRun {
  explicit ImpatientRun(int ranks, const std::optional<ModelledTime>& modelled = ModelledTime{},
                        double pace = 0)
      : run(options_of(ranks, modelled, pace), patience,
            [this](const std::string& line) {
              std::lock_guard lock{mutex};
              notices.push_back({line, steady_clock::now()});
            }),
        everybody(ranks) {}

  /// Calls `body` on every rank once all have started. Returns the run's failure.
  std::string operator()(const std::function<void(Rank&)>& body) {
    return run([&](Rank& rank) {
      everybody.arrive_and_wait();
      body(rank);
    });
  }

  std::size_t count() {
    std::lock_guard lock{mutex};
    return notices.size();
  }
  /// Call this inside a kernel. Returns once there are `wanted` notices or the run has failed.
  void compute_until(std::size_t wanted) {
    const auto enough = steady_clock::now() + std::chrono::seconds{60};
    while (count() < wanted && run.fabric.failure().empty() && steady_clock::now() < enough)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  void kernel(Rank& rank, const char* name, const std::function<void()>& work) {
    rank.compute.launch({.name = name}, {}, [&](const Kernels&, Queue) { work(); });
  }
  void receive(Rank& rank, int from) {
    std::vector<float> values(5);
    rank.world.receive(view(values), from).wait();
  }

  struct Notice {
    std::string line;
    steady_clock::time_point at;
  };
  std::mutex mutex;
  std::vector<Notice> notices;
  ThreadRun run;
  std::latch everybody;

 private:
  static Options options_of(int ranks, const std::optional<ModelledTime>& modelled, double pace) {
    Options options = modelled_options(ranks);
    options.plan.modelled = modelled;
    options.platform.pace = pace;
    return options;
  }
};

const std::string over = "the test is over";

}  // namespace

TEST_CASE("stalls: a rank that computes beyond the time-out is busy, and a notice says so") {
  for (const auto& modelled : {std::optional{ModelledTime{}}, std::optional<ModelledTime>{}}) {
    ImpatientRun busy{3, modelled};
    const std::string failure = busy([&](Rank& rank) {
      if (rank.id < 2) return busy.receive(rank, rank.id + 1);  // 0 waits for 1, 1 waits for 2
      rank.compute.range({.name = "forward", .category = Category::forward}, [&] {
        busy.kernel(rank, "attention", [&] {
          busy.compute_until(2);
          busy.run.fabric.fail(over);
        });
      });
    });
    CHECK(failure == over);
    REQUIRE(busy.count() >= 2);
    const std::regex words{
        R"(rank 2 has been computing forward \(attention\) for [0-9]+\.[0-9] s; the others wait for it)"};
    for (const auto& each : busy.notices) {
      CAPTURE(each.line);
      CHECK(std::regex_match(each.line, words));
    }
    for (std::size_t i = 1; i < busy.notices.size(); ++i)  // at most one per time-out
      CHECK(busy.notices[i].at - busy.notices[i - 1].at >=
            std::chrono::duration<double>{0.9 * patience});
  }
}

TEST_CASE("stalls: a rank that launches many short kernels is busy") {
  ImpatientRun busy{2};
  const std::string failure = busy([&](Rank& rank) {
    if (rank.id == 0) return busy.receive(rank, 1);
    while (busy.count() < 2 && busy.run.fabric.failure().empty())
      busy.kernel(rank, "short", [] { std::this_thread::sleep_for(std::chrono::milliseconds{1}); });
    busy.kernel(rank, "last", [&] { busy.run.fabric.fail(over); });
  });
  CHECK(failure == over);
}

TEST_CASE("stalls: a collective waits for a rank that computes") {
  ImpatientRun busy{3};
  const std::string failure = busy([&](Rank& rank) {
    std::vector<float> values(8);
    if (rank.id == 1)
      busy.kernel(rank, "long", [&] {
        busy.compute_until(2);
        busy.run.fabric.fail(over);
      });
    rank.world.all_reduce(view(values)).wait();
  });
  CHECK(failure == over);
}

TEST_CASE("stalls: a rank that sleeps because of --pace has not stalled, and no notice is given") {
  // At this pace, one millisecond of modelled time takes 1.5 s.
  ImpatientRun paced{3, ModelledTime{{}, FixedTimes::parse("forward=1ms")}, 1e-3 / 1.5};
  const std::string failure = paced([&](Rank& rank) {
    if (rank.id < 2) return paced.receive(rank, rank.id + 1);
    rank.clock.start_pace();
    rank.compute.range({.name = "forward", .category = Category::forward}, [] {});
    paced.run.fabric.fail(over);
  });
  CHECK(failure == over);
  CHECK(paced.count() == 0);
}

TEST_CASE("stalls: a rank that sleeps after a kernel has stalled") {
  ImpatientRun stalled{3};
  const std::string failure = stalled([&](Rank& rank) {
    if (rank.id < 2) return stalled.receive(rank, rank.id + 1);
    stalled.kernel(rank, "short", [] {});
    stalled.run.sleep_until_failure();
  });
  CHECK(failure.starts_with("rank 2 has stalled"));
  CHECK(stalled.count() == 0);
}

TEST_CASE("stalls: a computing rank that no rank waits for does not hide a stalled rank") {
  ImpatientRun stalled{3};
  const std::string failure = stalled([&](Rank& rank) {
    if (rank.id == 0) return stalled.receive(rank, 1);
    if (rank.id == 1) return stalled.run.sleep_until_failure();
    stalled.kernel(rank, "long", [&] { stalled.run.sleep_until_failure(); });
  });
  CHECK(failure.starts_with("rank 1 has stalled"));
  CHECK(stalled.count() == 0);
}
