#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/comm/shared/shared_network.h"
#include "core/time/cluster_file.h"

using namespace lockstep;

namespace {

constexpr Picoseconds one_us = 1'000'000;

/// A message on a separate stream. SharedTimes are in µs; at 1 GB/s, 1000 bytes take 1 µs.
struct SentMessage {
  int from, to;
  double bytes;
  double start = 0;
};

struct SharedTimes final : SharedNetwork::Listener {
  Passage sent, received;
  void left(int, const Passage& passage) override { sent = passage; }
  void arrived(int, const Passage& passage) override { received = passage; }
  void reached(int) override {}
};

/// Returns the times of messages that are posted in the order of `order`.
std::vector<SharedTimes> times_of(const Cluster& cluster, const std::vector<SentMessage>& messages,
                                  std::vector<std::size_t> order = {}) {
  SharedNetwork network{cluster};
  std::vector<SharedTimes> times(messages.size());
  for (std::size_t i = order.size(); i < messages.size(); ++i) order.push_back(i);
  for (const std::size_t i : order) {
    const auto& [from, to, bytes, start] = messages[i];
    const int channel = static_cast<int>(i);
    const auto whole = static_cast<std::int64_t>(bytes);
    network.send(network.open_stream(from, channel),
                 {.to = to,
                  .bytes = whole,
                  .ready = static_cast<Picoseconds>(std::llround(start * one_us)),
                  .latency = cluster.latency(from, to, whole)},
                 times[i], 0);
    network.receive(network.open_stream(to, channel), from, times[i], 0);
  }
  while (network.next()) network.advance();
  return times;
}

/// Returns the times at which messages have left their senders, in µs, to the nanosecond, because
/// rates are whole bytes per second.
std::vector<double> ends(const Cluster& cluster, const std::vector<SentMessage>& messages) {
  std::vector<double> all;
  for (const SharedTimes& each : times_of(cluster, messages))
    all.push_back(std::round(static_cast<double>(each.sent.end) / 1000) / 1000);
  return all;
}

using Ends = std::vector<double>;

/// Four nodes of four ranks, with links so fast that only shared resources matter.
Cluster four_nodes(const SharedLinks& shared) {
  Cluster cluster{.nodes = 4, .ranks_per_node = 4, .within = {0, 1e13}, .between = {0, 1e13}};
  cluster.shared = shared;
  return cluster;
}

SharedLinks cards(int per_node, std::vector<int> of_rank) {
  return {.cards = SharedLinks::Cards{per_node, 1e9, std::move(of_rank)}};
}

}  // namespace

TEST_CASE("shared links, worked by hand: ports") {
  const Cluster cluster = four_nodes({.port = 1e9});
  // Two messages leave through one port, and each gets half of it.
  CHECK(ends(cluster, {{0, 1, 1000}, {0, 2, 1000}}) == Ends{2, 2});
  // The second message starts when the first has sent half of its bytes.
  CHECK(ends(cluster, {{0, 1, 2000}, {0, 2, 1000, 1}}) == Ends{3, 3});
  // One message leaves early, and the other continues alone.
  CHECK(ends(cluster, {{0, 1, 1000}, {0, 2, 3000}}) == Ends{2, 4});
  // The two directions of a port are separate.
  CHECK(ends(cluster, {{0, 1, 1000}, {1, 0, 1000}}) == Ends{1, 1});
  // Two messages enter through one port.
  CHECK(ends(cluster, {{1, 0, 1000}, {2, 0, 1000}}) == Ends{2, 2});
  // Three messages enter rank 2, so each gets a third. Rank 0's other message gets the rest of its
  // port: two thirds.
  CHECK(ends(cluster, {{0, 1, 2000}, {0, 2, 1000}, {1, 2, 1000}, {3, 2, 1000}}) ==
        Ends{3, 3, 3, 3});
  // A message to another node does not pass a port.
  CHECK(ends(cluster, {{0, 4, 1000}, {0, 1, 1000}})[1] == 1);
}

