// Replays of small programs, with times worked out by hand. tests/replay/campaign compares replays
// of whole runs with their traces.

#include <doctest/doctest.h>

#include <functional>

#include "core/base/error.h"
#include "core/operations/operation_log.h"
#include "core/operations/operations_file.h"
#include "core/replay/critical_path.h"
#include "core/replay/replay.h"
#include "tests/support/complaints.h"

using namespace lockstep;
using lockstep::testing::complaint_of;

namespace {

using Kind = RecordedOperation::Kind;

/// One picosecond per FLOP and per byte, a latency of 1000 ps within a node and 5000 ps between
/// nodes, and two ranks per node.
ModelledTime slow_links() {
  return {Cluster{.name = "by hand",
                  .nodes = 2,
                  .ranks_per_node = 2,
                  .flops = 1e12,
                  .within = {1e-9, 1e12},
                  .between = {5e-9, 1e12}}};
}

/// A rank of a program written out by hand.
struct Hand {
  Hand(OperationBook& book, int rank) : log(book, rank) {}
  void compute(double flops) { log.kernel({.name = "k"}, {.flops = flops}); }
  OperationLog::Issued send(int to, std::int64_t bytes) {
    return log.message(Kind::send, {.stream = 0, .channel = 1, .axis = "pp"}, to, bytes, {});
  }
  OperationLog::Issued receive(int from, std::int64_t bytes) {
    return log.message(Kind::receive, {.stream = 0, .channel = 1, .axis = "pp"}, from, bytes, {});
  }
  OperationLog log;
};

/// The operations of one step of `ranks` ranks.
RunOperations program(int ranks, const std::function<void(Hand&, int)>& body) {
  OperationBook book{ranks};
  for (int rank = 0; rank < ranks; ++rank) {
    Hand hand{book, rank};
    body(hand, rank);
    hand.log.end_section(0);
  }
  RunOperations run = book.take();
  run.modelled = slow_links();
  return run;
}

RunOperations one_message() {
  return program(2, [](Hand& rank, int id) {
    if (id == 0) {
      rank.compute(100);
      rank.send(1, 10);
      rank.compute(50);
    } else {
      const auto arrives = rank.receive(0, 10);
      rank.compute(20);
      rank.log.wait(arrives);
      rank.compute(30);
    }
  });
}

/// (kind, rank, start, end) of each part.
using Parts = std::vector<std::tuple<PathPart::Kind, int, Picoseconds, Picoseconds>>;
Parts path_of(const Replay& replay) {
  Parts parts;
  for (const PathPart& part : critical_path(replay, 0))
    parts.emplace_back(part.kind, part.rank, part.start, part.end);
  return parts;
}
constexpr auto compute = PathPart::Kind::compute, transfer = PathPart::Kind::transfer,
               latency = PathPart::Kind::latency;

}  // namespace

TEST_CASE("a message leaves when its data is ready, and arrives after β n + α") {
  const RunOperations run = one_message();
  const Scenario scenario{run.modelled};
  const Replay replay{run, scenario};
  CHECK(replay.section(0, 0) == Passage{0, 150});
  CHECK(replay.section(1, 0) == Passage{0, 1140});
  CHECK(replay.step_time(0) == 1140);
  CHECK(path_of(replay) == Parts{{compute, 0, 0, 100},
                                 {transfer, 0, 100, 110},
                                 {latency, 0, 110, 1110},
                                 {compute, 1, 1110, 1140}});
  std::vector<Picoseconds> times;
  replay.visit(1, 0, [&](const Replay::Timed& each) {
    times.push_back(each.start);
    times.push_back(each.end);
  });
  // receive (on its lane), kernel, wait, kernel
  CHECK(times == std::vector<Picoseconds>{1100, 1110, 0, 20, 20, 1110, 1110, 1140});
}

