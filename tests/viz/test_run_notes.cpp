// Notes and bookmarks are kept beside the trace, and a damaged or foreign file is ignored.
#include <doctest/doctest.h>

#include <fstream>
#include <random>

#include "tests/support/temporary_folder.h"
#include "viz/data/window/run_notes.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

RunNotes some_notes() {
  RunNotes notes{.run = "run-1"};
  notes.put({.rank = 3, .at = 5'000'000, .text = "why \"late\"?\n"});
  notes.put({.rank = 0, .at = -7, .text = "ü"});
  notes.bookmarks[2] = TimeWindow{100, 2000};
  return notes;
}

}  // namespace

TEST_CASE("notes and bookmarks survive, for the same run only") {
  const testing::TemporaryFolder folder;
  const auto file = notes_file(folder.path());
  CHECK(file == folder.path() / "lockstep-viewer.notes");
  CHECK(notes_file(folder.path() / "x.json") == folder.path() / "x.json.notes");
  RunNotes notes = some_notes();
  REQUIRE(save_notes(notes, file));
  RunNotes found = load_notes(file, "run-1");
  REQUIRE(found.notes.size() == 2);
  CHECK(found.notes[0].text == "why \"late\"?\\n");
  CHECK(found.notes[1] == notes.notes[1]);
  CHECK(found.bookmarks == notes.bookmarks);
  CHECK(load_notes(file, "run-2").empty());
  CHECK(load_notes(file, "run-2").run == "run-2");
  // Without notes, no file is left.
  found.put({.rank = 3, .at = 5'000'000, .text = ""});
  found.put({.rank = 0, .at = -7, .text = ""});
  found.bookmarks = {};
  CHECK(found.empty());
  REQUIRE(save_notes(found, file));
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK_FALSE(save_notes(notes, folder.path() / "missing" / "file"));
}

TEST_CASE("the nearest note of the rank is found, and there are not too many") {
  RunNotes notes = some_notes();
  notes.put({.rank = 3, .at = 5'000'100, .text = "second"});
  CHECK(notes.find(3, 5'000'090, 1000)->text == "second");
  CHECK(notes.find(3, 5'000'000, 0)->text == "why \"late\"?\n");
  CHECK_FALSE(notes.find(3, 6'000'000, 1000));
  CHECK_FALSE(notes.find(1, 5'000'000, 1000));
  for (int i = 0; i < 2000; ++i) notes.put({.rank = i, .at = 1, .text = "x"});
  CHECK(notes.notes.size() == most_notes);
  RunNotes large;
  large.put({.text = std::string(100'000, 'x')});
  CHECK(large.notes[0].text.size() == longest_note);
}

TEST_CASE("damaged notes are ignored") {
  for (const char* text :
       {"", "[]", "{}", "{\"run\":\"r\",\"notes\":3}", "{\"run\":\"r\",\"notes\":[{\"rank\":-1}]}",
        "{\"run\":\"r\",\"notes\":[{\"rank\":1,\"at\":1e30,\"text\":\"x\"}]}",
        "{\"run\":\"r\",\"bookmarks\":[{\"number\":10,\"begin\":0,\"end\":1}]}",
        "{\"run\":\"r\",\"bookmarks\":[{\"number\":0,\"begin\":0,\"end\":1}]}",
        "{\"run\":\"r\",\"notes\":[]} more"})
    CHECK(parse_notes(text, "r").empty());
  const RunNotes found = parse_notes(
      "{\"run\":\"r\",\"notes\":[{\"rank\":1,\"at\":2,\"text\":\"\\u001b[31m\"}],"
      "\"bookmarks\":[{\"number\":1,\"begin\":5,\"end\":5},{\"number\":2,\"begin\":5,\"end\":6}]}",
      "r");
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0].text.find('\x1b') == std::string::npos);
  CHECK_FALSE(found.bookmarks[0]);
  CHECK(found.bookmarks[1] == TimeWindow{5, 6});
}
