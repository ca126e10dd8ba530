#include "core/run/launch/clock_offset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "core/comm/transport/control.h"
#include "core/run/files/rank_message.h"

namespace lockstep {

namespace {

std::span<const std::byte> bytes_of(const std::int64_t& value) {
  return std::as_bytes(std::span{&value, 1});
}
std::span<std::byte> room_of(std::int64_t& value) {
  return std::as_writable_bytes(std::span{&value, 1});
}

// The receive for the answer is posted before the question is sent, and nothing waits in between:
// any such delay would count as travel time.
ClockOffset ask(Transport& transport, const std::function<std::int64_t()>& now, int count) {
  std::vector<ClockExchange> exchanges;
  for (int i = 0; i < count; ++i) {
    ClockExchange exchange;
    const std::int64_t question = i;
    auto answer = transport.receive(control_route(transport, 0), room_of(exchange.root));
    exchange.asked = now();
    auto asked = transport.send(control_route(transport, 0), bytes_of(question), 0);
    answer->wait();
    exchange.answered = now();
    asked->wait();
    exchanges.push_back(exchange);
  }
  return best_offset(exchanges);
}

void answer(Transport& transport, int peer, const std::function<std::int64_t()>& now, int count) {
  for (int i = 0; i < count; ++i) {
    std::int64_t question = 0;
    transport.receive(control_route(transport, peer), room_of(question))->wait();
    const std::int64_t time = now();
    transport.send(control_route(transport, peer), bytes_of(time), 0)->wait();
  }
}

}  // namespace

ClockOffset best_offset(const std::vector<ClockExchange>& exchanges) {
  if (exchanges.empty()) return {};
  const auto way = [](const ClockExchange& each) { return each.answered - each.asked; };
  const ClockExchange& best = *std::min_element(
      exchanges.begin(), exchanges.end(),
      [&](const ClockExchange& a, const ClockExchange& b) { return way(a) < way(b); });
  // Half of an odd number is rounded toward the larger uncertainty.
  return {.offset_ns = best.asked + way(best) / 2 - best.root,
          .uncertainty_ns = (way(best) + 1) / 2};
}

std::string this_clock() {
  std::string boot;
  std::getline(std::ifstream{"/proc/sys/kernel/random/boot_id"}, boot);
  char space[64] = "";
  if (::readlink("/proc/self/ns/time", space, sizeof space - 1) < 0) space[0] = '\0';
  return (boot.empty() ? host_name() : boot) + space;
}

std::vector<HostClock> measure_clocks(Transport& transport, const std::string& host,
                                      const std::string& clock,
                                      const std::function<std::int64_t()>& now, int exchanges) {
  // First, every rank learns the host and clock of every rank.
  std::vector<HostClock> clocks;
  for (const std::string& each : gather_to_all(transport, host + '\n' + clock)) {
    const std::size_t line = each.find('\n');
    clocks.push_back({each.substr(0, line), each.substr(line + 1), {}});
  }
  // Then the first rank on each other clock exchanges messages with rank 0, one rank after another.
  std::vector<int> asking;
  std::set<std::string> seen{clocks.front().clock};
  for (int rank = 1; rank < transport.size(); ++rank)
    if (seen.insert(clocks[static_cast<std::size_t>(rank)].clock).second) asking.push_back(rank);
  if (asking.empty()) return clocks;

  ClockOffset mine;
  for (const int rank : asking) {
    if (transport.rank() == 0) answer(transport, rank, now, exchanges);
    if (transport.rank() == rank) mine = ask(transport, now, exchanges);
  }
  const std::vector<std::string> offsets =
      gather_to_all(transport, fmt::format("{} {}", mine.offset_ns, mine.uncertainty_ns));
  for (std::size_t i = 0; i < clocks.size(); ++i)
    std::istringstream{offsets[i]} >> clocks[i].offset.offset_ns >> clocks[i].offset.uncertainty_ns;
  for (HostClock& each : clocks)
    for (const int rank : asking)
      if (clocks[static_cast<std::size_t>(rank)].clock == each.clock)
        each.offset = clocks[static_cast<std::size_t>(rank)].offset;
  return clocks;
}

}  // namespace lockstep
