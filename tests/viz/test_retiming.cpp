// Retiming: the viewer's figures equal those of Replay, whatever the order of the requests.
#include <doctest/doctest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/operations/operation_log.h"
#include "core/operations/operations_file.h"
#include "core/replay/replay.h"
#include "tests/support/temporary_folder.h"
#include "tests/viz/interactive.h"
#include "viz/data/retiming.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

using Kind = RecordedOperation::Kind;
constexpr const char* run_name = "20260101-120000-09";  // as in sample_1f1b()

/// Two steps of four ranks: a pipeline of two stages, each on two ranks that also reduce a
/// gradient.
RunOperations small_run() {
  OperationBook book{4};
  for (int rank = 0; rank < 4; ++rank) {
    OperationLog log{book, rank};
    const int stage = rank / 2;
    const int dp = log.open_group({"dp", 5, {2 * stage, 2 * stage + 1}});
    const int stream = log.open_stream();
    for (int step = 0; step < 2; ++step) {
      const OperationLog::Route route{.stream = stream, .channel = 1, .axis = "pp"};
      if (stage == 1) log.wait(log.message(Kind::receive, route, rank - 2, 4096, {.stage = 0}));
      log.begin({.name = "F", .category = Category::forward, .stage = stage, .microbatch = 0});
      log.kernel({.name = "linear"}, {.flops = 1e6 * (1 + rank), .kind = KernelKind::product});
      log.kernel({.name = "norm"}, {.bytes = 1e5, .kind = KernelKind::memory});
      log.end(Category::forward);
      if (stage == 0) log.message(Kind::send, route, rank + 2, 4096, {.stage = 0});
      log.wait(log.collective(dp, {.operation = Operation::all_reduce, .elements = 1000}));
      log.end_section(step);
    }
  }
  RunOperations run = book.take();
  run.run = run_name;
  run.modelled = {Cluster::load("classroom")};
  return run;
}

bool same(const RetimedStep& a, const RetimedStep& b) {
  return a.time == b.time &&
         std::ranges::equal(a.shares, b.shares, [](const PathShare& x, const PathShare& y) {
           return x.what == y.what && x.time == y.time;
         });
}

RetimedStep by_replay(const RunOperations& run, const std::vector<std::string>& changes) {
  Scenario scenario{run.modelled};
  for (const std::string& each : changes) scenario.change(each, run);
  const Replay replay{run, scenario};
  return {replay.step_time(1), shares(critical_path(replay, 1))};
}

struct Recorded {
  testing::TemporaryFolder folder;
  RunOperations run = small_run();
  Retiming retiming;
  Recorded() : Recorded(text_of(small_run())) {}
  explicit Recorded(const std::string& text) {
    folder.file("operations.json", text);
    retiming.find({folder.path()}, run_name);
  }
  const Retiming::Results& asked(const std::vector<std::string>& changes) {
    retiming.ask(changes);
    retiming.wait();
    return retiming.results();
  }
};

}  // namespace

TEST_CASE("each slider's figures are those of Replay, at each notch") {
  Recorded recorded;
  const RetimedStep before = by_replay(recorded.run, {});
  const Retiming::Results& results = recorded.asked({});
  REQUIRE(results.trouble == "");
  CHECK(same(results.recorded, before));
  CHECK(same(results.changed, before));
  CHECK(results.step == 1);
  CHECK(results.ranks == 4);
  std::vector<std::string> what;
  for (RetimeSlider slider : results.sliders) {
    what.push_back(slider.what);
    CHECK(slider.change().empty());
    if (!slider.numbers.empty()) slider.chosen = slider.numbers.size() - 1;
    for (slider.notch = slider.slowest(); slider.notch <= slider.fastest(); ++slider.notch) {
      const std::vector<std::string> changes = changes_of({slider});
      CAPTURE(slider.change());
      const Retiming::Results& now = recorded.asked(changes);
      CHECK(now.trouble.empty());
      CHECK(same(now.changed, by_replay(recorded.run, changes)));
      CHECK(same(now.recorded, before));
    }
  }
  CHECK(what == std::vector<std::string>{"within", "between", "latency", "dp", "pp", "rank",
                                         "stage", "products", "memory"});
  std::vector<RetimeSlider> sliders = results.sliders;
  sliders[2].notch = sliders[2].fastest();
  sliders[5].chosen = 3;
  sliders[5].notch = -2;
  const std::vector<std::string> both{"latency=free", "rank:3=slower:1.25"};
  CHECK(changes_of(sliders) == both);
  CHECK(same(recorded.asked(both).changed, by_replay(recorded.run, both)));
  CHECK_FALSE(same(results.changed, before));
}

TEST_CASE("runs with fixed times have no sliders for kernels") {
  RunOperations run = small_run();
  run.modelled.times.set(Category::forward, 1000);
  CHECK(retime_sliders(run).back().what == "stage");
}