TEST_CASE("a wait for what has ended takes no time, and binds nothing") {
  const RunOperations run = program(2, [](Hand& rank, int id) {
    if (id == 0) {
      rank.send(1, 10);
    } else {
      const auto arrives = rank.receive(0, 10);
      rank.compute(2000);
      rank.log.wait(arrives);  // it has arrived at 1010
      rank.compute(30);
    }
  });
  const Scenario scenario{run.modelled};
  const Replay replay{run, scenario};
  CHECK(replay.section(1, 0) == Passage{0, 2030});
  CHECK(path_of(replay) == Parts{{compute, 1, 0, 2000}, {compute, 1, 2000, 2030}});
}

TEST_CASE("a change is as good as another program") {
  const RunOperations run = one_message();
  const auto step = [&](const std::vector<std::string>& changes) {
    Scenario scenario{run.modelled};
    for (const std::string& each : changes) scenario.change(each, run);
    return Replay{run, scenario}.step_time(0);
  };
  CHECK(step({"latency=free"}) == 150);  // now rank 0 ends last
  CHECK(step({"latency=faster:2"}) == 640);
  CHECK(step({"within=free"}) == 150);
  CHECK(step({"between=free"}) == 1140);
  CHECK(step({"pp=slower:2"}) == 100 + 20 + 2000 + 30);
  CHECK(step({"pp=slower:2", "latency=free"}) == 100 + 20 + 30);
  CHECK(step({"rank:0=slower:3"}) == 300 + 10 + 1000 + 30);
  CHECK(step({"rank:1=faster:2"}) == 1110 + 15);
  // A slow rank in a mixed cluster may need more than `most_slow` to keep up with its peers.
  CHECK(step({"rank:1=faster:5000"}) == 1110);
  CHECK(step({"memory=free"}) == 1010);
  CHECK(step({"products=free"}) == 1140);
}

TEST_CASE("a lane carries one message at a time") {
  const RunOperations run = program(3, [](Hand& rank, int id) {
    if (id == 2) {
      const auto first = rank.receive(0, 10), second = rank.receive(1, 40);
      rank.log.wait(first);
      rank.log.wait(second);
    } else if (id == 0) {
      rank.compute(3980);
      rank.send(2, 10);
      rank.log.wait(rank.send(2, 7));  // waits behind it, until 3997
    } else {
      rank.send(2, 40);
    }
  });
  const Scenario scenario{run.modelled};
  const Replay replay{run, scenario};
  // Rank 2 is on the other node. The first message arrives at 3980 + 10 + 5000. The second could
  // arrive at 40 + 5000, but its receive was issued later, so it follows on the lane.
  CHECK(replay.section(0, 0).end == 3997);
  CHECK(replay.section(2, 0).end == 8990 + 40);
  CHECK(path_of(replay) == Parts{{compute, 0, 0, 3980},
                                 {transfer, 0, 3980, 3990},
                                 {latency, 0, 3990, 8990},
                                 {transfer, 1, 8990, 9030}});
}

TEST_CASE("a collective is played once all members have called it") {
  const RunOperations run = program(2, [](Hand& rank, int id) {
    const int group = rank.log.open_group({"tp", 5, {0, 1}});
    rank.compute(id == 0 ? 100 : 300);
    rank.log.wait(rank.log.collective(group, {.operation = Operation::all_reduce, .elements = 4}));
  });
  const Scenario scenario{run.modelled};
  const Replay replay{run, scenario};
  // A ring of two, with two chunks of 8 bytes. Rank 0 sends at 100 and then at 1308, when rank 1's
  // first chunk has arrived; rank 1 sends at 300 and at 1108.
  CHECK(replay.section(0, 0).end == 2116);
  CHECK(replay.section(1, 0).end == 2316);
  CHECK(path_of(replay) == Parts{{compute, 1, 0, 300},
                                 {transfer, 1, 300, 308},
                                 {latency, 1, 308, 1308},
                                 {transfer, 0, 1308, 1316},
                                 {latency, 0, 1316, 2316}});
  const auto shared = shares(critical_path(replay, 0));
  REQUIRE(shared.size() == 3);
  CHECK(shared[0].what == "tp latency");
  CHECK(shared[0].time == 2000);
}

