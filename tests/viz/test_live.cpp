#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "tests/viz/live_viewer.h"
#include "tests/viz/sample_run.h"

using namespace lockstep;
using namespace lockstep::viz;
using namespace lockstep::testing;

namespace {

std::int64_t spans_of(const Viewer& viewer, int rank) {
  const RankTimeline* found = viewer.timeline.find_rank(rank);
  return found ? found->spans : -1;
}

bool has_ended(const Viewer& viewer, int rank) {
  const RankTimeline* found = viewer.timeline.find_rank(rank);
  return found && found->ended;
}

}  // namespace

TEST_CASE("ranks stream their files, and the viewer has every span") {
  const SampleRun run = sample_1f1b(4, 8, 3);
  const auto traces = sample_traces(run);
  Viewer viewer;
  std::vector<std::unique_ptr<FakeRank>> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(std::make_unique<FakeRank>(viewer.port()));
    ranks.back()->send(sample_hello(run, rank));
    CHECK(ranks.back()->line() == "resume 0");
    ranks.back()->send(traces[static_cast<std::size_t>(rank)]);
  }
  CHECK(viewer.until([&] { return viewer.timeline.ended(); }));
  CHECK(viewer.server.connected() == 4);
  CHECK(viewer.feed.malformed() == 0);
  for (const auto& rank : viewer.timeline.ranks()) CHECK(rank->spans == rank->spans_written);
  CHECK(viewer.timeline.messages().size() == 3 * 2 * 3 * 8);
}

TEST_CASE("a connection that breaks anywhere resumes at the byte where it broke") {
  const SampleRun run = sample_1f1b(2, 4, 2);
  const std::string trace = sample_traces(run)[0];
  Viewer viewer;
  std::size_t at = 0;
  for (const std::size_t until :
       {std::size_t{1}, trace.size() / 3, trace.size() / 2, trace.size()}) {
    // Data sent before the connection was cut may not have been read yet. In that case the viewer
    // answers with a smaller number, and the rank connects again.
    const std::string hello = sample_hello(run, 0);
    std::string answer;
    for (int attempt = 0; attempt < 1000; ++attempt) {
      FakeRank rank{viewer.port()};
      rank.send(hello.substr(0, 20));  // in two pieces, as TCP may deliver it
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      rank.send(hello.substr(20));
      answer = rank.line();
      if (answer != "resume " + std::to_string(at)) continue;
      rank.send(std::string_view{trace}.substr(at, until - at));
      break;
    }
    REQUIRE(answer == "resume " + std::to_string(at));
    at = until;
  }
  CHECK(viewer.until([&] { return has_ended(viewer, 0); }));
  CHECK(spans_of(viewer, 0) == viewer.timeline.find_rank(0)->spans_written);
  CHECK(viewer.feed.malformed() == 0);
}

TEST_CASE("hello and data may arrive in one piece, although ranks wait for the answer") {
  const SampleRun run = sample_1f1b(2, 4, 1);
  Viewer viewer;
  FakeRank rank{viewer.port()};
  rank.send(sample_hello(run, 0) + sample_traces(run)[0]);
  CHECK(viewer.until([&] { return has_ended(viewer, 0); }));
}

TEST_CASE("a new run replaces the old one, and late ranks of the old one are refused") {
  SampleRun run = sample_1f1b(2, 4, 1);
  Viewer viewer;
  FakeRank old_rank{viewer.port()};
  old_rank.send(sample_hello(run, 0));
  CHECK(old_rank.line() == "resume 0");
  old_rank.send(sample_traces(run)[0]);
  CHECK(viewer.until([&] { return spans_of(viewer, 0) > 0; }));

  SampleRun next = run;
  next.run = "20260101-130000-09";
  next.lesson = "next";
  FakeRank new_rank{viewer.port()};
  new_rank.send(sample_hello(next, 1));
  CHECK(new_rank.line() == "resume 0");
  new_rank.send(sample_traces(next)[1]);
  CHECK(viewer.until([&] { return spans_of(viewer, 1) > 0; }));
  CHECK(viewer.timeline.run().lesson == "next");
  CHECK(spans_of(viewer, 0) == -1);
  CHECK(old_rank.line().empty());  // closed

  FakeRank late{viewer.port()};
  late.send(sample_hello(run, 0));
  CHECK(late.line() == "refused: the viewer shows a later run");
}

