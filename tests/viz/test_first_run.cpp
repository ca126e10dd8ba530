#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/trace/writer.h"
#include "tests/support/temporary_folder.h"
#include "viz/data/first_run.h"

using namespace lockstep;
using namespace lockstep::testing;
using namespace lockstep::viz;

TEST_CASE("of several runs, the first is opened and the others are named") {
  const TemporaryFolder folder;
  const auto trace = [&](const std::string& name, const std::string& run, int rank) {
    return folder.file(name, "[\n" + hello_line({.run = run, .rank = rank, .ranks = 2}));
  };
  const std::filesystem::path a0 = trace("a0.json", "a", 0), a1 = trace("a1.json", "a", 1);
  const std::filesystem::path b = trace("b.json", "b", 0), c = trace("c.json", "c", 0);
  const std::filesystem::path other = folder.file("torch.json", "{\"traceEvents\": []}");

  CHECK(first_run_of({a0, a1}).paths == std::vector{a0, a1});
  CHECK(notice_words(first_run_of({a0, a1})).empty());

  const FirstRun two = first_run_of({a0, b, a1});
  CHECK(two.paths == std::vector{a0, a1});
  CHECK(two.left_out == std::vector{b});
  CHECK(notice_words(two) ==
        "the viewer shows one run at a time: " + b.string() + " is another run and is not shown");
  CHECK(notice_words(first_run_of({b, c, a0})) ==
        "the viewer shows one run at a time: " + c.string() +
            " and 1 more belong to other runs and are not shown");

  // Traces from other tools do not name a run. Together they form one run, separate from all named
  // runs.
  CHECK(first_run_of({other, other}).paths.size() == 2);
  CHECK(first_run_of({other, a0}).left_out == std::vector{a0});
  CHECK_THROWS_AS(first_run_of({folder.path() / "nothing"}), UsageError);
}