TEST_CASE("a common start is at the latest rank's time") {
  const RunOperations run = program(3, [](Hand& rank, int id) {
    rank.compute(10.0 * (id == 1 ? 5 : 1));
    rank.log.together();
    rank.compute(7.0 + id);
  });
  const Scenario scenario{run.modelled};
  const Replay replay{run, scenario};
  CHECK(replay.section(2, 0).end == 59);
  CHECK(path_of(replay) == Parts{{compute, 1, 0, 50}, {compute, 2, 50, 59}});
}

TEST_CASE("fixed times replace the kernels in a range, and slow ranks stretch them") {
  RunOperations run = program(1, [](Hand& rank, int) {
    rank.log.begin({.name = "action", .category = Category::forward, .stage = 0});
    rank.compute(5);
    rank.log.end(Category::forward);
    rank.compute(9);
  });
  run.modelled.times.set(Category::forward, 1000);
  Scenario scenario{run.modelled};
  CHECK(Replay{run, scenario}.step_time(0) == 1000);
  scenario.change("stage:0=slower:1.5", run);
  scenario.change("rank:0=slower:2", run);
  CHECK(Replay{run, scenario}.step_time(0) == 3000);
}

TEST_CASE("a stage at another pace takes as long as its ranks at this pace, launches included") {
  RunOperations run = program(2, [](Hand& rank, int id) {
    rank.log.begin({.name = "action", .category = Category::forward, .stage = id});
    for (int kernel = 0; kernel < 3; ++kernel) rank.compute(5);
    rank.log.end(Category::forward);
  });
  run.modelled.cluster.launch_seconds = 7e-12;
  run.modelled.slow = {{1, 1.1}};
  for (const char* pace : {"free", "faster:3", "slower:1.7"}) {
    Scenario stage{run.modelled}, rank{run.modelled};
    stage.change(std::string{"stage:1="} + pace, run);
    rank.change(std::string{"rank:1="} + pace, run);
    CHECK(Replay{run, stage}.section(1, 0) == Replay{run, rank}.section(1, 0));
    CHECK(Replay{run, stage}.section(0, 0) == Passage{0, 36});
  }
  Scenario kind{run.modelled};  // their launches take as long as before
  kind.change("memory=free", run);
  CHECK(Replay{run, kind}.section(0, 0) == Passage{0, 21});
}

TEST_CASE("ranks on other devices take their own times, also if they share a list") {
  RunOperations run = program(3, [](Hand& rank, int) { rank.compute(5); });
  run.modelled.cluster.groups = {{.name = "slow", .ranks = {1}, .flops = 0.5e12}};
  run.modelled.cluster.groups[0].memory_bandwidth = run.modelled.cluster.memory_bandwidth;
  CHECK(run.ranks[0].sections[0].list == run.ranks[1].sections[0].list);
  const Scenario scenario{run.modelled};
  const Replay replay{run, scenario};
  CHECK(replay.section(0, 0).end == 5);
  CHECK(replay.section(1, 0).end == 10);
  CHECK(replay.section(2, 0).end == 5);
  CHECK(replay.step_time(0) == 10);
}

TEST_CASE("ranks and steps that do the same share a list") {
  OperationBook book{4};
  for (int rank = 0; rank < 4; ++rank) {
    Hand hand{book, rank};
    for (int step = 0; step < 3; ++step) {
      hand.compute(10);
      if (rank % 2 == 0)
        hand.send(rank + 1, 8);
      else
        hand.log.wait(hand.receive(rank - 1, 8));
      hand.log.end_section(step);
    }
  }
  const RunOperations run = book.take();
  CHECK(run.lists.size() == 2);
  CHECK(run.operations.size() == 4);
  CHECK(run.ranks[3].sections.size() == 3);
}

