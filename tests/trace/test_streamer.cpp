#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/trace/streamer.h"
#include "core/trace/writer.h"
#include "tests/support/comes_true.h"
#include "tests/support/complaints.h"
#include "tests/support/fake_viewer.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;
using std::chrono::milliseconds;

namespace {

/// Writes the trace of a rank that records `spans` spans, a thousand every few milliseconds.
/// Returns its bytes.
std::string write_trace(const TemporaryFolder& folder, const std::string& viewer, int spans,
                        const std::string& token = "", double patience = 60) {
  Recorder recorder;
  {
    TraceWriter writer{folder.path(), viewer, token};
    writer.add({.run = "streamed", .rank = 0, .ranks = 1}, recorder);
    for (int i = 0; i < spans; ++i) {
      recorder.span(0, {.name = "work", .sequence = i}, i * 10, i * 10 + 7);
      if (i % 1000 == 999) std::this_thread::sleep_for(milliseconds{4});
    }
    writer.finish(patience);
  }
  return read_file(folder.path() / "rank0.json");
}

std::string first_event(const std::string& trace) {
  const auto begin = trace.find('\n') + 1;
  return trace.substr(begin, trace.find('\n', begin) + 1 - begin);
}

/// Bytes without repeated sections, so that the test notices lost or duplicated bytes.
std::string bytes_of(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; bytes.size() < count; ++i) bytes += std::to_string(i) + "\n";
  bytes.resize(count);
  return bytes;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

const std::string hello = "{\"ph\":\"M\",\"args\":{\"rank\":0}},\n";

}  // namespace

