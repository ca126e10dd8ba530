#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "core/base/error.h"
#include "tests/viz/sample_run.h"
#include "viz/data/live_feed.h"
#include "viz/data/live_server.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// One rank's end of the connection.
class FakeRank {
 public:
  explicit FakeRank(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const timeval patience{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~FakeRank() { ::close(socket_); }
  FakeRank(const FakeRank&) = delete;
  FakeRank& operator=(const FakeRank&) = delete;

  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  /// Reads up to the newline, or to the end of the connection.
  std::string line() const {
    std::string text;
    char c = 0;
    while (::recv(socket_, &c, 1, 0) == 1 && c != '\n') text += c;
    return text;
  }

 private:
  int socket_;
};

struct Viewer {
  explicit Viewer(const std::string& token = "")
      : server({.host = "127.0.0.1", .port = 0}, token, [] {}), feed(server, timeline) {}
  int port() const { return server.endpoint().port; }
  bool until(const std::function<bool()>& done) {
    for (int i = 0; i < 4000; ++i) {  // a minute
      feed.pump(std::chrono::milliseconds{5});
      if (done()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return false;
  }
  Timeline timeline;
  LiveServer server;
  LiveFeed feed;
};

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
  rank.send("[\n");
  for (int i = 0; i < 8; ++i) rank.send(std::string(1 << 20, 'x'));
  rank.send(std::string("\n\0\xff\n", 4) + sample_traces(run)[0].substr(2));
  CHECK(viewer.until([&] { return has_ended(viewer, 0); }));
  CHECK(viewer.feed.malformed() == 2);
  CHECK(viewer.feed.first_malformed().starts_with("rank 0, line 2: a line without an end: xxx"));
  CHECK(spans_of(viewer, 0) == viewer.timeline.find_rank(0)->spans_written);
}

TEST_CASE("a wrong token, no token and no hello are refused") {
  const SampleRun run = sample_1f1b(2, 4, 1);
  Viewer viewer{"secret"};
  for (const std::string& hello :
       {sample_hello(run, 0), sample_hello(run, 0, "secre"), sample_hello(run, 0, "secret2")}) {
    FakeRank rank{viewer.port()};
    rank.send(hello);
    CHECK(rank.line() == "refused: wrong token");
  }
  FakeRank stranger{viewer.port()};
  stranger.send("GET / HTTP/1.1\r\n");
  CHECK(stranger.line() == "refused: the first line is not a rank's hello");
  FakeRank right{viewer.port()};
  right.send(sample_hello(run, 0, "secret"));
  CHECK(right.line() == "resume 0");
  CHECK(viewer.server.refused() == 4);
}

TEST_CASE("a port in use, or open to others without a token, gives one clear line") {
  Viewer viewer;
  const Endpoint taken = viewer.server.endpoint();
  CHECK_THROWS_WITH_AS(LiveServer(taken, "", [] {}), doctest::Contains("is in use"), UsageError);
  CHECK_THROWS_WITH_AS(LiveServer({.host = "0.0.0.0", .port = 0}, "", [] {}),
                       doctest::Contains("--token"), UsageError);
  CHECK_NOTHROW(LiveServer({.host = "0.0.0.0", .port = 0}, "t", [] {}));
}

TEST_CASE("the address to listen on") {
  CHECK(parse_endpoint("7078").port == 7078);
  CHECK(parse_endpoint(":7078").host == "127.0.0.1");
  CHECK(parse_endpoint("0.0.0.0:80").host == "0.0.0.0");
  CHECK(parse_endpoint("[::1]:7077").host == "::1");
  CHECK(is_loopback(parse_endpoint("[::1]:7077")));
  CHECK(is_loopback(parse_endpoint("localhost:7077")));
  CHECK_FALSE(is_loopback(parse_endpoint("10.0.0.1:7077")));
  for (const char* wrong : {"", "x", "70000", "-1", "host:", "7077x"}) {
    CHECK_THROWS_AS(parse_endpoint(wrong), UsageError);
  }
}
