// Random stalls of 16 ranks: the analysis names exactly the ranks that stall in the simulation, and
// finds the same ranks blocked as the simulation does.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/flight_recorder/simulated_job.h"
#include "tests/support/portion.h"
#include "viz/read/flight_recorder/words.h"

using namespace lockstep;

namespace {

flight::Job read(const SimulatedJob& simulated, const std::set<int>& without = {}) {
  flight::Job job;
  for (int rank = 0; rank < SimulatedJob::ranks; ++rank)
    if (!without.contains(rank))
      job.dumps.push_back({rank, flight::read_dump(simulated.dump(rank))});
  return job;
}

std::set<int> named(const flight::Stall& stall) {
  std::set<int> ranks;
  for (const flight::Sink& sink : stall.sinks) ranks.insert(sink.ranks.begin(), sink.ranks.end());
  return ranks;
}

SimulatedJob::Style random_style(std::mt19937_64& random) {
  const auto coin = [&] { return random() % 2 == 0; };
  SimulatedJob::Style style;
  style.sends = coin() ? SimulatedJob::Sends::rendezvous : SimulatedJob::Sends::buffered;
  style.gloo = random() % 4 == 0;
  style.config = !style.gloo;
  style.status = coin();
  style.all_scheduled = coin();
  style.kept = coin() ? 1000 : 12;
  style.form = std::array{0, 2, 4, 5}[random() % 4];
  return style;
}

}  // namespace

TEST_CASE("the analysis names the stalled ranks in each random stall") {
  const std::uint64_t stalls = testing::portion_of<std::uint64_t>(500, 60);
  std::uint64_t waited = 0, two = 0;
  for (std::uint64_t seed = 1; seed <= stalls; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    SimulatedJob::Style style = random_style(random);
    // If the dumps do not list a group's members, they are the ranks that have called something in
    // it. Finding the other side of a send or receive requires all members, so keep all entries.
    if (!style.config) style.kept = 1000;
    const SimulatedJob simulated{random, seed % 3 == 0 ? 2 : 1, style};
    const std::set<int> stalled = simulated.awaited_stalled();
    const flight::Stall stall = flight::stall_of(read(simulated));
    if (style.config) CHECK(named(stall) == stalled);
    waited += stalled.empty() ? 0 : 1;
    two += stalled.size() == 2 ? 1 : 0;
    for (const flight::Sink& sink : stall.sinks) {
      REQUIRE(sink.ranks.size() == 1);
      const std::set<int> waiters(sink.waiters.begin(), sink.waiters.end());
      if (style.config) CHECK(waiters == simulated.waiters_of(sink.ranks.front()));
      if (!style.config)
        CHECK((simulated.has_stalled(sink.ranks.front()) ||
               stall.find(sink.ranks.front())->may_lack_members));
    }
    const auto sentences = flight::stall_sentences(stall);
    REQUIRE(!sentences.empty());
    for (const int rank : stalled)
      if (style.config && stalled.size() == 1)
        CHECK(sentences.front().find(fmt::format("for rank {},", rank)) != std::string::npos);
  }
  CHECK(waited > stalls * 4 / 5);
  CHECK(two > stalls / 25);
}

TEST_CASE("the analysis names a stalled rank whose dump is missing") {
  const std::uint64_t stalls = testing::portion_of<std::uint64_t>(100, 20);
  std::uint64_t missing = 0;
  for (std::uint64_t seed = 1; seed <= stalls; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    const SimulatedJob simulated{random, 1, {}};
    const std::set<int> stalled = simulated.awaited_stalled();
    if (stalled.empty()) continue;
    const flight::Stall stall = flight::stall_of(read(simulated, stalled));
    // All other members of its groups have called the collectives in which they wait.
    CHECK(named(stall) == stalled);
    const auto* row = stall.find(*stalled.begin());
    REQUIRE(row != nullptr);
    CHECK(row->state == flight::StalledRank::State::no_dump);
    ++missing;
  }
  CHECK(missing > stalls * 4 / 5);
}
