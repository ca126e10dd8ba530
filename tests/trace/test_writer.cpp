#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/time/clock.h"
#include "core/trace/open_span.h"
#include "core/trace/writer.h"
#include "tests/support/complaints.h"
#include "tests/support/temporary_folder.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;
using namespace lockstep::testing;
namespace fs = std::filesystem;

namespace {

/// Parses a trace as strict JSON after adding its closing bracket.
nlohmann::json closed(const std::string& trace) {
  REQUIRE(trace.ends_with(",\n"));
  return nlohmann::json::parse(trace.substr(0, trace.size() - 2) + "\n]");
}

/// One thread's recordings: spans of all kinds, consecutive on the thread's own lane, so that the
/// recorded spans can be compared with the file one by one.
struct Author {
  Recorder* recorder;
  int lane;
  unsigned seed;
  std::vector<TraceEvent> written{};  ///< the spans

  void write(int count) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::int64_t n) {
      return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
    };
    Picoseconds at = below(3'500'000'000'000'000'000);  // forty days: too large for a double
    for (int i = 0; i < count; ++i) {
      const Picoseconds start = at + (below(2) == 0 ? 0 : below(3'000'000));
      const Picoseconds end = start + 1 + below(4) * below(5'000'000);
      const Span span{.name = "work",
                      .category = static_cast<Category>(below(category_count)),
                      .stage = static_cast<int>(below(5)) - 1,
                      .microbatch = static_cast<int>(below(40)),
                      .layer = static_cast<int>(below(9)) - 1,
                      .peer = static_cast<int>(below(4)) - 1,
                      .bytes = below(2) == 0 ? -1 : below(std::int64_t{1} << 40),
                      .sequence = i,
                      .group = below(2) == 0 ? nullptr : "world",
                      .group_size = 8,
                      .algorithm = below(2) == 0 ? nullptr : "ring"};
      recorder->span(lane, span, start, end);
      written.push_back({.lane = lane, .span = span, .start = start, .end = end});
      at = end;
      if (i % 64 == 0) std::this_thread::yield();
      if (i % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds{3});
    }
  }
};

std::string action_name(const Span& span) {
  const std::map<Category, char> letters{{Category::forward, 'F'},
                                         {Category::backward, 'B'},
                                         {Category::backward_input, 'I'},
                                         {Category::backward_weight, 'W'}};
  const auto letter = letters.find(span.category);
  if (letter == letters.end() || span.stage < 0) return span.name;
  return "PP:" + std::to_string(span.stage) + letter->second + std::to_string(span.microbatch);
}

}  // namespace

