// The lab's screen, operated with mouse and keyboard, without a window.
#include <doctest/doctest.h>

#include <array>
#include <filesystem>

#include "core/base/error.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/validate.h"
#include "tests/support/temporary_folder.h"
#include "tests/viz/interactive.h"
#include "viz/app/lab_screen.h"
#include "viz/app/options.h"

using namespace lockstep;
using namespace lockstep::viz;
using lockstep::testing::TemporaryFolder;

namespace {

/// The lab in place of the run's screen.
class LabInteractive : public Interactive {
 public:
  explicit LabInteractive(const std::filesystem::path& folder)
      : Interactive(sample_1f1b()), bench{folder / "lab", folder / "exports"} {
    model.view.lab = true;
  }
  void frame() override {
    bench.update();
    viz::set_cursor({x_, y_});
    ImGui::NewFrame();
    lab_screen.draw(bench, model, look_);
    ImGui::Render();
  }
  void click_on_cell(const Action& action) {
    frame();
    const std::optional<Rect> cell = lab_screen.board().cell_of(action);
    REQUIRE(cell);
    click((cell->left + cell->right) / 2, (cell->top + cell->bottom) / 2);
  }
  void set_scale(float scale) {
    look_.scale = scale;
    apply_theme(scale);
  }

  LabBench bench;
  LabScreen lab_screen;
};

ViewerOptions lab_options(std::vector<const char*> words) {
  words.insert(words.begin(), "lockstep_view");
  return parse_options(static_cast<int>(words.size()), const_cast<char**>(words.data())).value();
}

}  // namespace

TEST_CASE("a click on a legal action makes the move, and on an illegal one says why not") {
  const TemporaryFolder folder;
  LabInteractive viewer{folder.path()};
  viewer.bench.page = LabBench::Page::board;
  viewer.click_on_cell({Op::forward, 0, 0});
  CHECK(viewer.bench.board.placed() == 1);
  CHECK(viewer.bench.board_words.empty());
  viewer.click_on_cell({Op::backward, 1, 2});
  CHECK(viewer.bench.board.placed() == 1);
  CHECK(viewer.bench.board_refused);
  CHECK(viewer.bench.board_words == "B of microbatch 2 on stage 1 needs its F first");
  viewer.click_on_cell({Op::forward, 1, 0});
  CHECK(viewer.bench.board.placed() == 2);
  CHECK(viewer.bench.board_words.empty());
  viz::set_modifiers(true, false);
  viewer.press(keys::z);
  viz::set_modifiers(false, false);
  CHECK(viewer.bench.board.placed() == 1);
  CHECK(viewer.bench.board.can_redo());
}

TEST_CASE("a board that is complete is exported in PyTorch's grammar") {
  const TemporaryFolder folder;
  LabBench bench{folder.path() / "lab", folder.path() / "exports"};
  bench.export_board();
  CHECK(bench.board_refused);
  CHECK(bench.exported.empty());
  bench.board.replay(bench.table.find("ZB-H1")->result->schedule);
  bench.export_board();
  CHECK(!bench.board_refused);
  const Schedule read = schedule_from_csv(testing::read_file(bench.exported));
  CHECK_NOTHROW(validate(read));
  CHECK(read.actions == bench.board.schedule().actions);
  CHECK(bench.board_words.find("./lockstep lesson 11 --schedule " + bench.exported) !=
        std::string::npos);
  const std::string first = bench.exported;
  bench.export_board();
  CHECK(bench.exported != first);  // nothing is overwritten
}

TEST_CASE("the board opens on a registered schedule, on a file, or on a beginning") {
  const TemporaryFolder folder;
  LabBench bench{folder.path() / "lab", folder.path() / "exports"};
  bench.open_board("1f1b:20");
  CHECK(bench.page == LabBench::Page::board);
  CHECK(bench.board.placed() == 20);
  CHECK(bench.board.can_redo());
  bench.open_board("dualpipe-v");
  CHECK(bench.board.complete());
  CHECK(bench.board.placement() == Placement::v);
  bench.export_board();
  bench.open_board("gpipe");
  bench.open_board(bench.exported + ":7");
  CHECK(bench.board.moves().size() == 7);
  CHECK(bench.board.placement() == Placement::v);
  const auto refused = [&](const std::string& what, const std::string& why) {
    CHECK_THROWS_WITH_AS(bench.open_board(what), doctest::Contains(why.c_str()), UsageError);
  };
  refused("2f2b", "give the name of a schedule");
  refused(folder / "nothing.csv", "nothing.csv");
  refused(folder.file("bad.csv", "0F0,0B0,0B0\n"), "runs 0B0 twice");
  refused(folder.file("one.csv", "0F0,0B0\n"), "has 1 ranks");
  refused(folder.file("huge.csv", "0F2000000000\n"), "2000000000");
  refused(folder.file("placed.csv", "1F0,1B0\n0F0,0B0\n"), "neither");
}