TEST_CASE("a viewer receives the file, byte for byte") {
  const TemporaryFolder folder;
  FakeViewer viewer;
  viewer.listen({});
  const std::string trace = write_trace(folder, viewer.address(), 20'000);
  CHECK(viewer.gets(trace));
  REQUIRE(viewer.hellos().size() == 1);
  CHECK(viewer.hellos()[0] == first_event(trace));
}

TEST_CASE("a late viewer misses nothing") {
  const TemporaryFolder folder;
  FakeViewer viewer;
  Recorder recorder;
  {
    TraceWriter writer{folder.path(), viewer.address(), ""};
    writer.add({}, recorder);
    // The viewer starts to listen after 30 spans. The run continues until the viewer has
    // connected.
    int i = 0;
    CHECK(comes_true([&] {
      if (i == 30) viewer.listen({});
      recorder.span(0, {.name = "work"}, i, i + 1);
      return ++i >= 80 && !viewer.hellos().empty();
    }));
  }
  CHECK(viewer.gets(read_file(folder.path() / "rank0.json")));
}

TEST_CASE("a run that ends before the viewer has answered is still shown") {
  for (int round = 0; round < 20; ++round) {
    const TemporaryFolder folder;
    FakeViewer viewer;
    viewer.listen({});
    CHECK(viewer.gets(write_trace(folder, viewer.address(), 1)));
  }
}

TEST_CASE("the last bytes of a run that was silent for long are still sent") {
  const TemporaryFolder folder;
  FakeViewer viewer;
  viewer.listen({});
  const std::string first = bytes_of(1000), last = "the end\n";
  const std::string file = folder.file("trace", first);
  Streamer streamer{viewer.address(), ""};
  streamer.add(file, hello);
  CHECK(viewer.gets(first));
  const double patience = 2;
  std::this_thread::sleep_for(milliseconds{2500});  // longer than the patience
  std::ofstream{file, std::ios::app} << last;
  streamer.finish(patience);
  CHECK(viewer.gets(first + last));
}

TEST_CASE("a viewer that drops the connection five times resumes where it left off") {
  const TemporaryFolder folder;
  FakeViewer viewer;
  viewer.listen({.drops = 5, .drop_after = 30'000, .piece = 8'000, .pause = milliseconds{1}});
  const std::string file = folder.file("trace", bytes_of(12'000'000));
  Streamer streamer{viewer.address(), ""};
  streamer.add(file, hello);
  streamer.finish(60);
  CHECK(viewer.gets(read_file(file)));
  CHECK(viewer.hellos() == std::vector<std::string>(6, hello));
}

TEST_CASE("a slow viewer gets everything") {
  const TemporaryFolder folder;
  FakeViewer viewer;
  viewer.listen({.piece = 1024, .pause = milliseconds{5}});
  const std::string trace = write_trace(folder, viewer.address(), 1'500);
  CHECK(viewer.gets(trace));
}

TEST_CASE("a viewer that reads nothing delays no rank and receives everything in the end") {
  const TemporaryFolder folder;
  FakeViewer viewer;
  viewer.listen({.piece = 1024, .held = true});
  Recorder recorder;
  TraceWriter writer{folder.path(), viewer.address(), ""};
  writer.add({}, recorder);
  constexpr int spans = 40'000;
  for (int i = 0; i < spans; ++i) {
    recorder.span(0, {.name = "work", .sequence = i}, i * 10, i * 10 + 7);
    if (i % 1000 == 999) std::this_thread::sleep_for(milliseconds{10});
  }
  CHECK(viewer.received() == "");  // although the ranks are done
  viewer.go();
  writer.finish(60);
  const std::string trace = read_file(folder.path() / "rank0.json");
  CHECK(trace.find("\"spans\":" + std::to_string(spans)) != std::string::npos);
  CHECK(viewer.gets(trace));
}

TEST_CASE("the end of a run waits for a viewer as long as it accepts bytes") {
  const TemporaryFolder folder;
  // At this speed, the bytes that do not fit into the sockets' buffers take longer than the
  // time-out.
  const std::string bytes = bytes_of(48'000'000);
  FakeViewer viewer;
  viewer.listen({.piece = 64 * 1024, .pause = milliseconds{10}, .held = true});
  Streamer streamer{viewer.address(), ""};
  streamer.add(folder.file("trace", bytes), hello);
  constexpr double patience = 2;
  std::atomic<bool> ending{false};
  // The viewer starts reading when finish() is called, and reads slowly for longer than the
  // time-out. finish() therefore can't return earlier, however late the threads run.
  std::thread taker{[&] {
    while (!ending) std::this_thread::sleep_for(milliseconds{1});
    viewer.go();
    std::this_thread::sleep_for(std::chrono::duration<double>{1.25 * patience});
    viewer.hurry();
  }};
  ending = true;
  CHECK(seconds_of([&] { streamer.finish(patience); }) > patience);
  taker.join();
  CHECK(viewer.gets(bytes));
}

TEST_CASE("what answers like no viewer is asked again, and a viewer in its place gets everything") {
  const TemporaryFolder folder;
  const std::string bytes = bytes_of(100'000);
  const std::vector<std::string> wrong = {"\n",
                                          "resume\n",
                                          "resume -1\n",
                                          "resume 1x\n",
                                          "resume  1\n",
                                          "resume 0 0\n",
                                          "garbage\xff\n",
                                          "HTTP/1.1 400\r\n",
                                          std::string("\0\n", 2),
                                          "resume 99999999999999999999\n"};
  FakeViewer viewer;
  viewer.listen({.wrong_answers = wrong});
  Streamer streamer{viewer.address(), ""};
  streamer.add(folder.file("trace", bytes), hello);
  streamer.finish(60);
  CHECK(viewer.gets(bytes));
  CHECK(viewer.hellos().size() == wrong.size() + 1);
}

TEST_CASE("an answer without an end takes no memory") {
  const TemporaryFolder folder;
  constexpr std::size_t offered = 64 << 20, kernel = 32 << 20;
  FakeViewer viewer;
  viewer.listen({.wrong_answers = {std::string(offered, 'x')}});
  Streamer streamer{viewer.address(), ""};
  const std::string bytes = bytes_of(1000);
  streamer.add(folder.file("trace", bytes), hello);
  CHECK(viewer.gets(bytes));  // on the second connection
  CHECK(viewer.wrong_bytes_sent() < kernel);
}

TEST_CASE("the wait for a viewer that accepts nothing ends at the time-out") {
  const TemporaryFolder folder;
  FakeViewer viewer;
  viewer.listen({.held = true});
  // The time-out counts from the last byte or, if that is later, from the call of finish(). This
  // viewer reads nothing after the hello, so the test checks only that finish() returns at all.
  CHECK(seconds_of([&] {
          Streamer streamer{viewer.address(), ""};
          streamer.add(folder.file("trace", bytes_of(24'000'000)), hello);
          streamer.finish(0.3);
        }) > 0.3);
  CHECK(viewer.received() == "");
}

TEST_CASE("without a viewer, finish() returns immediately") {
  const TemporaryFolder folder;
  FakeViewer nobody;  // reserves the port without listening
  const std::string address = nobody.address();
  const double patience = 600;  // not used up
  for (const std::string& viewer : {address, std::string{"no-such-host.invalid:7077"}}) {
    CAPTURE(viewer);
    std::string trace;
    CHECK(seconds_of([&] { trace = write_trace(folder, viewer, 10, "", patience); }) <
          patience / 2);
    CHECK(trace.find("\"name\":\"end\"") != std::string::npos);
  }
}

TEST_CASE("finish() does not wait forever for a viewer that is gone") {
  const TemporaryFolder folder;
  const std::string file = folder.file("trace", bytes_of(1000));
  auto viewer = std::make_unique<FakeViewer>();
  viewer->listen({});
  Streamer streamer{viewer->address(), ""};
  streamer.add(file, hello);
  CHECK(viewer->gets(read_file(file)));
  viewer.reset();
  std::ofstream{file, std::ios::app} << bytes_of(1000);
  streamer.finish(0.2);  // must return
}

TEST_CASE("an invalid HOST:PORT gives one line that says so") {
  for (const std::string address :
       {"here", "", ":", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:0", "127.0.0.1:65536",
        "127.0.0.1:-1", "127.0.0.1:7077 ", "1:2:3x", "127.0.0.1:999999999999"}) {
    CAPTURE(address);
    CHECK(unlike(complaint_of<UsageError>([&] {
                   Streamer{address, ""};
                 }),
                 {"--view " + address + ":", "HOST:PORT"}) == "");
  }
}

TEST_CASE("the wait for a viewer that never answers ends at the time-out") {
  const TemporaryFolder folder;
  FakeViewer viewer;
  viewer.listen({.answers = false});
  CHECK(seconds_of([&] {
          Streamer streamer{viewer.address(), ""};
          streamer.add(folder.file("trace", bytes_of(1000)), hello);
          CHECK(comes_true([&] { return !viewer.hellos().empty(); }));
          streamer.finish(0.3);
        }) > 0.3);
}

TEST_CASE("an IPv6 address stands in brackets") {
  ViewerAddress viewer{"[::1]:7077"};
  const auto* addresses = viewer.addresses();
  REQUIRE(addresses != nullptr);
  REQUIRE(addresses->size() == 1);
  CHECK(addresses->front().address.ss_family == AF_INET6);
}

TEST_CASE("a port alone, or a host's name, means this machine") {
  for (const std::string host : {"", ":", "localhost:"}) {
    CAPTURE(host);
    const TemporaryFolder folder;
    FakeViewer viewer;
    viewer.listen({});
    CHECK(viewer.gets(write_trace(folder, host + std::to_string(viewer.port()), 500)));
  }
}

TEST_CASE("the hello has the token, and the file does not") {
  const TemporaryFolder folder;
  FakeViewer viewer;
  viewer.listen({});
  const std::string token = "secret \"one\"";
  const std::string trace = write_trace(folder, viewer.address(), 10, token);
  CHECK(viewer.gets(trace));
  REQUIRE(viewer.hellos().size() == 1);
  const std::string line = viewer.hellos()[0];
  auto event = nlohmann::json::parse(line.substr(0, line.size() - 2));
  CHECK(event["args"]["token"] == token);
  event["args"].erase("token");
  const std::string own = first_event(trace);
  CHECK(event == nlohmann::json::parse(own.substr(0, own.size() - 2)));
  CHECK(trace.find("secret") == std::string::npos);
}
