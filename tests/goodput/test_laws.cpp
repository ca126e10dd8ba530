// Laws of the simulation, with random failures.

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "lessons/20_when_ranks_die/goodput/quorum.h"
#include "lessons/20_when_ranks_die/goodput/restarts.h"
#include "lessons/20_when_ranks_die/goodput/spares.h"
#include "lessons/20_when_ranks_die/goodput/strategy.h"
#include "tests/support/portion.h"

using namespace lockstep;

namespace {

Job random_job(std::mt19937& random) {
  const auto up_to = [&](Microseconds most) {
    return std::uniform_int_distribution<Microseconds>{0, most}(random);
  };
  Job job;
  job.replicas = static_cast<int>(1 + up_to(4));
  job.ranks = job.replicas * static_cast<int>(1 + up_to(3));
  job.step = 1 + up_to(1'000'000);
  job.interval = 1 + up_to(20);
  job.steps = 1 + up_to(400);
  job.pause = up_to(2'000'000);
  job.hidden = up_to(3) == 0 ? up_to(30'000'000) : 0;
  job.write = up_to(40'000'000);
  job.detect = up_to(1'000'000);
  job.restart = up_to(10'000'000);
  job.restart_from_disk = up_to(20'000'000);
  job.replace = up_to(30'000'000);
  job.heal = up_to(2'000'000);
  job.spares = static_cast<int>(up_to(3));
  job.repair = up_to(20'000'000);
  return job;
}

GoodputRequest textbook() {
  GoodputRequest request;
  request.device_mtbf = 50677 * 3600.0;
  request.step = 6;
  request.checkpoint = 60;
  request.detect = 60;
  request.restart = 540;
  request.snapshot = 1;
  request.reload = 180;
  request.write = 300;
  request.replace = 600;
  request.heal = 30;
  request.takeover = 60;
  request.repair = 86400;
  return request;
}

}  // namespace

TEST_CASE("every microsecond belongs to one part, and all steps are done once") {
  std::mt19937 random{5};
  for (int i = 0; i < testing::portion_of(20'000, 2'000); ++i) {
    const Job job = random_job(random);
    const double mean = seconds_of(job.step + job.restart + job.interval * job.step) *
                        std::uniform_real_distribution{0.7, 20.0}(random);
    const FailureLaw law{.mean = mean};
    const Failures failures{law, job.ranks, 7, static_cast<std::uint32_t>(i)};
    CAPTURE(i);
    for (const auto strategy : {with_restarts, with_peer_memory, with_spares, with_quorum}) {
      const Account account = strategy(job, failures);
      REQUIRE(account.sum() == account.total);
      if (!account.finished) continue;
      REQUIRE(account.steps == job.steps);
      REQUIRE(account.useful + account.absent == job.steps * job.step);
      REQUIRE(account.checkpoint == (job.steps + job.interval - 1) / job.interval * job.pause);
      for (const Microseconds part :
           {account.useful, account.absent, account.checkpoint, account.lost, account.detection,
            account.recovery, account.waiting})
        REQUIRE(part >= 0);
      if (account.failures == 0) REQUIRE(account.total == account.useful + account.checkpoint);
    }
  }
}

TEST_CASE("the simulation agrees with the formulas within 2 % if their assumptions hold") {
  // Exponential failures, long runs, checkpoints that can be used at once, spares that never run
  // out, replicas of which not all are lost; failures may be as frequent as one per restart.
  GoodputRequest request = textbook();
  request.spares = 1'000'000;
  for (const int ranks : {8, 64, 512, 4096, 16384, 131072})
    for (const double checkpoint : {5.0, 60.0, 600.0})
      for (const double restart : {0.0, 600.0})
        for (const double factor : {0.25, 1.0, 4.0}) {
          request.checkpoint = checkpoint;
          request.restart = restart;
          const auto best = interval_for(request, Strategy::restart, ranks);
          const auto interval =
              std::max<std::int64_t>(1, std::llround(factor * static_cast<double>(best)));
          for (const Strategy strategy : {Strategy::restart, Strategy::spares}) {
            const Simulated result = simulate(request, strategy, ranks, interval);
            if (!result.all.finished) continue;  // below 1 %
            CAPTURE(ranks);
            CAPTURE(checkpoint);
            CAPTURE(restart);
            CAPTURE(interval);
            CHECK(result.all.goodput() ==
                  doctest::Approx(predicted(request, strategy, ranks, interval)).epsilon(0.02));
          }
        }
  request = textbook();
  for (const int ranks : {8, 64, 512, 4096, 16384})
    for (const Strategy strategy : {Strategy::memory, Strategy::quorum}) {
      const auto interval = interval_for(request, strategy, ranks);
      CAPTURE(ranks);
      CHECK(simulate(request, strategy, ranks, interval).all.goodput() ==
            doctest::Approx(predicted(request, strategy, ranks, interval)).epsilon(0.02));
    }
}