TEST_CASE("shared links, worked by hand: cards, rails and uplinks") {
  const std::vector<SentMessage> four{{0, 4, 1000}, {1, 5, 1000}, {2, 6, 1000}, {3, 7, 1000}};
  CHECK(ends(four_nodes(cards(1, {0, 0, 0, 0})), four) == Ends{4, 4, 4, 4});
  CHECK(ends(four_nodes(cards(2, {0, 0, 1, 1})), four) == Ends{2, 2, 2, 2});
  CHECK(ends(four_nodes(cards(2, {0, 0, 0, 1})), four) == Ends{3, 3, 3, 1});
  CHECK(ends(four_nodes(cards(4, {0, 1, 2, 3})), four) == Ends{1, 1, 1, 1});  // a rail each
  SharedLinks both = cards(4, {0, 1, 2, 3});
  both.uplink = 2e9;  // four cards of 1 GB/s, of which the uplink carries half
  CHECK(ends(four_nodes(both), four) == Ends{2, 2, 2, 2});
  // Messages from two nodes enter one card.
  CHECK(ends(four_nodes(cards(1, {0, 0, 0, 0})), {{4, 0, 1000}, {8, 1, 1000}}) == Ends{2, 2});
}

TEST_CASE("shared links, worked by hand: a spine with oversubscription") {
  SharedLinks by_node = cards(1, {0, 0, 0, 0});
  by_node.leaves = SharedLinks::Leaves{.nodes = 2, .oversubscription = 2};
  // Two nodes below a leaf share 2 · 1 GB/s / 2 to the spine.
  CHECK(ends(four_nodes(by_node), {{0, 8, 1000}, {4, 12, 1000}}) == Ends{2, 2});
  // A message to the other node below the leaf does not pass the spine.
  CHECK(ends(four_nodes(by_node), {{0, 4, 1000}, {8, 12, 1000}}) == Ends{1, 1});

  SharedLinks by_rail = cards(2, {0, 0, 1, 1});
  by_rail.leaves = SharedLinks::Leaves{.nodes = 2, .by_rail = true, .oversubscription = 2};
  // Two messages on one rail, through one leaf.
  CHECK(ends(four_nodes(by_rail), {{0, 4, 1000}, {5, 1, 1000}}) == Ends{1, 1});
  // Two messages from rail 0 to rail 1: both pass rail 0's link to the spine, which has 1 GB/s.
  CHECK(ends(four_nodes(by_rail), {{0, 6, 1000}, {4, 2, 1000}}) == Ends{2, 2});
}

TEST_CASE("a message on shared links is no faster than its own link, and arrives α later") {
  Cluster cluster = four_nodes({.port = 1e9});
  cluster.within = {5e-6, 2.5e8};
  CHECK(ends(cluster, {{0, 1, 1000}, {0, 2, 1000}}) == Ends{4, 4});
  const std::vector<SharedTimes> alone = times_of(cluster, {{0, 1, 1000, 3}});
  CHECK(alone[0].sent == Passage{3 * one_us, 7 * one_us});
  CHECK(alone[0].received == Passage{8 * one_us, 12 * one_us});
}

TEST_CASE("on a lane, a message waits for the one before it") {
  const Cluster cluster = four_nodes({.port = 1e9});
  SharedNetwork network{cluster};
  SharedTimes first, second, other;
  const int from = network.open_stream(0, 0), to = network.open_stream(1, 0);
  network.send(from, {.to = 1, .bytes = 1000}, first, 0);
  network.send(from, {.to = 1, .bytes = 1000}, second, 0);
  network.receive(to, 0, first, 0);
  network.receive(to, 0, second, 0);
  while (network.next()) network.advance();
  CHECK(first.sent == Passage{0, one_us});
  CHECK(second.sent == Passage{one_us, 2 * one_us});
  CHECK(second.received == Passage{one_us, 2 * one_us});
}