TEST_CASE("everything that threads record while the writer runs is in the files, in order") {
  const TemporaryFolder folder;
  constexpr int ranks = 3, threads = 3, count = 4000;
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<Author> authors;
  {
    TraceWriter writer{folder.path() / "run", "", ""};
    for (int rank = 0; rank < ranks; ++rank) {
      recorders.push_back(std::make_unique<Recorder>());
      recorders.back()->set_step(rank * 10);
      for (int i = 0; i < threads; ++i)
        authors.push_back({recorders.back().get(),
                           recorders.back()->add_lane("lane " + std::to_string(i)),
                           static_cast<unsigned>(rank * 10 + i)});
      writer.add({.run = "a run", .lesson = "99 test", .rank = rank, .ranks = ranks},
                 *recorders.back());
    }
    std::vector<std::thread> running;
    for (Author& author : authors) running.emplace_back([&author] { author.write(count); });
    for (int rank = 0; rank < ranks; ++rank) {
      Recorder& recorder = *recorders[static_cast<std::size_t>(rank)];
      recorder.memory({.bytes = {1, 2, 3, 4, rank}}, 77);
      recorder.loss(2.5 + rank, 88);
    }
    for (std::thread& thread : running) thread.join();
    for (int rank = 0; rank < ranks; ++rank) {  // no other thread uses the lanes any more
      Recorder& recorder = *recorders[static_cast<std::size_t>(rank)];
      const int send = recorder.add_lane("send"), receive = recorder.add_lane("receive");
      const Span message{.name = "all_reduce",
                         .category = Category::communication,
                         .message = static_cast<std::uint64_t>(rank + 1)};
      Span sent = message, received = message;
      sent.role = MessageRole::sends;
      received.role = MessageRole::receives;
      recorder.span(send, sent, 100, 200);
      received.message = static_cast<std::uint64_t>((rank + ranks - 1) % ranks + 1);
      recorder.span(receive, received, 150, 250);
    }
    writer.finish();
    writer.finish();  // the second call does nothing
  }

  std::vector<fs::path> files;
  for (int rank = 0; rank < ranks; ++rank) {
    files.push_back(folder.path() / "run" / ("rank" + std::to_string(rank) + ".json"));
    const std::string text = read_file(files.back());
    CHECK(text.starts_with("[\n{\"ph\":\"M\",\"name\":\"lockstep\""));
    const nlohmann::json events = closed(text);
    // One event per line, the `end` event last.
    CHECK(events.size() + 1 == static_cast<std::size_t>(std::ranges::count(text, '\n')));
    CHECK(events.back()["name"] == "end");
    CHECK(events.back()["args"]["spans"] == threads * count + 2);
    // Each thread's spans, in the order in which the thread recorded them.
    std::map<int, int> next;
    for (const nlohmann::json& event : events)
      if (event["ph"] == "X" && event["name"] != "all_reduce") {
        CHECK(event["args"].value("seq", -1) == next[event["tid"]]++);
        CHECK(event["args"].value("step", -1) == rank * 10);
      }
    CHECK(next == std::map<int, int>{{1, count}, {2, count}, {3, count}});
  }

  // The merged file is a single, strictly valid trace with all of the lines.
  merge_traces(files, folder.path() / "trace.json");
  const std::string merged = read_file(folder.path() / "trace.json");
  std::string lines = "[\n";
  for (const fs::path& file : files) lines += read_file(file).substr(2);
  CHECK(merged == lines);
  closed(merged);

  Timeline timeline;
  const ReadReport report = read_traces({folder.path() / "trace.json"}, timeline);
  CHECK(report.malformed == 0);
  CHECK(timeline.run().run == "a run");
  CHECK(timeline.run().ranks == ranks);
  CHECK(timeline.ended());
  REQUIRE(timeline.messages().size() == ranks);
  for (const TimelineMessage& message : timeline.messages()) {
    CHECK(message.to_rank == (message.from_rank + 1) % ranks);
    CHECK(message.from_lane == 4);
    CHECK(message.to_lane == 5);
    CHECK(message.sent == 100);
    CHECK(message.left == 200);
    CHECK(message.arriving == 150);
    CHECK(message.received == 250);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const RankTimeline& found = *timeline.find_rank(rank);
    CHECK(found.name == "rank " + std::to_string(rank));
    CHECK(found.spans == threads * count + 2);
    CHECK(found.spans_written == found.spans);
    REQUIRE(found.memory.size() == 1);
    CHECK(found.memory[0].at == 77);
    CHECK(found.memory[0].bytes[4] == rank);
    REQUIRE(found.losses.size() == 1);
    CHECK(found.losses[0].loss == 2.5 + rank);
    REQUIRE(found.lanes.size() == threads + 3);
    CHECK(found.lanes[0]->name() == "compute");
    for (int i = 0; i < threads; ++i) {
      const Lane& lane = *found.lanes[static_cast<std::size_t>(i) + 1];
      CHECK(lane.name() == "lane " + std::to_string(i));
      std::vector<TimelineSpan> spans;
      for (const Band band : {Band::step, Band::action, Band::kernel})
        for (const SpanRow& row : lane.rows(band))
          spans.insert(spans.end(), row.begin(), row.end());
      std::ranges::sort(spans, {}, &TimelineSpan::start);
      const auto& written = authors[static_cast<std::size_t>(rank * threads + i)].written;
      REQUIRE(spans.size() == written.size());
      bool same = true;
      for (std::size_t k = 0; k < spans.size(); ++k) {
        const auto& [was, is] = std::pair{written[k], spans[k]};
        same = same && is.start == was.start && is.end == was.end &&
               is.category == was.span.category && is.stage == was.span.stage &&
               is.microbatch == was.span.microbatch && is.layer == was.span.layer &&
               is.peer == was.span.peer && is.bytes == was.span.bytes &&
               is.sequence == was.span.sequence && is.step == rank * 10 &&
               is.group_size == was.span.group_size &&
               timeline.name(is.group) == (was.span.group ? was.span.group : "") &&
               timeline.name(is.algorithm) == (was.span.algorithm ? was.span.algorithm : "") &&
               timeline.name(is.name) == action_name(was.span);
      }
      CHECK(same);
    }
  }
}

