// Runs with failures at given times, worked out by hand. All times are in microseconds.

#include <doctest/doctest.h>

#include "lessons/20_when_ranks_die/goodput/quorum.h"
#include "lessons/20_when_ranks_die/goodput/restarts.h"
#include "lessons/20_when_ranks_die/goodput/spares.h"

using namespace lockstep;

namespace {

/// The parts of an account, in the order of its members.
std::vector<Microseconds> parts(const Account& account) {
  return {account.useful,    account.absent,   account.checkpoint, account.lost,
          account.detection, account.recovery, account.waiting,    account.total};
}

using Parts = std::vector<Microseconds>;
using Given = std::vector<Failure>;

const Job restarting{
    .ranks = 4, .steps = 6, .step = 10, .interval = 3, .pause = 2, .detect = 1, .restart = 4};

}  // namespace

TEST_CASE("restarts by hand") {
  // Without a failure: two times three steps and a checkpoint.
  CHECK(parts(with_restarts(restarting, Failures{Given{}})) == Parts{60, 0, 4, 0, 0, 0, 0, 64});
  // 0-20 lost; detected at 21, but at 22 the next rank fails; detected at 23, restarted at 27.
  // Three steps and a checkpoint until 59; 59-60 lost; detected at 61, restarted at 65; then 32.
  const Failures failures{Given{{20, 0}, {22, 2}, {60, 1}}};
  CHECK(parts(with_restarts(restarting, failures)) == Parts{60, 0, 4, 21, 3, 9, 0, 97});
  // The checkpoint of 59 can be used only from 64 on, so the failure at 60 undoes it, too.
  Job later = restarting;
  later.hidden = 5;
  CHECK(parts(with_restarts(later, failures)) == Parts{60, 0, 4, 53, 3, 9, 0, 129});
  // A failure in the moment in which a checkpoint is complete loses nothing.
  CHECK(parts(with_restarts(restarting, Failures{Given{{32, 0}}})) ==
        Parts{60, 0, 4, 0, 1, 4, 0, 69});
  // One while it is being written loses its steps.
  CHECK(parts(with_restarts(restarting, Failures{Given{{31, 0}}})) ==
        Parts{60, 0, 4, 31, 1, 4, 0, 100});
  // The last interval is shorter, and ends with a checkpoint, too.
  Job uneven = restarting;
  uneven.steps = 7;
  CHECK(parts(with_restarts(uneven, Failures{Given{{75, 0}}})) == Parts{70, 0, 6, 11, 1, 4, 0, 92});
  CHECK(with_restarts(uneven, Failures{Given{{75, 0}}}).steps == 7);
}

TEST_CASE("checkpoints in a peer's memory by hand") {
  const Job job{.ranks = 4,
                .steps = 10,
                .step = 10,
                .interval = 1,
                .pause = 1,
                .hidden = 2,
                .write = 15,
                .detect = 1,
                .restart = 3,
                .restart_from_disk = 7};
  // At 50, four copies are complete, that of 44 since 46; 44-50 is lost. The next failure hits rank
  // 2, which has no copy of rank 0, and none at rank 0. Recovered at 56; six steps remain.
  CHECK(parts(with_peer_memory(job, Failures{Given{{50, 0}, {52, 2}}})) ==
        Parts{100, 0, 10, 6, 2, 4, 0, 122});
  // Rank 1 has the copy of rank 0. The writer has begun a copy at 0 and then every second one, at
  // 22 and 44; at 50, that of 22 is on disk, with two steps. So two more steps are lost, and the
  // restart takes 7: recovered at 60; eight steps remain.
  CHECK(parts(with_peer_memory(job, Failures{Given{{50, 0}, {52, 1}}})) ==
        Parts{100, 0, 10, 28, 2, 8, 0, 148});
  // The same if rank 3 fails, whose copy is at rank 0.
  CHECK(parts(with_peer_memory(job, Failures{Given{{50, 0}, {52, 3}}})) ==
        Parts{100, 0, 10, 28, 2, 8, 0, 148});
  // At 36, the copy of 22 is not yet on disk. After a first failure, the writer begins again.
  CHECK(parts(with_peer_memory(job, Failures{Given{{36, 0}, {38, 1}}})) ==
        Parts{100, 0, 10, 36, 2, 8, 0, 156});
}

TEST_CASE("spares by hand") {
  Job job{.ranks = 4,
          .steps = 6,
          .step = 10,
          .interval = 3,
          .pause = 4,
          .detect = 1,
          .restart = 2,
          .spares = 1,
          .repair = 100};
  // 10-15 lost; the spare has taken over at 18; two steps and a checkpoint until 42; 42-50 lost.
  // The next spare is ready at 115, and has taken over at 117; three steps and a checkpoint.
  const Failures failures{Given{{15, 0}, {50, 1}}};
  CHECK(parts(with_spares(job, failures)) == Parts{60, 0, 8, 13, 2, 4, 64, 151});
  job.spares = 2;
  CHECK(parts(with_spares(job, failures)) == Parts{60, 0, 8, 13, 2, 4, 0, 87});
  // A failure at 32 interrupts the checkpoint, and one at 34 the takeover, for which there is a
  // second spare: taken over at 37, checkpoint until 41.
  CHECK(parts(with_spares(job, Failures{Given{{32, 0}, {34, 1}}})) ==
        Parts{60, 0, 8, 2, 2, 3, 0, 75});
  // With one spare, the takeover that needs two waits for the repair of the first, at 132.
  job.spares = 1;
  CHECK(parts(with_spares(job, Failures{Given{{32, 0}, {34, 1}}})) ==
        Parts{60, 0, 8, 2, 2, 3, 97, 172});
}

TEST_CASE("a quorum per step by hand") {
  const Job job{.ranks = 4,
                .steps = 8,
                .step = 10,
                .interval = 4,
                .pause = 3,
                .detect = 2,
                .restart = 20,
                .replicas = 2,
                .replace = 15,
                .heal = 5};
  // Rank 3 is in the second replica. 10-14 lost; detected at 16; the other replica trains two steps
  // alone, until 36, because the lost one is back at 31; healed at 41; a step until 51, a
  // checkpoint until 54, four steps and a checkpoint.
  CHECK(parts(with_quorum(job, Failures{Given{{14, 3}}})) == Parts{70, 10, 6, 4, 2, 5, 0, 97});
  // A rank that is being replaced does not fail again.
  CHECK(parts(with_quorum(job, Failures{Given{{14, 3}, {18, 2}, {35, 3}}})) ==
        Parts{70, 10, 6, 4, 2, 5, 0, 97});
  // At 20, the other replica fails, too. There is no checkpoint, so the first step is lost, as
  // well; detected at 22, restarted at 42.
  CHECK(parts(with_quorum(job, Failures{Given{{14, 3}, {20, 0}}})) ==
        Parts{80, 0, 6, 18, 4, 20, 0, 128});
  // A failure during the checkpoint at 40: its 2 are lost; detected at 44; the checkpoint is
  // repeated until 47, by the replica that is left. It trains 20 until 67, the other is healed
  // at 72.
  CHECK(parts(with_quorum(job, Failures{Given{{42, 0}}})) == Parts{70, 10, 6, 2, 2, 5, 0, 95});
  // Both fail after the first checkpoint, which keeps its four steps.
  CHECK(parts(with_quorum(job, Failures{Given{{45, 0}, {46, 3}}})) ==
        Parts{80, 0, 6, 2, 2, 20, 0, 110});
}
