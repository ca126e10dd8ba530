// Retiming: the viewer's figures equal those of Replay, whatever the order of the requests.
#include <doctest/doctest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/operations/operation_log.h"
#include "core/operations/operations_file.h"
#include "core/replay/replay.h"
#include "tests/support/temporary_folder.h"
#include "tests/viz/interactive.h"
#include "viz/data/step/retiming.h"
#include "viz/data/step/straggler.h"

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

TEST_CASE("a question about a step is answered beside the sliders") {
  Recorded recorded;
  const auto time_of = [&](int step, const std::vector<std::string>& changes) {
    Scenario scenario{recorded.run.modelled};
    for (const std::string& each : changes) scenario.change(each, recorded.run);
    return Replay{recorded.run, scenario}.step_time(step);
  };
  for (const int step : {0, 1}) {
    const StepQuestion question{step, {"rank:3=faster:1.37"}};
    CHECK(recorded.retiming.answer_to(question) == nullptr);
    recorded.retiming.ask_step(question);
    CHECK(recorded.retiming.busy());
    recorded.retiming.wait();
    CHECK_FALSE(recorded.retiming.busy());
    const StepAnswer* answer = recorded.retiming.answer_to(question);
    REQUIRE(answer);
    CHECK(answer->recorded == time_of(step, {}));
    CHECK(answer->changed == time_of(step, question.changes));
    CHECK(answer->changed < answer->recorded);
    // The sliders' answer is another one.
    const std::vector<std::string> changes{"latency=free"};
    CHECK(same(recorded.asked(changes).changed, by_replay(recorded.run, changes)));
    CHECK(recorded.retiming.answer_to(question));
  }
  for (const StepQuestion& wrong : {StepQuestion{1, {"rank:9=faster:2"}}, StepQuestion{7, {}}}) {
    recorded.retiming.ask_step(wrong);
    recorded.retiming.wait();
    REQUIRE(recorded.retiming.answer_to(wrong));
    CHECK(recorded.retiming.answer_to(wrong)->recorded == 0);
  }
}

TEST_CASE("a rank's slider takes a factor between two notches") {
  Recorded recorded;
  recorded.asked({});
  RetimeSlider ranks = recorded.retiming.results().sliders[5];
  REQUIRE(ranks.what == "rank");
  ranks.set_rank(2, 1.5);
  CHECK(ranks.change() == "rank:2=faster:1.5");
  ranks.set_rank(3, 1.37);
  CHECK(ranks.change() == "rank:3=faster:1.37");
  CHECK(ranks.pace() == "1.37× faster");
  CHECK(ranks.notch == 3);  // 1.5× is the nearest notch
  ranks.set_notch(ranks.notch);
  CHECK(ranks.change() == "rank:3=faster:1.5");
  ranks.set_rank(4, 2);  // there is no rank 4
  CHECK(ranks.change() == "rank:3=faster:1.5");
}

TEST_CASE("the cost of a straggler in words") {
  const Straggler straggler{.rank = 37, .compute = 150 * us, .usual = 100 * us, .peers = 7};
  CHECK(change_to_peers_pace(straggler) == "rank:37=faster:1.5");
  CHECK(cost_words(straggler, 147 * us, 129 * us) ==
        "Without this straggler, the step would take 129 µs (18 µs less).");
  CHECK(cost_words(straggler, 147 * us, 147 * us) ==
        "Without this straggler, the step would still take 147 µs.");
  CHECK(cost_words(straggler, 147 * us, 149 * us) ==
        "Without this straggler, the step would take 149 µs (2 µs more).");
  Straggler stage = straggler;
  stage.stage = 1;
  CHECK(cost_words(stage, 147 * us, 129 * us) ==
        "If rank 37 computed as fast as the other stages, the step would take 129 µs (18 µs "
        "less).");
}

TEST_CASE("the straggler's cost is shown, and a click on it opens Retime with its pace") {
  // Rank 3 computes for twice as long as rank 2, its peer. The run's operations are those of
  // small_run(), in which it computes for 4/3 times as long.
  Interactive viewer{[](Timeline& timeline) {
    timeline.run().run = run_name;
    timeline.run().clock = "modelled";
    timeline.run().ranks = 4;
    for (int rank = 0; rank < 4; ++rank)
      for (int step = 0; step < 2; ++step) {
        TimelineSpan span{.start = step * 100 * us,
                          .end = (step * 100 + (rank == 3 ? 80 : 40)) * us,
                          .step = step,
                          .stage = rank / 2,
                          .microbatch = 0};
        span.category = Category::forward;
        timeline.add(rank, 0, span);
        timeline.end(rank, timeline.rank(rank).spans);
      }
  }};
  REQUIRE(viewer.model.straggler());
  REQUIRE(viewer.model.straggler()->rank == 3);
  const testing::TemporaryFolder folder;
  folder.file("operations.json", text_of(small_run()));
  viewer.model.retiming.find({folder / "trace.json"}, run_name);
  viewer.frame();
  viewer.model.retiming.wait();
  viewer.frame();
  const StepAnswer* answer = viewer.model.retiming.answer_to({1, {"rank:3=faster:2"}});
  REQUIRE(answer);
  CHECK(answer->changed == by_replay(small_run(), {"rank:3=faster:2"}).time);
  CHECK(viewer.model.view.panel != Panel::retime);
  for (float y = 640; y < 890 && viewer.model.view.panel != Panel::retime; y += 6)
    viewer.click(60, y);
  REQUIRE(viewer.model.view.panel == Panel::retime);
  for (int i = 0; i < 3; ++i) {
    viewer.frame();
    viewer.model.retiming.wait();
  }
  CHECK(changes_of(viewer.screen.retime().sliders()) ==
        std::vector<std::string>{"rank:3=faster:2"});
  // Without the click, too, the slider of ranks starts at the straggler.
  CHECK(viewer.screen.retime().sliders()[5].numbers[viewer.screen.retime().sliders()[5].chosen] ==
        3);
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

TEST_CASE("a slider says how much faster or slower") {
  RetimeSlider slider{"latency", "latency", true};
  CHECK(slider.pace() == "1×");
  CHECK(slider.factor() == "1×");
  slider.notch = 3;
  CHECK(slider.pace() == "1.5× faster");
  slider.notch = -3;
  CHECK(slider.pace() == "1.5× slower");
  CHECK(slider.factor() == "1.5×");
  slider.notch = slider.fastest();
  CHECK(slider.pace() == "free");
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
  // Each slider states its pace, however narrow it is.
  for (const float width : {1600.0f, 1050.0f}) {
    ImGui::GetIO().DisplaySize = {width, 720};
    std::vector<DrawnText> texts;
    viewer.frame();
    viewer.record(&texts);
    viewer.frame();
    viewer.record(nullptr);
    const auto shown = [&](const std::string& words) {
      return std::ranges::count(texts, words, &DrawnText::words);
    };
    CAPTURE(width);
    CHECK(shown("← slower") == 1);
    CHECK(shown("faster →") == 1);
    for (const RetimeSlider& slider : view.sliders())
      if (slider.notch != 0) CHECK(shown(slider.pace()) + shown(slider.factor()) >= 1);
  }
  CHECK(same(viewer.model.retiming.results().changed, by_replay(small_run(), changes)));
}