TEST_CASE("the newest request wins") {
  Recorded recorded;
  const std::vector<std::string> last{"between=free"};
  constexpr int requests = 2000;
  for (int i = 1; i <= requests; ++i)
    recorded.retiming.ask({"rank:0=slower:" + std::to_string(1 + i % 9)});
  const Retiming::Results& results = recorded.asked(last);
  CHECK(results.changes == last);
  CHECK(same(results.changed, by_replay(recorded.run, last)));
  CHECK(results.replays < requests);  // most were outdated before the thread could take them
  CHECK_FALSE(recorded.retiming.busy());
}

TEST_CASE("what can't be replayed has a message of one line") {
  const auto trouble_of = [](const std::string& text) {
    Recorded recorded{text};
    const Retiming::Results& results = recorded.asked({});
    CHECK(results.broken);
    CHECK_FALSE(recorded.retiming.busy());
    CHECK(results.trouble.find('\n') == std::string::npos);
    recorded.asked({"latency=free"});  // no thread is left to answer
    return results.trouble;
  };
  CHECK(trouble_of("{\n").find("operations.json: not a file of operations") != std::string::npos);
  RunOperations other = small_run();
  other.run = "another\nrun";
  CHECK(trouble_of(text_of(other)).find(R"(is of run another\nrun, but the trace is of run)") !=
        std::string::npos);
  OperationBook lonely{2};  // both ranks receive
  for (int rank = 0; rank < 2; ++rank) {
    OperationLog log{lonely, rank};
    log.wait(
        log.message(Kind::receive, {.stream = log.open_stream(), .axis = "pp"}, 1 - rank, 8, {}));
    log.end_section(0);
  }
  RunOperations stuck = lonely.take();
  stuck.run = run_name;
  stuck.modelled = {Cluster::load("classroom")};
  CHECK(trouble_of(text_of(stuck)).find("can't be replayed") != std::string::npos);

  Recorded recorded;
  CHECK(recorded.asked({"rank:9=slower:2"}).trouble.find("there are ranks 0 to 3") !=
        std::string::npos);
  CHECK(recorded.asked({"rank:3=slower:2"}).trouble.empty());  // only that change was wrong
}

TEST_CASE("traces without operations say why") {
  const RunInfo modelled{.clock = "modelled"}, wall{.clock = "wall"};
  CHECK(nothing_to_retime(wall, true).find("wall clock") != std::string::npos);
  CHECK(nothing_to_retime({}, false).find("another tool") != std::string::npos);
  CHECK(nothing_to_retime(modelled, true).find("once the run has ended") != std::string::npos);
  CHECK(nothing_to_retime(modelled, false).find("no operations.json") != std::string::npos);
  Retiming retiming;
  retiming.ask({});
  retiming.wait();
  retiming.update();
  CHECK_FALSE(retiming.found());
  CHECK_FALSE(retiming.busy());
}

TEST_CASE("the shares of two paths side by side") {
  const auto shares = compared_shares({30, {{"forward", 20}, {"pp latency", 10}}},
                                      {25, {{"dp transfer", 5}, {"forward", 20}}});
  REQUIRE(shares.size() == 3);
  CHECK(shares[0].changed == 20);
  CHECK(shares[1].changed == 0);
  CHECK(shares[2].what == "dp transfer");
  CHECK(shares[2].recorded == 0);
}

TEST_CASE("a slider is dragged, and another replay answers") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  viewer.model.view.panel = Panel::retime;
  viewer.frame();  // nothing to retime
  CHECK(viewer.screen.retime().sliders().empty());

  const testing::TemporaryFolder folder;
  folder.file("operations.json", text_of(small_run()));
  viewer.model.retiming.find({folder / "trace.json"}, run_name);
  viewer.frame();
  viewer.model.retiming.wait();
  viewer.frame();
  const RetimeView& view = viewer.screen.retime();
  REQUIRE(view.tracks().size() == 9);
  const auto drag = [&](std::size_t slider, float share) {
    const Rect track = view.tracks()[slider];
    const float middle = (track.left + track.right) / 2, y = (track.top + track.bottom) / 2;
    viewer.drag(middle, y, middle + share * track.width() / 2, y);
    viewer.model.retiming.wait();
    viewer.frame();
  };
  drag(2, 1);      // latency
  drag(8, -0.5f);  // memory-bound kernels
  drag(5, -5);     // rank 0: as far as the slider goes
  const std::vector<std::string> changes = changes_of(view.sliders());
  REQUIRE(changes.size() == 3);
  CHECK(changes[0] == "latency=free");
  CHECK(changes[1] == "rank:0=slower:100");
  CHECK(changes[2].starts_with("memory=slower:"));
  CHECK(viewer.model.retiming.results().changes == changes);
  CHECK(same(viewer.model.retiming.results().changed, by_replay(small_run(), changes)));
}