TEST_CASE("a file of operations gives the same operations") {
  const RunOperations run = program(2, [](Hand& rank, int id) {
    const int group = rank.log.open_group({"ep", 5, {0, 1}});
    rank.log.begin({.name = "action", .category = Category::forward, .stage = 1, .microbatch = 2});
    rank.log.kernel(
        {.name = "linear", .layer = 3},
        {.flops = 1e15 / 3, .bytes = 77, .kind = KernelKind::product, .m = 1, .n = 2, .k = 3});
    rank.log.end(Category::forward);
    rank.log.wait(rank.log.collective(
        group, {.operation = Operation::all_to_all, .dtype = DType::bf16, .counts = {1, 2, 1, 2}}));
    rank.log.collective(group, {.operation = Operation::broadcast, .root = 1, .elements = 9});
    rank.log.collective(
        group, {.operation = Operation::all_reduce, .algorithm = Algorithm::tree, .elements = 9});
    rank.log.together();
    if (id == 0) rank.send(1, 4);
    if (id == 1) rank.receive(0, 4);
  });
  const std::string text = text_of(run);
  const RunOperations again = parse_operations(text, "file");
  CHECK(text_of(again) == text);
  CHECK(again.ranks == run.ranks);
  CHECK(again.lists == run.lists);
  CHECK(again.modelled == run.modelled);
  CHECK(again.operations[1].cost == run.operations[1].cost);
}

TEST_CASE("operations that no run has are refused in one line") {
  const std::string text = text_of(one_message());
  const auto with = [&](const std::string& before, const std::string& after) {
    std::string changed = text;
    REQUIRE(changed.find(before) != std::string::npos);
    changed.replace(changed.find(before), before.size(), after);
    return changed;
  };
  const auto replayed = [](const std::string& changed) {
    const RunOperations run = parse_operations(changed, "file");
    const Scenario scenario{run.modelled};
    Replay{run, scenario};
  };
  for (const auto& [changed, why] : {
           std::pair{with("_operations\":1", "_operations\":2"), "version 2"},
           {with("{\"send\":10,\"to\":1", "{\"send\":10,\"to\":2"), "ranks 0 to 1"},
           {with("{\"send\":10,\"to\":1", "{\"send\":10"), "without stream, channel or peer"},
           {with("{\"send\":10", "{\"send\":11"), "which expects 10"},
           {with("{\"send\":10", "{\"receive\":10,\"from\":1,\"sends\":10"), "another rank"},
           {with("{\"wait\":1", "{\"wait\":2"), "not issued"},
           {with("{\"wait\":1", "{\"wait\":1,\"end\":\"forward\""), "exactly one"},
           {with("\"flops\":100", "\"flops\":-1"), "0 to 1e30"},
           {with("\"flops\":100", "\"flops\":1e30"), "46 days"},
           {with("[0,1,2]", "[0,1,99]"), "not a whole number from 0"},
           {with("\"slow\":{}", "\"slow\":{\"2\":2}"), "rank that does not exist"},
       })
    CHECK_MESSAGE(complaint_of<UsageError>([&, &each = changed] { replayed(each); }).find(why) !=
                      std::string::npos,
                  complaint_of<UsageError>([&, &each = changed] { replayed(each); }));
}

TEST_CASE("changes that make no sense are refused") {
  const RunOperations run = one_message();
  for (const auto& [change, why] : {std::pair{"tp=free", "pp"},
                                    {"pp", "WHAT=PACE"},
                                    {"pp=fast", "not a pace"},
                                    {"pp=faster:0", "not a pace"},
                                    {"pp=faster:inf", "not a pace"},
                                    {"pp=slower:1001", "not a pace"},
                                    {"pp=faster:0.0001", "not a pace"},
                                    {"rank:2=free", "ranks 0 to 1"},
                                    {"rank:x=free", "can't change"},
                                    {"stage:0=free", "no stage 0"}}) {
    Scenario scenario{run.modelled};
    CHECK(complaint_of<UsageError>([&, &text = change] { scenario.change(text, run); }).find(why) !=
          std::string::npos);
  }
}