TEST_CASE("the board follows the sliders until it has actions") {
  const TemporaryFolder folder;
  LabBench bench{folder.path() / "lab", folder.path() / "exports"};
  bench.settings.ranks = 3;
  bench.update();
  CHECK(bench.board.schedule().ranks == 3);
  bench.play({0, {Op::forward, 0, 0}, {}});
  bench.settings.ranks = 5;
  bench.settings.forward *= 2;
  bench.update();
  CHECK(bench.board.schedule().ranks == 3);
  CHECK(bench.board_outdated());
  CHECK(bench.board.result().simulation.makespan == bench.settings.forward);  // its times follow
  bench.new_board();
  CHECK(bench.board.schedule().ranks == 5);
  CHECK(bench.board.placed() == 0);
}

TEST_CASE("an empty board shows the legal actions of its new size") {
  const TemporaryFolder folder;
  LabInteractive viewer{folder.path()};
  viewer.bench.page = LabBench::Page::board;
  const auto check = [&] {
    viewer.frame();
    const Board& board = viewer.bench.board;
    const Schedule& schedule = board.schedule();
    CAPTURE(schedule.ranks);
    CAPTURE(schedule.microbatches);
    for (int stage = 0; stage < schedule.stages; ++stage)
      for (int m = 0; m < schedule.microbatches; ++m)
        for (const Op op : {Op::forward, Op::backward, Op::backward_input, Op::backward_weight}) {
          const int rank = schedule.rank_of_stage[static_cast<std::size_t>(stage)];
          const Action action{op, stage, m};
          CHECK(viewer.lab_screen.board().drawn_legal(board, action) ==
                board.why_not({rank, action, {}}).empty());
        }
  };
  for (const auto& [ranks, microbatches] : {std::pair{2, 11}, {2, 6}, {2, 3}, {5, 3}, {4, 8}}) {
    viewer.bench.settings.ranks = ranks;
    viewer.bench.settings.microbatches = microbatches;
    check();
    viewer.bench.placement = Placement::v;
    check();
    CHECK(viewer.bench.board.placement() == Placement::v);
    viewer.bench.placement = Placement::loop;
    check();
  }
  viewer.bench.new_board();
  check();
}

TEST_CASE("the lab takes over the values of the run on the timeline") {
  const TemporaryFolder folder;
  LabInteractive viewer{folder.path()};
  viewer.bench.take(question_from(viewer.model.timeline, 1));
  CHECK(viewer.bench.settings.ranks == 4);
  CHECK(viewer.bench.settings.microbatches == 8);
  CHECK(viewer.bench.settings.forward == ms);
  CHECK(viewer.bench.settings.backward() == 2 * ms);
  CHECK(viewer.bench.shown[0] == "1F1B");
  CHECK(viewer.bench.row(0) != nullptr);
}

TEST_CASE("every page is drawn in windows and pipelines of any size") {
  const TemporaryFolder folder;
  LabInteractive viewer{folder.path()};
  for (const auto& [width, height, scale] : std::vector<std::array<float, 3>>{
           {320, 320, 1}, {1280, 720, 1}, {1280, 720, 2}, {1920, 1080, 2}, {3840, 2160, 2}}) {
    ImGui::GetIO().DisplaySize = {width, height};
    viewer.set_scale(scale);
    for (const int ranks : {2, 16})
      for (const auto page :
           {LabBench::Page::schedules, LabBench::Page::board, LabBench::Page::lessons}) {
        viewer.bench.page = page;
        viewer.bench.settings.ranks = ranks;
        viewer.bench.settings.microbatches = ranks == 2 ? 1 : 64;
        viewer.bench.settings.memory_limit = ranks == 2 ? 0 : 3;
        viewer.move(width * 0.6f, height * 0.7f);
        CHECK(ImGui::GetDrawData()->TotalVtxCount > 0);
      }
  }
}