TEST_CASE("malformed lines are counted and named, and later lines are read") {
  const SampleRun run = sample_1f1b(2, 4, 1);
  Viewer viewer;
  FakeRank rank{viewer.port()};
  rank.send(sample_hello(run, 0));
  CHECK(rank.line() == "resume 0");
  rank.send("[\n{\"ph\":\"X\",broken},\nnonsense\n" + sample_traces(run)[0]);
  CHECK(viewer.until([&] { return has_ended(viewer, 0); }));
  CHECK(viewer.feed.malformed() == 2);
  CHECK(viewer.feed.first_malformed().starts_with("rank 0, line 2: "));
  CHECK(spans_of(viewer, 0) == viewer.timeline.find_rank(0)->spans_written);
}

TEST_CASE("a line that never ends takes no memory, and what follows it is read") {
  const SampleRun run = sample_1f1b(2, 4, 1);
  Viewer viewer;
  FakeRank rank{viewer.port()};
  rank.send(sample_hello(run, 0));
  CHECK(rank.line() == "resume 0");
  // The server and the kernel may not be able to buffer all of this. Sending then blocks until the
  // viewer reads, so a second thread sends while this one runs the viewer.
  std::thread sender{[&] {
    rank.send("[\n");
    for (int i = 0; i < 8; ++i) rank.send(std::string(1 << 20, 'x'));
    rank.send(std::string("\n\0\xff\n", 4) + sample_traces(run)[0].substr(2));
  }};
  CHECK(viewer.until([&] { return has_ended(viewer, 0); }));
  sender.join();
  CHECK(viewer.feed.malformed() == 2);
  CHECK(viewer.feed.first_malformed().starts_with("rank 0, line 2: a line without an end: xxx"));
  CHECK(spans_of(viewer, 0) == viewer.timeline.find_rank(0)->spans_written);
}

TEST_CASE("a viewer that parses slowly buffers little, and the rank waits") {
  const SampleRun run = sample_1f1b(1, 4, 1);
  Viewer viewer;
  const FakeRank rank{viewer.port()};
  rank.send(sample_hello(run, 0));
  CHECK(rank.line() == "resume 0");
  constexpr std::size_t offered = 200'000'000;
  std::atomic<std::size_t> sent{0};
  std::atomic<bool> stop{false};
  std::thread sender{[&] {
    const std::string lines(1 << 20, '\n');
    while (!stop && sent < offered) sent += rank.offer(lines);
  }};
  constexpr std::size_t pumps = 30;
  for (std::size_t i = 0; i < pumps; ++i) {
    viewer.feed.pump(std::chrono::microseconds{0});
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  // The sum of the parsed bytes, the server's buffer, and the bytes that the kernel may buffer at
  // both ends.
  constexpr std::size_t kernel = 32 << 20;
  CHECK(sent <= pumps * LiveServer::piece + LiveServer::most_buffered + kernel);
  stop = true;
  sender.join();
}

TEST_CASE("at the memory limit the viewer stops reading, and a new run frees the memory") {
  const SampleRun run = sample_1f1b(1, 4, 1);
  const std::size_t before = resident_bytes();
  constexpr std::size_t allowed = 48 << 20;
  Viewer viewer{{}, MemoryLimit{before + allowed}};
  const FakeRank rank{viewer.port()};
  rank.send(sample_hello(run, 0));
  CHECK(rank.line() == "resume 0");
  std::atomic<bool> stop{false};
  std::thread sender{[&] {
    const std::string flow = "{\"ph\":\"s\",\"pid\":0,\"tid\":0,\"ts\":1,\"id\":";
    std::string lines;
    for (int id = 0; !stop; lines.clear()) {
      for (int i = 0; i < 1000; ++i) lines += flow + std::to_string(id++) + "},\n";
      for (std::string_view rest = lines; !stop && !rest.empty();)
        rest.remove_prefix(rank.offer(rest));
    }
  }};
  CHECK(viewer.until([&] { return viewer.progress.full; }));
  CHECK(resident_bytes() < before + allowed + (16 << 20));
  const std::int64_t lines = viewer.feed.malformed();
  for (int i = 0; i < 10; ++i) viewer.feed.pump(std::chrono::milliseconds{5});
  CHECK(resident_bytes() < before + allowed + (16 << 20));
  CHECK(viewer.feed.malformed() == lines);
  stop = true;
  sender.join();

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers keep freed memory
  SampleRun next = run;
  next.run = "20260101-130000-09";
  const FakeRank new_rank{viewer.port()};
  new_rank.send(sample_hello(next, 0));
  CHECK(new_rank.line() == "resume 0");
  new_rank.send(sample_traces(next)[0]);
  CHECK(viewer.until([&] { return has_ended(viewer, 0); }));
  CHECK_FALSE(viewer.progress.full);
  CHECK(resident_bytes() < before + allowed / 2);
#endif
}