TEST_CASE("a span that stays open is in the file while it is open, and closed by its end") {
  const TemporaryFolder folder;
  const Clock clock = Clock::wall();
  Recorder recorder;
  recorder.set_clock(clock);
  const auto lane_now = [&](bool& ended) {
    Timeline timeline;
    read_traces({folder.path() / "rank0.json"}, timeline);
    ended = timeline.find_rank(0)->ended;
    const auto& lanes = timeline.find_rank(0)->lanes;
    return lanes.empty() ? std::vector<AnnouncedSpan>{} : lanes.front()->open();
  };
  TraceWriter writer{folder.path(), "", ""};
  writer.add({}, recorder);
  const Picoseconds start = clock.now();
  const Span span{.name = "f", .category = Category::forward, .stage = 0, .microbatch = 1};
  {
    OpenSpan shut{recorder, 0, span, start};
    bool ended = false;
    while (lane_now(ended).empty() && clock.now() - start < picoseconds(60))
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    CHECK(clock.now() - start >= picoseconds(0.1));
    const auto open = lane_now(ended);
    REQUIRE(open.size() == 1);
    CHECK(open.front().span.start == start / 1000 * 1000);
    CHECK(open.front().span.duration() >= picoseconds(0.1));
    CHECK(open.front().span.category == Category::forward);
    shut.end(clock.now());
  }
  OpenSpan left{recorder, 0, {.name = "left open"}, clock.now()};
  writer.finish();
  bool ended = false;
  CHECK(lane_now(ended).size() == 1);  // the span left open when the run ended
  CHECK(ended);
}

TEST_CASE("a trace that is ended while ranks continue has as many spans as its end event says") {
  for (int round = 0; round < 20; ++round) {
    const TemporaryFolder folder;
    Recorder recorder;
    TraceWriter writer{folder.path(), "", ""};
    writer.add({}, recorder);
    std::atomic<bool> over{false};
    std::atomic<int> recorded{0};
    std::vector<std::thread> ranks;
    for (int i = 0; i < 2; ++i)
      ranks.emplace_back([&, lane = recorder.add_lane(std::to_string(i))] {
        for (Picoseconds at = 0; !over; ++at) {
          recorder.span(lane, {.name = "work"}, at, at + 1);
          ++recorded;
          if (at % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds{50});
        }
      });
    while (recorded <= 100 * round) std::this_thread::yield();
    writer.finish();
    over = true;
    for (std::thread& rank : ranks) rank.join();
    const nlohmann::json events = closed(read_file(folder.path() / "rank0.json"));
    const auto spans =
        std::ranges::count_if(events, [](const nlohmann::json& each) { return each["ph"] == "X"; });
    CHECK(spans > 0);
    CHECK(events.back()["name"] == "end");
    CHECK(events.back()["args"]["spans"] == spans);
  }
}

