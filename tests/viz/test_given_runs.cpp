#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/trace/writer.h"
#include "tests/support/temporary_folder.h"
#include "viz/data/feed/given_runs.h"

using namespace lockstep;
using namespace lockstep::testing;
using namespace lockstep::viz;

TEST_CASE("paths are divided into the runs to compare, and those that are left out") {
  using Paths = std::vector<std::filesystem::path>;
  const TemporaryFolder folder;
  const auto trace = [&](const std::string& name, const std::string& run, int rank) {
    return folder.file(name, "[\n" + hello_line({.run = run, .rank = rank, .ranks = 2}));
  };
  const std::filesystem::path a0 = trace("a0.json", "a", 0), a1 = trace("a1.json", "a", 1);
  const std::filesystem::path b = trace("b.json", "b", 0), c = trace("c.json", "c", 0);
  const std::filesystem::path other = folder.file("torch.json", "{\"traceEvents\": []}");

  CHECK(divide_into_runs({a0, a1}).a == Paths{a0, a1});
  CHECK(divide_into_runs({a0, a1}).b.empty());
  CHECK(notice_words(divide_into_runs({a0, a1})).empty());

  const GivenRuns two = divide_into_runs({a0, b, a1});
  CHECK(two.a == Paths{a0, a1});
  CHECK(two.b == Paths{b});
  CHECK(notice_words(two).empty());
  const GivenRuns three = divide_into_runs({b, c, a0});
  CHECK(three.left_out == Paths{a0});
  CHECK(notice_words(three) ==
        "the viewer compares two runs: " + a0.string() + " is another run and is not shown");
  CHECK(notice_words(divide_into_runs({b, c, a0, other})) ==
        "the viewer compares two runs: " + a0.string() +
            " and 1 more belong to other runs and are not shown");

  // The same path again: the viewer compares two steps of one run.
  CHECK(divide_into_runs({a0, a0}).b == Paths{a0});
  CHECK(divide_into_runs({a0, a1, a0}).a == Paths{a0, a1});
  CHECK(divide_into_runs({a0, a1, a0}).b == Paths{a0});

  // Traces from other tools do not name a run. Together they form one run, separate from all named
  // runs; but each folder is a run.
  const std::filesystem::path second = folder.file("torch2.json", "{\"traceEvents\": []}");
  CHECK(divide_into_runs({other, second}).a.size() == 2);
  CHECK(divide_into_runs({other, a0}).b == Paths{a0});
  for (const char* name : {"one", "two"}) {
    std::filesystem::create_directory(folder.path() / name);
    std::filesystem::copy(other, folder.path() / name / "trace.json");
  }
  CHECK(divide_into_runs({folder.path() / "one", folder.path() / "two"}).b ==
        Paths{folder.path() / "two"});
  CHECK_THROWS_AS(divide_into_runs({folder.path() / "nothing"}), UsageError);
}