TEST_CASE("a job waits for spares as often as more devices are in repair than there are spares") {
  // Failures arrive at random, and each device is in repair for a fixed time, so the number in
  // repair is Poisson distributed, with mean repair/M (Palm's theorem, for queues M/G/∞).
  GoodputRequest request = textbook();
  const double mean = request.repair / (request.device_mtbf / 16384);
  for (const int spares : {4, 8, 12}) {
    double probability = std::exp(-mean), at_most = probability;
    for (int i = 1; i <= spares; ++i) at_most += probability *= mean / i;
    request.spares = spares;
    const Account all = simulate(request, Strategy::spares, 16384, 3600).all;
    CAPTURE(spares);
    // The detection of a failure takes time that would otherwise be waiting.
    const double waiting =
        static_cast<double>(all.waiting + all.detection) / static_cast<double>(all.total);
    CHECK(waiting == doctest::Approx(1 - at_most).epsilon(0.05));
  }
}

TEST_CASE("goodput falls with ranks and with every cost") {
  const GoodputRequest request = textbook();
  for (const Strategy strategy : {Strategy::restart, Strategy::memory, Strategy::quorum}) {
    double before = 1;
    for (const int ranks : {64, 512, 4096, 16384}) {
      const double goodput =
          simulate(request, strategy, ranks, interval_for(request, strategy, ranks)).all.goodput();
      CHECK(goodput < before);
      before = goodput;
    }
  }
  const auto goodput = [](double GoodputRequest::*member, double value) {
    GoodputRequest changed = textbook();
    changed.*member = value;
    return simulate(changed, Strategy::restart, 16384, 186).all.goodput();
  };
  const double usual = simulate(request, Strategy::restart, 16384, 186).all.goodput();
  CHECK(goodput(&GoodputRequest::checkpoint, 120) < usual);
  CHECK(goodput(&GoodputRequest::restart, 900) < usual);
  CHECK(goodput(&GoodputRequest::detect, 300) < usual);
  CHECK(goodput(&GoodputRequest::hidden, 300) < usual);
  CHECK(goodput(&GoodputRequest::device_mtbf, 4e8) > usual);
}

TEST_CASE("a run is determined by its seed and number") {
  GoodputRequest request = textbook();
  request.steps = 20'000;
  request.runs = 3;
  const auto total = [&] { return simulate(request, Strategy::restart, 16384, 186).all.total; };
  const Microseconds first = total();
  CHECK(total() == first);
  request.seed = 2;
  CHECK(total() != first);
  const FailureLaw law{.mean = 100};
  CHECK(Failures{law, 8, 1, 0}.next() == Failures{law, 8, 1, 0}.next());
  CHECK(Failures{law, 8, 1, 0}.next() != Failures{law, 8, 1, 1}.next());
}

TEST_CASE("intervals have the mean and the shape of their law") {
  const auto laws = {FailureLaw{.mean = 100},
                     FailureLaw{.law = Law::weibull, .mean = 100, .shape = 0.7},
                     FailureLaw{.law = Law::weibull, .mean = 100, .shape = 2},
                     FailureLaw{.law = Law::uniform, .low = 80, .high = 120}};
  // The share of intervals longer than half the mean: e^-(Γ(1+1/k)/2)^k; Γ(1+1/0.7) = 1.265823506,
  // and Γ(1.5) = √π/2.
  const double longer[] = {std::exp(-0.5), std::exp(-std::pow(1.265823506 / 2, 0.7)),
                           std::exp(-std::pow(std::sqrt(std::acos(-1.0)) / 4, 2)), 1};
  int which = 0;
  for (const FailureLaw& law : laws) {
    Failures failures{law, 4, 3, 0};
    constexpr int count = 200'000;
    int long_ones = 0;
    int of_rank[4] = {};
    Microseconds before = 0;
    for (int i = 0; i < count; ++i) {
      const Failure failure = failures.take();
      long_ones += failure.time - before > 50'000'000 ? 1 : 0;
      ++of_rank[failure.rank];
      before = failure.time;
    }
    CAPTURE(which);
    CHECK(seconds_of(before) / count == doctest::Approx(100).epsilon(0.01));
    CHECK(law.mean_seconds() == 100);
    CHECK(1.0 * long_ones / count == doctest::Approx(longer[which++]).epsilon(0.01));
    for (const int each : of_rank) CHECK(each == doctest::Approx(count / 4).epsilon(0.02));
  }
}
