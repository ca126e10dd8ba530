#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "lessons/20_when_ranks_die/fault_injection.h"
#include "lessons/20_when_ranks_die/lighthouse.h"
#include "lessons/20_when_ranks_die/peer_checkpoint.h"
#include "lessons/20_when_ranks_die/timetable.h"
#include "tests/support/ranks.h"
#include "tests/support/watchdog.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

std::vector<std::string> names_of(const std::vector<Phase>& phases) {
  std::vector<std::string> names;
  for (const Phase& phase : phases)
    names.push_back(fmt::format("{} {}+{}", phase.name, phase.first_step, phase.steps));
  return names;
}

/// Faults of random ranks in random steps, such that somebody is always there.
Faults random_faults(std::mt19937& random, int ranks, int steps, Death death) {
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<std::uint32_t>(n));
  };
  std::string text;
  const int safe = below(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == safe || below(3) == 0) continue;
    int step = below(steps - 2);
    text += fmt::format("{}{}@{}", text.empty() ? "" : ",", rank, step);
    if (below(3) == 0) continue;
    step += 2 + below(3);
    if (step >= steps) continue;
    text += fmt::format("-{}", step);
    if (step + 1 < steps - 1 && below(3) == 0)  // it dies once more
      text += fmt::format(",{}@{}", rank, step + 1 + below(steps - 2 - step));
  }
  const DeathPoint points[] = {DeathPoint::start, DeathPoint::backward, DeathPoint::sum,
                               DeathPoint::update};
  Faults faults{text, death, points[below(4)]};
  faults.check(ranks, steps);
  return faults;
}

/// What a rank saw of a step that counts.
struct Seen {
  std::vector<int> members;
  float sum = 0;
};

/// Each rank adds its number to those of the others in every step, in three all-reduces, and fails
/// where `faults` says: before, between, and after them, and after the vote. Returns by rank and
/// step what the ranks saw, or the run's error message.
struct Protocol {
  Protocol(int ranks, int steps, const Faults& faults, double patience)
      : lighthouse(ranks, faults, patience) {
    seen.resize(static_cast<std::size_t>(ranks));
    ThreadRun run{modelled_options(ranks)};
    const Watchdog watchdog{run.fabric, 60};
    failure = run([&](Rank& rank) {
      const Presence presence{lighthouse, rank};
      FaultInjection injection{rank, faults, lighthouse};
      for (int step = 0; step < steps; ++step) {
        if (faults.takes_part(rank.id, step) || faults.strikes(rank.id, step)) try {
            while (!attempt(rank, step, injection)) {
            }
            injection.strike(step, DeathPoint::update);
            continue;
          } catch (const Died&) {
            lighthouse.leave(rank, [] {});
          }
        lighthouse.sit_out(rank, step);
      }
    });
  }

  bool attempt(Rank& rank, int step, const FaultInjection& injection) {
    const Quorum quorum = lighthouse.quorum(rank, step);
    try {
      auto connection = lighthouse.connect(rank, quorum);
      Group group{{connection.transport, rank.device}, quorum.members, "any", connection.channels};
      injection.strike(step, DeathPoint::start);
      Tensor number{rank.device.memory, {1}, MemoryCategory::communication};
      number.view().f32()[0] = static_cast<float>(rank.id);
      group.all_reduce(number).wait();
      injection.strike(step, DeathPoint::backward);
      group.all_reduce(number).wait();
      group.all_reduce(number).wait();
      injection.strike(step, DeathPoint::sum);
      if (lighthouse.vote(rank, quorum, 7) != Vote::commit) return false;
      std::lock_guard lock{mutex};
      Seen& mine = seen[static_cast<std::size_t>(rank.id)][step];
      if (!mine.members.empty()) twice = true;
      mine = {quorum.members, number.view().f32()[0]};
      return true;
    } catch (const RunError&) {
      if (!lighthouse.is_broken(quorum)) throw;
      return false;
    }
  }

  Lighthouse lighthouse;
  std::mutex mutex;
  std::vector<std::map<int, Seen>> seen;  ///< by rank and step
  bool twice = false;
  std::string failure;
};

}  // namespace