TEST_CASE("shared links: the times do not depend on the order in which messages are posted") {
  std::mt19937 random{7};
  for (int trial = 0; trial < 200; ++trial) {
    const auto below = [&](int limit) {
      return static_cast<int>(random() % static_cast<unsigned>(limit));
    };
    SharedLinks shared = cards(2, {0, 1, 1, 0});
    shared.port = 7e8;
    shared.uplink = 1.7e9;
    const Cluster cluster = four_nodes(shared);
    std::vector<SentMessage> messages;
    std::vector<std::size_t> order;
    for (int i = 0; i < 12; ++i) {
      const int from = below(16);
      messages.push_back({from, (from + 1 + below(15)) % 16, 1.0 + below(5000), below(3) * 0.5});
      order.push_back(static_cast<std::size_t>(i));
    }
    const std::vector<SharedTimes> once = times_of(cluster, messages);
    std::shuffle(order.begin(), order.end(), random);
    const std::vector<SharedTimes> again = times_of(cluster, messages, order);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      CHECK(once[i].sent == again[i].sent);
      CHECK(once[i].received == again[i].received);
    }
  }
}

TEST_CASE("a message that shares its links with no other takes as long as on links of its own") {
  Cluster cluster = four_nodes({.port = 3e11, .uplink = 2.5e10});
  cluster.within = {3e-6, 2.9e11};
  cluster.between = {1e-5, 2.5e10 / 3};
  for (const int to : {1, 5})
    for (const double bytes : {0.0, 1.0, 777.0, 1e6 + 1, 3e9}) {
      const auto whole = static_cast<std::int64_t>(bytes);
      const SharedTimes times = times_of(cluster, {{0, to, bytes}})[0];
      CHECK(times.sent.end == cluster.transfer(0, to, whole));
      CHECK(times.received.end == cluster.transfer(0, to, whole) + cluster.latency(0, to, whole));
    }
}

TEST_CASE("shared links: the fastest and the slowest resource give sensible times") {
  // The port is faster than whole numbers can represent, so the message's own link decides.
  Cluster fast = four_nodes({.port = 1e19});
  fast.within = {0, 1e9};
  CHECK(ends(fast, {{0, 1, 1000}, {0, 2, 1000}}) == Ends{1, 1});
  // 2^50 bytes at 50 B/s take 700,000 years.
  CHECK_THROWS_AS(times_of(four_nodes({.port = 50}), {{0, 1, std::ldexp(1, 50)}}), UsageError);
}

// tests/golden/make_shared_flows.cpp writes the file, with SimGrid's times.
TEST_CASE("random messages on random clusters end when SimGrid's fluid model says") {
  std::ifstream file{LOCKSTEP_SOURCE_DIR "/tests/golden/shared_flows.json"};
  const auto cases = nlohmann::json::parse(file);
  REQUIRE(cases.size() >= 100);
  std::size_t compared = 0, shared = 0;
  for (const auto& each : cases) {
    const Cluster cluster = parse_cluster(each.at("cluster").dump(), "shared_flows.json");
    std::vector<SentMessage> messages;
    for (const auto& message : each.at("messages"))
      messages.push_back({message.at("from"), message.at("to"), message.at("bytes"),
                          message.at("start").get<double>() * 1e6});
    const std::vector<SharedTimes> times = times_of(cluster, messages);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const double begin = messages[i].start * one_us;
      const double theirs = each.at("messages")[i].at("end").get<double>() * 1e12 - begin;
      const double ours = static_cast<double>(times[i].sent.end) - begin;
      CHECK_MESSAGE(std::abs(ours - theirs) <= 0.01 * theirs, "case ", compared, ": ", ours,
                    " ps instead of ", theirs);
      const auto alone = static_cast<double>(cluster.transfer(
          messages[i].from, messages[i].to, static_cast<std::int64_t>(messages[i].bytes)));
      shared += theirs > 1.5 * alone ? 1 : 0;
      ++compared;
    }
  }
  CHECK(shared > compared / 4);  // in which sharing matters
}