TEST_CASE("a recorder that is off leaves an empty trace") {
  const TemporaryFolder folder;
  Recorder off{false};
  {
    TraceWriter writer{folder.path(), "", ""};
    writer.add({}, off);
    off.span(0, {.name = "x"}, 0, 1);
    off.loss(1, 2);
  }
  const nlohmann::json events = closed(read_file(folder.path() / "rank0.json"));
  CHECK(events.back()["args"]["spans"] == 0);
}

TEST_CASE("the hello reports its values, whatever characters they contain") {
  const TraceHello hello{.run = "a \"run\"\n",
                         .lesson = "09 1F1B",
                         .rank = 2,
                         .ranks = 4,
                         .mesh = R"({"pp":4})",
                         .clock = "modelled",
                         .cluster = "two\\nodes",
                         .cluster_description = "{\n \"nodes\": 2\n}",
                         .clock_offset_ns = 123,
                         .predicted = R"({"bubble":0.25})"};
  const std::string line = hello_line(hello);
  CHECK(std::ranges::count(line, '\n') == 1);
  const auto event = nlohmann::json::parse(line.substr(0, line.size() - 2));
  CHECK(event["pid"] == 2);
  CHECK(event["args"]["format"] == trace_format);
  CHECK(event["args"]["run"] == hello.run);
  CHECK(event["args"]["cluster"] == hello.cluster);
  CHECK(event["args"]["cluster_description"]["nodes"] == 2);
  CHECK(hello_line({}).find("cluster_description") == std::string::npos);
  CHECK(event["args"]["mesh"]["pp"] == 4);
  CHECK(event["args"]["clock_offset_ns"] == 123);
  CHECK(event["args"]["predicted"]["bubble"] == 0.25);
}

TEST_CASE("if one rank recorded nothing, the merge has the other ranks' records") {
  const TemporaryFolder folder;
  const fs::path one = folder.file("rank0.json", "[\n{\"a\":1},\n");
  const fs::path none = folder.file("rank1.json", "[\n");
  merge_traces({none, one, none}, folder.path() / "trace.json");
  CHECK(read_file(folder.path() / "trace.json") == "[\n{\"a\":1},\n");
}