TEST_CASE("--faults is divided into phases with the same members") {
  const Faults faults{"2@3-6,0@8", Death::thrown, DeathPoint::backward};
  faults.check(4, 12);
  CHECK(names_of(faults.phases(4, 12, 1, "replicas")) ==
        std::vector<std::string>{"4 replicas 0+3", "rank 2 dies 3+1", "3 replicas 4+2",
                                 "rank 2 returns 6+1", "4 replicas 7+1", "rank 0 dies 8+1",
                                 "3 replicas 9+3"});
  CHECK(faults.phases(4, 12, 1, "replicas")[1].replicas == std::vector{0, 1, 3});
  CHECK(faults.phases(4, 12, 1, "replicas")[3].replicas.empty());  // all

  // After the update, the step counts, and the rank is absent from the next one on.
  const Faults late{"2@3", Death::thrown, DeathPoint::update};
  CHECK(names_of(late.phases(3, 6, 1, "replicas")) ==
        std::vector<std::string>{"3 replicas 0+3", "rank 2 dies 3+1", "the others go on 4+1",
                                 "2 replicas 5+1"});
  CHECK(late.takes_part(2, 3));
  CHECK_FALSE(late.takes_part(2, 4));
}

TEST_CASE("--faults and --flip name what is wrong") {
  const auto refusal = [](const std::string& text, int ranks = 3, int steps = 10,
                          const std::string& flip = "",
                          DeathPoint point = DeathPoint::backward) -> std::string {
    try {
      Faults faults{text, Death::thrown, point};
      faults.flip(flip);
      faults.check(ranks, steps);
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  CHECK(refusal("1@4-6,1@7,0@2") == "");
  for (const char* text : {"x", "1", "1@", "@4", "1@4-", "-1@4", "1@4-6-8", "1@4,,2@5", "1@ 4"})
    CHECK_MESSAGE(refusal(text).find("not a failure") != std::string::npos, text);
  CHECK(refusal("3@4").find("give one from 0 to 2") != std::string::npos);
  CHECK(refusal("1@10").find("give one from 0 to 9") != std::string::npos);
  CHECK(refusal("1@4-4").find("can return for steps 5 to 9") != std::string::npos);
  CHECK(refusal("1@4-10").find("can return for steps 5 to 9") != std::string::npos);
  CHECK(refusal("1@4-6,1@5").find("rank 1 is not there to die") != std::string::npos);
  CHECK(refusal("1@4,1@7").find("does not return") != std::string::npos);
  CHECK(refusal("0@1,1@2,2@3").find("no rank is left in step 3") != std::string::npos);
  CHECK(refusal("1@9", 3, 10, "", DeathPoint::update).find("nothing comes after") !=
        std::string::npos);
  CHECK(refusal("1@4", 3, 10, "1@5").find("takes no part") != std::string::npos);
  CHECK(refusal("", 3, 10, "1@5-6").find("write RANK@STEP") != std::string::npos);
}

TEST_CASE("all members of a step see the same members and the same outcome, whoever dies when") {
  std::mt19937 random{20};
  int deaths = 0;
  for (int i = 0; i < 120; ++i) {
    const int ranks = 2 + static_cast<int>(random() % 5), steps = 8;
    const Death death = i % 8 == 0 ? Death::stalled : Death::thrown;
    const Faults faults = random_faults(random, ranks, steps, death);
    deaths += static_cast<int>(faults.all().size());
    CAPTURE(i);
    Protocol run{ranks, steps, faults, death == Death::stalled ? 0.1 : 60.0};
    REQUIRE(run.failure == "");
    CHECK_FALSE(run.twice);
    for (int step = 0; step < steps; ++step) {
      // Recomputed from the list of faults alone.
      std::vector<int> members;
      for (int rank = 0; rank < ranks; ++rank) {
        bool there = true;
        for (const Fault& fault : faults.all()) {
          const int absent = fault.step + (faults.point() == DeathPoint::update ? 1 : 0);
          if (fault.rank == rank && absent <= step && step < fault.returns.value_or(steps))
            there = false;
        }
        if (there) members.push_back(rank);
      }
      float sum = 0;
      for (const int rank : members) sum += static_cast<float>(rank);
      sum *= static_cast<float>(members.size() * members.size());  // three times
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& seen = run.seen[static_cast<std::size_t>(rank)];
        const bool takes_part = std::ranges::count(members, rank) > 0;
        CHECK(seen.contains(step) == takes_part);
        if (!takes_part || !seen.contains(step)) continue;
        CHECK(seen.at(step).members == members);
        CHECK(seen.at(step).sum == sum);
      }
    }
  }
  CHECK(deaths > 150);
}

TEST_CASE("a run whose last rank with the state dies says so") {
  // Rank 1 has just returned, and has not caught up, when rank 0 dies.
  const Faults faults{"1@1-3,0@3", Death::thrown, DeathPoint::start};
  const Protocol run{2, 6, faults, 60};
  CHECK(run.failure.find("no rank that is left in step 3 has the state") != std::string::npos);
}

TEST_CASE("a majority finds the member whose state differs; without one, the run ends") {
  const auto ballot = [](const std::vector<std::uint32_t>& checksums) {
    const int ranks = static_cast<int>(checksums.size());
    Lighthouse lighthouse{ranks, Faults{}, 60};
    std::atomic<int> commits = 0, behind = 0;
    const std::string failure = on_threads(modelled_options(ranks), [&](Rank& rank) {
      const Presence presence{lighthouse, rank};
      const auto own = checksums[static_cast<std::size_t>(rank.id)];
      if (lighthouse.vote(rank, lighthouse.quorum(rank, 0), own) == Vote::commit) ++commits;
      const Quorum next = lighthouse.quorum(rank, 0);
      if (rank.id == 0)
        for (const int each : next.behind) behind += 1 << each;
    });
    return failure.empty() ? fmt::format("{} commit, behind {:b}", commits.load(), behind.load())
                           : failure;
  };
  CHECK(ballot({5, 5, 5}) == "3 commit, behind 0");
  CHECK(ballot({5, 6, 5}) == "0 commit, behind 10");
  CHECK(ballot({7, 5, 5, 5, 8}) == "0 commit, behind 10001");
  CHECK(ballot({5, 6}).find("no majority agrees") != std::string::npos);
  CHECK(ballot({5, 5, 6, 6}).find("no majority agrees") != std::string::npos);
}

TEST_CASE("a checkpoint in memory survives its rank or the one after it, but not both") {
  Options options = modelled_options(4);
  std::mutex mutex;
  int wrong = 0;
  const std::string failure = on_threads(options, [&](Rank& rank) {
    Gpt stage{rank.plan, rank.place, rank.device};
    AdamW optimizer{stage.parameters(), rank.device};
    PeerCheckpoint checkpoint{rank.device, rank.group(Axis::pp), rank.plan};
    CHECK_FALSE(checkpoint.is_complete());
    for (int step = 0; step < 3; ++step) {
      for_each_state(optimizer, [&](int order, View value, View momentum, View variance) {
        value.f32()[0] = static_cast<float>(100 * step + order);
        momentum.f32()[0] = static_cast<float>(100 * step + order) + 0.25F;
        variance.f32()[0] = static_cast<float>(100 * step + order) + 0.5F;
      });
      checkpoint.begin(optimizer, step);
      if (step > 0) CHECK(checkpoint.step() == step - 1);  // until the new one is complete
      checkpoint.finish();
      checkpoint.complete();
      CHECK(checkpoint.step() == step);
    }
    std::lock_guard lock{mutex};
    for (int other = 0; other < 4; ++other) {
      const Place place = rank.plan.place(other);
      for (const Held& held : place.held) {
        const ParameterSpec& spec =
            rank.plan.parameters()[static_cast<std::size_t>(held.parameter)];
        const int next = (other + 1) % 4;
        for (int dead = 0; dead < 16; ++dead) {  // all sets of dead ranks
          std::vector<int> alive;
          for (int each = 0; each < 4; ++each)
            if ((dead >> each & 1) == 0) alive.push_back(each);
          const int expected = (dead >> other & 1) == 0  ? other
                               : (dead >> next & 1) == 0 ? next
                                                         : -1;
          if (checkpoint.source(spec.order, alive) != expected) ++wrong;
        }
        if (rank.id != other && rank.id != next) continue;
        const View state = checkpoint.state(spec.order);
        const std::int64_t n = spec.shape.elements();
        for (int part = 0; part < 3; ++part)
          if (state.f32()[n * part] !=
              static_cast<float>(200 + spec.order) + 0.25F * static_cast<float>(part))
            ++wrong;
      }
    }
  });
  CHECK(failure == "");
  CHECK(wrong == 0);
}
