#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/threads/thread_fabric.h"
#include "core/run/files/gather_traces.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace fs = std::filesystem;

namespace {

std::string trace_of(int rank, std::size_t lines) {
  std::string text = "[\n{\"hello\":\"of rank " + std::to_string(rank) + "\"},\n";
  for (std::size_t i = 0; i < lines; ++i) text += "{\"event\":" + std::to_string(i) + "},\n";
  return text;
}

/// Gathers traces among ranks whose folders are `folders[rank]`. Returns the number of files that
/// each rank sent.
std::vector<int> gather(const std::vector<fs::path>& folders, std::size_t piece) {
  const int count = static_cast<int>(folders.size());
  ThreadFabric fabric{count};
  std::vector<int> sent(folders.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      const auto transport = fabric.endpoint(rank);
      const auto at = static_cast<std::size_t>(rank);
      try {
        sent[at] = gather_traces(*transport, {"run", folders[at]}, piece);
        fabric.finish(rank);
      } catch (const std::exception& error) {
        fabric.fail(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(fabric.failure() == "");
  return sent;
}

}  // namespace

TEST_CASE("ranks send rank 0 the traces that it lacks, complete, and no others") {
  for (const std::size_t piece : {7UL, 64UL, 1UL << 20}) {
    CAPTURE(piece);
    const TemporaryFolder here, there;
    here.file("rank0.json", trace_of(0, 5));
    here.file("rank1.json", trace_of(1, 9));
    there.file("rank2.json", trace_of(2, 100));
    there.file("rank3.json", trace_of(3, 0));
    CHECK(gather({here.path(), here.path(), there.path(), there.path()}, piece) ==
          std::vector<int>{2, 2, 2, 2});
    for (int rank = 0; rank < 4; ++rank)
      CHECK(read_file(here.path() / ("rank" + std::to_string(rank) + ".json")) ==
            trace_of(rank, rank == 0   ? 5
                           : rank == 1 ? 9
                           : rank == 2 ? 100
                                       : 0));
    CHECK(std::distance(fs::directory_iterator{here.path()}, {}) == 4);
    CHECK(std::distance(fs::directory_iterator{there.path()}, {}) == 2);
    // Rank 0 has the files now, so none is sent again.
    CHECK(gather({here.path(), here.path(), there.path(), there.path()}, piece) ==
          std::vector<int>{0, 0, 0, 0});
  }
}

TEST_CASE("a previous run's file of the same length is not mistaken for the rank's") {
  const TemporaryFolder here, there;
  here.file("rank0.json", trace_of(0, 1));
  std::string old = trace_of(1, 3);
  std::replace(old.begin(), old.end(), 'h', 'H');
  here.file("rank1.json", old);
  there.file("rank1.json", trace_of(1, 3));
  CHECK(gather({here.path(), there.path()}, 10) == std::vector<int>{1, 1});
  CHECK(read_file(here.path() / "rank1.json") == trace_of(1, 3));
}

TEST_CASE("if nothing is traced, nothing is sent") {
  CHECK(gather({{}, {}}, 10) == std::vector<int>{0, 0});
  const TemporaryFolder here;
  CHECK(gather({here.path(), here.path()}, 10) == std::vector<int>{0, 0});
}
