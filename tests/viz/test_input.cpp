#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "tests/viz/sample_run.h"
#include "viz/data/feed/input_feed.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// A pipe connected to a feed, without a window.
class Piped {
 public:
  Piped() {
    REQUIRE(::pipe2(ends_, O_CLOEXEC) == 0);
    feed = std::make_unique<InputFeed>(ends_[0], timeline);
  }
  ~Piped() {
    end();
    ::close(ends_[0]);
  }
  Piped(const Piped&) = delete;
  Piped& operator=(const Piped&) = delete;

  void send(std::string_view bytes) {
    constexpr std::size_t fits = 32 * 1024;  // a pipe buffers this much without a reader
    for (; !bytes.empty(); bytes.remove_prefix(std::min(fits, bytes.size()))) {
      const std::string_view piece = bytes.substr(0, fits);
      REQUIRE(::write(ends_[1], piece.data(), piece.size()) == static_cast<ssize_t>(piece.size()));
      feed->pump(std::chrono::seconds{1});
    }
  }
  void end() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
    feed->pump(std::chrono::seconds{1});
  }

  Timeline timeline;
  std::unique_ptr<InputFeed> feed;

 private:
  int ends_[2] = {-1, -1};
};

void has_all_of(const Piped& piped, int ranks) {
  REQUIRE(static_cast<int>(piped.timeline.ranks().size()) == ranks);
  for (const auto& rank : piped.timeline.ranks()) CHECK(rank->spans == rank->spans_written);
  CHECK(piped.timeline.ended());
  CHECK(piped.feed->malformed() == 0);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}

}  // namespace

TEST_CASE("randomly interleaved lines of several ranks form one run") {
  const auto traces = sample_traces(sample_1f1b(4, 8, 3));
  std::mt19937 random{7};
  Piped piped;
  std::vector<std::vector<std::string>> lines;
  for (const std::string& trace : traces) lines.push_back(lines_of(trace));
  std::vector<std::size_t> next(lines.size());
  std::size_t left = 0;
  for (const auto& each : lines) left += each.size();
  while (left > 0) {
    const std::size_t rank = random() % lines.size();
    if (next[rank] == lines[rank].size()) continue;
    piped.send(lines[rank][next[rank]++]);
    --left;
  }
  CHECK_FALSE(piped.feed->ended());
  has_all_of(piped, 4);
  CHECK(piped.timeline.messages().size() == 3 * 2 * 3 * 8);
  piped.end();
  CHECK(piped.feed->ended());
  has_all_of(piped, 4);
}

TEST_CASE("the output of tail on growing files: file names, empty lines, lines cut anywhere") {
  const auto traces = sample_traces(sample_1f1b(3, 4, 2));
  for (unsigned seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    std::vector<std::size_t> at(traces.size());
    std::string text;
    std::size_t last = traces.size();
    for (;;) {
      std::vector<std::size_t> growing;
      for (std::size_t i = 0; i < traces.size(); ++i)
        if (at[i] < traces[i].size()) growing.push_back(i);
      if (growing.empty()) break;
      const std::size_t file = growing[random() % growing.size()];
      if (file != last) {
        text += text.empty() ? "" : "\n";
        text += "==> run/rank" + std::to_string(file) + ".json <==\n";
      }
      last = file;
      const std::size_t size =
          std::min<std::size_t>(1 + random() % 700, traces[file].size() - at[file]);
      text += traces[file].substr(at[file], size);
      at[file] += size;
    }
    Piped piped;
    // Sends pieces that ignore line boundaries, as a pipe does.
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t size = 1 + random() % 3000;
      piped.send(std::string_view{text}.substr(begin, size));
      begin += size;
    }
    piped.end();
    has_all_of(piped, 3);
  }
}

TEST_CASE("every complete line is shown at once, even if nothing follows it") {
  const auto traces = sample_traces(sample_1f1b(2, 2, 1));
  Piped piped;
  for (const std::string& trace : traces) piped.send(trace);
  CHECK(piped.timeline.ended());
  CHECK_FALSE(piped.feed->ended());
}

TEST_CASE("braces and quotes within a name are not syntax") {
  const std::string event =
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"}} \\\" { "
      "{\",\"pid\":0,\"tid\":0,\"ts\":1,\"dur\":2},\n";
  Piped whole;
  whole.send(event);
  CHECK(whole.timeline.span_count() == 1);
  for (std::size_t cut = 1; cut < event.size(); ++cut) {
    CAPTURE(cut);
    Piped piped;
    piped.send("==> a <==\n" + event.substr(0, cut) + "\n==> b <==\n\n==> a <==\n" +
               event.substr(cut));
    CHECK(piped.timeline.span_count() == 1);
    CHECK(piped.feed->malformed() == 0);
  }
}

TEST_CASE("a file that ends within a line is reported") {
  const std::string trace = sample_traces(sample_1f1b(1, 2, 1))[0];
  Piped piped;
  piped.send("==> a <==\n" + trace + "{\"ph\":\"X\"\n==> b <==\n");
  CHECK(piped.feed->malformed() == 0);
  piped.end();
  CHECK(piped.feed->malformed() == 1);
}

TEST_CASE("invalid lines are skipped and counted, empty ones are not counted") {
  const std::string trace = sample_traces(sample_1f1b(1, 2, 1))[0];
  const auto lines = lines_of(trace);
  Piped piped;
  piped.send("Welcome to the cluster\n\n");
  for (const std::string& line : lines) piped.send(line + "\n  \n");
  piped.send("==> no file\n{\"ph\":\"X\",\n{}{}\n");
  piped.send("{\"ph\":\"X\",\"name\":\"cut");
  CHECK(piped.feed->malformed() == 4);
  piped.end();
  CHECK(piped.feed->malformed() == 5);
  CHECK(piped.feed->first_malformed().find("Welcome") != std::string::npos);
  CHECK(piped.timeline.ranks().front()->spans == piped.timeline.ranks().front()->spans_written);
}

TEST_CASE("a document of many lines, as PyTorch writes, is read when it has ended") {
  Piped piped;
  piped.send(
      "{\n  \"schemaVersion\": 1,\n\n  \"traceEvents\": [\n  {\n    \"ph\": \"X\", \"cat\": "
      "\"kernel\", "
      "\"name\": \"gemm\",\n    \"pid\": 0, \"tid\": 7, \"ts\": 10.5, \"dur\": 2\n  }\n  ]\n}\n");
  CHECK(piped.timeline.empty());
  piped.end();
  CHECK(piped.timeline.span_count() == 1);
  CHECK(piped.feed->malformed() == 0);
}

TEST_CASE("a last line without a newline is read when the pipe is closed") {
  std::string trace = sample_traces(sample_1f1b(1, 2, 1))[0];
  trace.pop_back();
  Piped piped;
  piped.send(trace);
  CHECK_FALSE(piped.timeline.ended());
  piped.end();
  has_all_of(piped, 1);
}