namespace {

/// A writer that collects its warnings.
struct Warned {
  explicit Warned(const fs::path& folder)
      : writer{folder, "", "", [this](const std::string& line) { warnings.push_back(line); }} {}
  std::vector<std::string> warnings;
  TraceWriter writer;
};

/// A limit on the size of files, which simulates a full disk.
class SizeLimit {
 public:
  SizeLimit() { REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0); }
  ~SizeLimit() {
    lift();
    ::signal(SIGXFSZ, ignored_);
  }
  void set(rlim_t bytes) const {
    const rlimit small{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  }
  void lift() const { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
  void (*ignored_)(int) = ::signal(SIGXFSZ, SIG_IGN);
};

}  // namespace

TEST_CASE("a file that cannot be opened gives a warning, and its recorder is still emptied") {
  const TemporaryFolder folder;
  const fs::path file = folder.file("file", "");
  fs::create_directory(folder.path() / "rank0.json");
  folder.file("rank1.json", "[1, 2]\n");
  fs::create_symlink(folder.path() / "elsewhere", folder.path() / "rank2.json");
  for (const auto& [where, rank, why] : {std::tuple{file / "below", 0, "Not a directory"},
                                         {folder.path(), 0, "not a trace"},
                                         {folder.path(), 1, "not a trace"},
                                         {folder.path(), 2, "not a trace"}}) {
    CAPTURE(rank);
    Recorder recorder;
    Warned warned{where};
    warned.writer.add({.rank = rank}, recorder);
    recorder.span(0, {.name = "work"}, 0, 1);
    warned.writer.finish();
    CHECK(recorder.drain().empty());
    REQUIRE(warned.warnings.size() == 1);
    CHECK(unlike(warned.warnings.front(),
                 {"can't write the trace", "rank" + std::to_string(rank) + ".json", why,
                  "the run goes on"}) == "");
  }
  CHECK(read_file(folder.path() / "rank1.json") == "[1, 2]\n");
  CHECK_FALSE(fs::exists(folder.path() / "elsewhere"));
}

TEST_CASE("a disk that is full from the start gives a warning at once") {
  const TemporaryFolder folder;
  const SizeLimit limit;
  Recorder recorder;
  Warned warned{folder.path()};
  limit.set(100);  // less than the hello
  warned.writer.add({}, recorder);
  limit.lift();
  REQUIRE(warned.warnings.size() == 1);
  CHECK(unlike(warned.warnings.front(), {"can't write", "rank0.json", "File too large"}) == "");
  warned.writer.finish();
  CHECK(warned.warnings.size() == 1);
  CHECK(read_file(folder.path() / "rank0.json") == "[\n");  // the whole lines of those 100 bytes
  CHECK_FALSE(is_complete_trace(folder.path() / "rank0.json"));
  if (fs::exists("/dev/full"))
    CHECK(unlike(complaint_of<RunError>([&] { merge_traces({}, "/dev/full"); }),
                 {"can't write", "/dev/full"}) == "");
}

TEST_CASE("a disk that fills up ends that rank's trace on a whole line, with a warning at once") {
  const TemporaryFolder folder;
  const SizeLimit limit;
  Recorder large, modest;
  Warned warned{folder.path()};
  warned.writer.add({.rank = 0, .ranks = 2}, large);
  warned.writer.add({.rank = 1, .ranks = 2}, modest);
  limit.set(20'000);
  for (int i = 0; i < 2000; ++i) large.span(0, {.name = "work"}, i, i + 1);
  modest.span(0, {.name = "work"}, 0, 1);
  // The writer keeps draining the recorder, so that memory does not fill up: after one of the
  // rounds, the recorder is empty.
  const auto text = [&] { return read_file(folder.path() / "rank0.json"); };
  std::size_t kept = 1;
  for (int attempt = 0; attempt < 200 && kept > 0; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    const bool full = text().size() > 15'000;
    kept = large.drain().size();
    if (!full) kept = 1;
    if (kept > 0)
      for (int i = 0; i < 2000; ++i) large.span(0, {.name = "work"}, i, i + 1);
  }
  CHECK(kept == 0);
  const std::string before_the_end = text();
  // Free space no longer helps, because the middle of the trace is already lost.
  limit.lift();
  large.span(0, {.name = "work"}, 5000, 5001);
  warned.writer.finish();
  REQUIRE(warned.warnings.size() == 1);
  CHECK(unlike(warned.warnings.front(),
               {"can't write the trace", "rank0.json", "File too large"}) == "");
  CHECK(text() == before_the_end);
  closed(text());
  CHECK_FALSE(is_complete_trace(folder.path() / "rank0.json"));
  CHECK(is_complete_trace(folder.path() / "rank1.json"));
  CHECK(closed(read_file(folder.path() / "rank1.json")).back()["args"]["spans"] == 1);
}

TEST_CASE("a trace is told from another file by its beginning, and a complete one by its end") {
  const TemporaryFolder folder;
  Recorder recorder;
  {
    TraceWriter writer{folder.path(), "", ""};
    writer.add({}, recorder);
  }
  const std::string whole = read_file(folder.path() / "rank0.json");
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const std::string file = folder.file("cut", whole.substr(0, size));
    CHECK(is_own_trace(file));
    CHECK(is_complete_trace(file) == (size == whole.size()));
  }
  CHECK(is_own_trace(folder.path() / "absent"));
  CHECK_FALSE(is_complete_trace(folder.path() / "absent"));
  for (const char* text : {"{}", "[", "[\n{\"ph\":\"X\"", "[1]", "\n\n\n"})
    CHECK(is_own_trace(folder.file("other", text)) == (std::string{text} == "["));
  CHECK_FALSE(is_own_trace(folder.path()));
  CHECK_FALSE(is_complete_trace(folder.file("newline", "\n")));
  CHECK_FALSE(is_complete_trace(folder.file("comma", ",\n")));
}