TEST_CASE("a slider is dragged at its track, below its words") {
  const TemporaryFolder folder;
  LabInteractive viewer{folder.path()};
  const auto drag = [&](const std::string& label, float share) {
    std::vector<DrawnText> texts;
    viewer.record(&texts);
    viewer.frame();
    viewer.record(nullptr);
    const auto found = std::ranges::find(texts, label, &DrawnText::words);
    REQUIRE(found != texts.end());
    REQUIRE(found + 1 != texts.end());
    const DrawnText& value = *(found - 1);  // on the right, at the same height
    CHECK(value.min.y == found->min.y);
    CHECK(value.min.x > found->max.x);
    const float y = found->max.y + 7;
    viewer.drag((found->min.x + value.max.x) / 2, y,
                found->min.x + share * (value.max.x - found->min.x), y);
    return value.words;
  };
  CHECK(drag("ranks", 1) == "4");
  CHECK(drag("ranks", 0) == "16");
  CHECK(viewer.bench.settings.ranks == 2);
  drag("microbatches", 1);
  CHECK(viewer.bench.settings.microbatches == 64);
  drag("latency", 0);
  CHECK(viewer.bench.settings.latency == 0);
  drag("F, forward", 1);
  CHECK(viewer.bench.settings.forward == LabRange::most_time);
}

TEST_CASE("the help of a page of the lab lists what works there") {
  using Place = HelpView::Place;
  const auto lists = [](Place place, const char* words) {
    return help_text(place).find(words) != std::string::npos;
  };
  for (const Place place : {Place::lab_schedules, Place::lab_board, Place::lab_lessons}) {
    for (const char* of_timeline : {"pan", "critical path", "replay", "bookmark", "rank under"})
      CHECK(!lists(place, of_timeline));
    CHECK(lists(place, "back to the timeline"));
    CHECK(lists(place, "this list"));
  }
  CHECK(lists(Place::lab_board, "undo, redo"));
  CHECK(!lists(Place::lab_schedules, "undo, redo"));
  CHECK(!lists(Place::one_run, "undo, redo"));
  CHECK(lists(Place::lab_live, "critical path"));  // the timeline of a lesson
  CHECK(lists(Place::one_run, "critical path"));
  CHECK(help_text().find("undo, redo") != std::string::npos);

  // Each page shows its list after "?", and closes it after another.
  const TemporaryFolder folder;
  LabInteractive viewer{folder.path()};
  for (const auto page :
       {LabBench::Page::schedules, LabBench::Page::board, LabBench::Page::lessons}) {
    viewer.bench.page = page;
    viewer.frame();
    viewer.type("?");
    CHECK(viewer.model.view.help);
    viewer.type("?");
    CHECK(!viewer.model.view.help);
  }
}

TEST_CASE("Esc goes back to the timeline of a run, if there is one") {
  const TemporaryFolder folder;
  LabInteractive viewer{folder.path()};
  viewer.press(keys::escape);
  CHECK(!viewer.model.view.lab);
  viewer.model.view.lab = true;
  viewer.model.timeline = {};
  viewer.press(keys::escape);
  CHECK(viewer.model.view.lab);
  std::vector<DrawnText> texts;
  viewer.record(&texts);
  viewer.frame();
  viewer.record(nullptr);
  for (const DrawnText& text : texts)
    CHECK(text.words.find("Back to the timeline") == std::string::npos);
}

TEST_CASE("Run it says where it writes, and writes there") {
  const TemporaryFolder folder;
  LabBench bench{folder.path() / "lab", folder.path() / "exports"};
  for (int run = 0; run < 2; ++run) {
    const std::string words = bench.run_it_words(4);
    CHECK(words.starts_with("Run one step on 4 real ranks (threads), on the modelled clock,"));
    bench.run_it(bench.row(0)->result.value(), bench.settings);
    const auto files = std::filesystem::directory_iterator{folder.path() / "lab"};
    std::vector<std::string> folders;
    for (const auto& each : files) folders.push_back(each.path().string());
    REQUIRE(folders.size() == 1);  // the one of the last run is deleted
    CHECK(words.find(folders.front() + " ") != std::string::npos);
    bench.run.stop();
  }
}

TEST_CASE("--lab opens a page of the lab, and needs no trace") {
  CHECK(lab_options({"--lab"}).lab == "schedules");
  CHECK(lab_options({"--lab", "board"}).lab == "board");
  CHECK(!lab_options({"--lab"}).listens());  // so that the usual port stays free
  CHECK(lab_options({"--lab", "--listen", "7099"}).listens());
  CHECK(lab_options({}).lab.empty());
  CHECK_THROWS_AS(lab_options({"--lab", "kitchen"}), UsageError);
}
