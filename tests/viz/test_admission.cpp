// Tests which connections the viewer's server keeps: those from ranks of its own user or with its
// token, and, for a limited time, a limited number of others.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <future>
#include <vector>

#include "core/base/error.h"
#include "tests/viz/live_viewer.h"
#include "tests/viz/sample_run.h"

using namespace lockstep;
using namespace lockstep::viz;
using namespace lockstep::testing;
using std::chrono::milliseconds;

namespace {

const SampleRun sample = sample_1f1b(2, 4, 1);

/// Returns the server's answer to a rank's hello.
std::string answer_to(const Viewer& viewer, const std::string& hello) {
  const FakeRank rank{viewer.port()};
  rank.send(hello);
  return rank.line();
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Lets this process open only `more` further descriptors.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    ::close(next);
    const rlimit few{static_cast<rlim_t>(next) + more, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("a wrong token, no token and no hello are refused") {
  Viewer viewer{{.token = "secret"}};
  for (const std::string& hello : {sample_hello(sample, 0), sample_hello(sample, 0, "secre"),
                                   sample_hello(sample, 0, "secret2")}) {
    CHECK(answer_to(viewer, hello) == "refused: wrong token");
  }
  CHECK(answer_to(viewer, "GET / HTTP/1.1\r\n") == "refused: the first line is not a rank's hello");
  CHECK(viewer.server.run() == 0);
  CHECK(answer_to(viewer, sample_hello(sample, 0, "secret")) == "resume 0");
  CHECK(viewer.server.refused() == 4);
}

TEST_CASE("no hello that is wrong shows a run, and a right one does afterwards") {
  Viewer viewer{{.hello_within = milliseconds{300}}};
  const std::string args = "{\"ph\":\"M\",\"args\":";
  const std::vector<std::string> complete = {
      "\n",
      "[\n",
      ",\n",
      "null\n",
      "{}\n",
      "[1,2]\n",
      "\"hello\"\n",
      std::string("\0\0\0\n", 4),
      "\xff\xfe{}\n",
      "GET / HTTP/1.1\r\n\r\n",
      args + "7}\n",
      args + "[]}\n",
      args + "{}}\n",
      args + "{\"rank\":-1}}\n",
      args + "{\"rank\":\"0\"}}\n",
      args + "{\"rank\":0.5}}\n",
      args + "{\"rank\":4294967296}}\n",
      args + "{\"rank\":99999999999999999999}}\n",
      args + std::string(20'000, '[') + "\n",
  };
  for (const std::string& hello : complete) {
    CAPTURE(hello);
    CHECK(answer_to(viewer, hello) == "refused: the first line is not a rank's hello");
  }
  CHECK(answer_to(viewer, std::string(100'000, 'x')) == "refused: the hello is too long");
  for (const std::string hello : {"", "{\"ph\":\"M\""}) {  // without a newline
    const FakeRank rank{viewer.port()};
    rank.send(hello);
    CHECK(rank.is_closed());
  }
  CHECK(viewer.server.run() == 0);
  CHECK(answer_to(viewer, sample_hello(sample, 0)) == "resume 0");
}

TEST_CASE("another user's run is refused") {
  Viewer viewer{{.user = ::getuid() + 1}};
  CHECK(answer_to(viewer, sample_hello(sample, 0)) ==
        "refused: the viewer belongs to another user; give the viewer and the run the same token");
  CHECK(viewer.server.run() == 0);
  Viewer with_token{{.token = "secret", .user = ::getuid() + 1}};
  CHECK(answer_to(with_token, sample_hello(sample, 0, "secret")) == "resume 0");
}

TEST_CASE("another user's run can't replace the run that is shown" *
          doctest::skip(::getuid() != 0)) {
  Viewer viewer;
  CHECK(answer_to(viewer, sample_hello(sample, 0)) == "resume 0");
  SampleRun other = sample;
  other.run = "another";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    ::_exit(answer_to(viewer, sample_hello(other, 0)).starts_with("refused: the viewer belongs")
                ? 0
                : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(viewer.server.run() == 1);
}

TEST_CASE("the kernel says who is at the other end of a connection") {
  for (const std::string host : {"127.0.0.1", "127.1.2.3", "::1"}) {
    CAPTURE(host);
    Listener listener;
    try {
      listener = listen_at({.host = host, .port = 0}, false);
    } catch (const UsageError&) {
      continue;  // this machine has no IPv6
    }
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(listener.socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const int client = ::socket(address.ss_family, SOCK_STREAM, 0);
    REQUIRE(::connect(client, reinterpret_cast<sockaddr*>(&address), size) == 0);
    const int accepted = ::accept(listener.socket, nullptr, nullptr);
    REQUIRE(accepted >= 0);
    SocketOwners asked, from_tables{/*may_ask=*/false};
    for (SocketOwners* owners : {&asked, &from_tables})
      CHECK(owners->users_of_peers({&accepted, 1}).front() == ::getuid());
    ::close(client);
    for (SocketOwners* owners : {&asked, &from_tables})
      CHECK_FALSE(
          owners->users_of_peers({&accepted, 1}).front());  // not root, although the kernel says so
    CHECK(from_tables.table_passes() == 2);
    ::close(accepted);
    ::close(listener.socket);
  }
}

TEST_CASE("300 idle connections keep no rank out, and are closed") {
  Viewer viewer{{.hello_within = milliseconds{1000}}};
  std::vector<FakeRank> idle;
  for (int i = 0; i < 300; ++i) {
    idle.emplace_back(viewer.port());
    if (i % 2 == 0) idle.back().send("{");
  }
  CHECK(answer_to(viewer, sample_hello(sample, 0)) == "resume 0");
  for (const FakeRank& each : idle) CHECK(each.is_closed());
  CHECK(viewer.server.connected() <= 1);
}

TEST_CASE("a storm of hellos of another user is refused unread, in few passes over the sockets") {
  // Blocks the server's thread until all connections of the storm are waiting to be accepted.
  std::promise<void> storm_is_there;
  std::shared_future<void> released = storm_is_there.get_future().share();
  LiveServer server{
      {.host = "127.0.0.1", .port = 0}, {.user = ::getuid() + 1}, [released] { released.wait(); }};
  const auto hello_and_close = [&] {
    const FakeRank rank{server.endpoint().port};
    rank.send(sample_hello(sample, 0));
  };
  hello_and_close();
  const auto until = [](const auto& holds) {
    for (int i = 0; i < 6000 && !holds(); ++i) std::this_thread::sleep_for(milliseconds{10});
    return holds();
  };
  REQUIRE(until([&] { return server.refused() == 1; }));
  int longest_queue = 0;
  std::ifstream{"/proc/sys/net/core/somaxconn"} >> longest_queue;
  const int storm = std::min(3000, longest_queue - 10);
  for (int i = 0; i < storm; ++i) hello_and_close();
  storm_is_there.set_value();
  CHECK(until([&] { return server.refused() == 1 + storm; }));
  const LiveServer::Work work = server.work();
  CHECK(work.hellos == 0);
  CHECK(work.most_waiting <= 128);
  CHECK(work.table_passes <= 2 + storm / 32);
}

TEST_CASE("a rank's data is read before the bytes of older connections that have said no hello") {
  std::promise<void> all_have_sent;
  std::shared_future<void> released = all_have_sent.get_future().share();
  std::atomic<const LiveServer*> server{nullptr};
  std::atomic<bool> holds{false};
  std::atomic<int> news{0}, refused_before{-1};  // the second news
  LiveServer listening{
      {.host = "127.0.0.1", .port = 0}, {.hello_within = std::chrono::hours{1}}, [&, released] {
        if (!holds) return;
        released.wait();
        if (++news == 2) refused_before = server.load()->refused();
      }};
  server = &listening;
  std::vector<FakeRank> strangers;
  for (int i = 0; i < 100; ++i) strangers.emplace_back(listening.endpoint().port);
  const FakeRank rank{listening.endpoint().port}, other{listening.endpoint().port};
  for (int i = 0; i < 2; ++i) {
    const FakeRank& each = i == 0 ? rank : other;
    each.send(sample_hello(sample, i));
    REQUIRE(each.line() == "resume 0");
  }
  while (listening.take()) {
  }
  holds = true;
  other.send("[\n");  // the news of it blocks the server's thread until all have sent
  for (int i = 0; i < 1000 && !listening.waiting(); ++i)
    std::this_thread::sleep_for(milliseconds{10});
  for (const FakeRank& each : strangers) each.send("no hello\n");
  rank.send("[\n");
  all_have_sent.set_value();
  for (const FakeRank& each : strangers) CHECK(each.is_closed());
  CHECK(refused_before == 0);  // so the second news was of `rank`
}

TEST_CASE("a storm of connections causes no pass over the kernel's tables of sockets") {
  Viewer viewer;
  CHECK(answer_to(viewer, sample_hello(sample, 0)) == "resume 0");
  std::vector<FakeRank> held;
  for (int i = 0; i < 300; ++i) held.emplace_back(viewer.port());
  CHECK(answer_to(viewer, sample_hello(sample, 1)) == "resume 0");
  SocketOwners owners;
  const int newest = held.back().socket();
  owners.users_of_peers({&newest, 1});
  const bool kernel_answers = owners.table_passes() == 0;
  CHECK((!kernel_answers || viewer.server.work().table_passes == 0));
  CHECK(viewer.server.refused() >= 300 - 128);  // dropped without a hello
}

TEST_CASE("a user who holds many connections keeps no other user's rank out" *
          doctest::skip(::getuid() != 0)) {
  Viewer viewer{{.hello_within = std::chrono::hours{1}}};
  const FakeRank slow{viewer.port()};  // has not said hello yet
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    std::vector<FakeRank> idle;
    for (int i = 0; i < 400; ++i) idle.emplace_back(viewer.port());
    // The server has accepted all of them once it has closed the first.
    ::_exit(idle.front().is_closed() && ::write(pipe[1], "x", 1) == 1 && idle[200].is_closed() ? 0
                                                                                               : 1);
  }
  char byte = 0;
  REQUIRE(::read(pipe[0], &byte, 1) == 1);
  slow.send(sample_hello(sample, 0));
  CHECK(slow.line() == "resume 0");
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  for (int each : pipe) ::close(each);
}

TEST_CASE("without descriptors left the server drops idle connections, then waits without work") {
  Viewer viewer{{.hello_within = std::chrono::hours{1}}};
  const std::vector<FakeRank> idle(60), ranks(30);
  const FewDescriptors few{20};
  for (const FakeRank& each : idle) each.connect(viewer.port());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].connect(viewer.port());
    ranks[i].send(sample_hello(sample, static_cast<int>(i)));
  }
  for (std::size_t i = 0; i < 15; ++i) CHECK(ranks[i].line() == "resume 0");
  const double before = processor_seconds();  // while the last ranks wait to be accepted
  std::this_thread::sleep_for(milliseconds{600});
  CHECK(processor_seconds() - before < 0.2);
}

TEST_CASE("a port in use, or open to others without a token, gives one clear line") {
  Viewer viewer;
  const Endpoint taken = viewer.server.endpoint();
  CHECK_THROWS_WITH_AS(LiveServer(taken, {}, [] {}), doctest::Contains("is in use"), UsageError);
  CHECK_THROWS_WITH_AS(LiveServer({.host = "0.0.0.0", .port = 0}, {}, [] {}),
                       doctest::Contains("--token"), UsageError);
  CHECK_NOTHROW(LiveServer({.host = "0.0.0.0", .port = 0}, {.token = "t"}, [] {}));
}

TEST_CASE("the address to listen on") {
  CHECK(parse_endpoint("7078").port == 7078);
  CHECK(parse_endpoint(":7078").host == "127.0.0.1");
  CHECK(parse_endpoint("0.0.0.0:80").host == "0.0.0.0");
  CHECK(parse_endpoint("[::1]:7077").host == "::1");
  for (const char* wrong : {"", "x", "70000", "-1", "host:", "7077x"}) {
    CHECK_THROWS_AS(parse_endpoint(wrong), UsageError);
  }
}

TEST_CASE("only an address of the loopback interface is one, whatever a name begins with") {
  for (const char* local : {"127.0.0.1", "127.8.9.10", "[::1]", "localhost"}) {
    CAPTURE(local);
    CHECK(is_loopback(parse_endpoint(local + std::string{":7077"})));
  }
  for (const char* open : {"10.0.0.1", "0.0.0.0", "[::]", "127.evil.invalid", "128.0.0.1"}) {
    CAPTURE(open);
    CHECK_FALSE(is_loopback(parse_endpoint(open + std::string{":7077"})));
  }
}
