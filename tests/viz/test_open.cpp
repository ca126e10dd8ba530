// Opening traces: the folders of the dialog, the dialog itself, and the first window.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"
#include "tests/viz/interactive.h"
#include "viz/data/feed/folder_listing.h"
#include "viz/data/window/settings.h"

using namespace lockstep;
using namespace lockstep::viz;
namespace fs = std::filesystem;

namespace {

/// A folder with two runs, a folder, two traces and other files.
void fill(const testing::TemporaryFolder& folder) {
  for (const char* name : {"b-run", "torch", "a-folder", ".hidden"})
    fs::create_directory(folder.path() / name);
  folder.file("b-run/rank0.json", "");
  folder.file("torch/worker0.pt.trace.json", "");
  folder.file("a-folder/notes.txt", "");
  folder.file("z.json", "");
  folder.file("y.json.gz", "");
  folder.file("readme.txt", "");
}

class Dialog : public Interactive {
 public:
  using Interactive::Interactive;
  void click_on(const std::string& words, bool twice = false) {
    for (const OpenView::Spot& spot : screen.open().spots())
      if (spot.words == words) {
        const float x = (spot.rect.left + spot.rect.right) / 2;
        const float y = (spot.rect.top + spot.rect.bottom) / 2;
        click(x, y);
        if (twice) click(x, y);
        frame();
        return;
      }
    FAIL("no such entry: ", words);
  }
  bool offers(const std::string& words) const {
    for (const OpenView::Spot& spot : screen.open().spots())
      if (spot.words == words) return true;
    return false;
  }
};

}  // namespace

TEST_CASE("a folder's runs, folders and traces") {
  const testing::TemporaryFolder folder;
  fill(folder);
  using Kind = FolderEntry::Kind;
  const FolderListing listing = list_folder(folder.path());
  CHECK(listing.entries == std::vector<FolderEntry>{{Kind::folder, "a-folder"},
                                                    {Kind::run, "b-run"},
                                                    {Kind::run, "torch"},
                                                    {Kind::trace, "y.json.gz"},
                                                    {Kind::trace, "z.json"}});
  CHECK(listing.trouble.empty());
  CHECK(list_folder(folder.path(), 2).left_out == 4);
  CHECK(list_folder(folder / "none").trouble.find("none") != std::string::npos);
}

TEST_CASE("Tab completes a path as far as it is unambiguous") {
  const testing::TemporaryFolder folder;
  fill(folder);
  fs::create_directory(folder.path() / "torch-2");
  CHECK(completed_path(folder / "b") == (folder / "b-run/"));
  CHECK(completed_path(folder / "t") == (folder / "torch"));
  CHECK(completed_path(folder / "z") == (folder / "z.json"));
  CHECK(completed_path(folder / "nothing") == (folder / "nothing"));
}

TEST_CASE("the dialog goes through folders and opens a run, or compares it") {
  const testing::TemporaryFolder folder;
  fill(folder);
  const std::string run = fs::weakly_canonical(folder.path() / "b-run").string();
  Dialog viewer{sample_1f1b(2, 4, 3)};
  viewer.model.source.recent = {(folder.path() / "old").string()};
  ViewState& view = viewer.model.view;
  set_modifiers(true, false);
  viewer.press(keys::o);
  set_modifiers(false, false);
  viewer.frame();
  REQUIRE(view.opening);
  REQUIRE(viewer.offers("b-run"));
  viewer.click_on("a-folder");
  CHECK_FALSE(viewer.offers("b-run"));
  viewer.click_on("..");
  REQUIRE(viewer.offers("b-run"));
  viewer.click_on("b-run");
  CHECK(view.open.paths.empty());
  viewer.click_on("Compare with this run");
  CHECK(view.open.paths == std::vector<std::string>{run});
  CHECK(view.open.beside);
  view.open = {};
  viewer.click_on("Open");
  CHECK(view.open.paths == std::vector<std::string>{run});
  CHECK_FALSE(view.open.beside);
  view.open = {};
  // Keys of other views have no effect while the dialog is open.
  viewer.press(keys::p);
  CHECK_FALSE(view.critical_path);
  viewer.click_on("Cancel");
  CHECK_FALSE(view.opening);
  CHECK(view.open.paths.empty());
}

TEST_CASE("traces dropped on the window are opened or compared, as the user decides") {
  Dialog viewer{sample_1f1b(2, 4, 3)};
  ViewState& view = viewer.model.view;
  view.dropped = {"/runs/a", "/runs/b"};
  view.opening = true;
  viewer.frame();
  viewer.frame();
  CHECK_FALSE(viewer.offers("path"));
  viewer.click_on("Compare with this run");
  CHECK(view.open.paths == view.dropped);
  CHECK(view.open.beside);
  view.open = {};
  viewer.press(keys::escape);
  CHECK_FALSE(view.opening);
  CHECK(view.dropped.empty());
}

TEST_CASE("the first window fits the screen") {
  CHECK(first_window({1600, 900}, {1920, 1040}, 1) == std::pair{1600, 900});
  CHECK(first_window({1600, 900}, {1366, 728}, 1) == std::pair{1350, 680});
  CHECK(first_window({1600, 900}, {3840, 2100}, 2) == std::pair{3200, 1800});
  CHECK(first_window({1600, 900}, {2880, 1700}, 2) == std::pair{2864, 1652});
  CHECK(first_window({1600, 900}, {0, 0}, 1) == std::pair{1600, 900});
  CHECK(first_window({1600, 900}, {100, 100}, 1) == std::pair{smallest_window, smallest_window});
}
