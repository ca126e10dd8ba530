#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/time/cluster.h"
#include "core/time/message_times.h"
#include "tests/support/complaints.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// The cluster file in core/time/README.md, "Clusters".
nlohmann::json two_nodes() {
  return nlohmann::json::parse(R"({"name": "two nodes", "nodes": 2, "ranks_per_node": 4,
    "flops": 3.12e14, "memory_bandwidth": 2.0e12, "launch_seconds": 5e-6,
    "within":  {"latency_seconds": 3e-6, "bandwidth": 3.0e11},
    "between": {"latency_seconds": 1e-5, "bandwidth": 2.5e10}})");
}

/// Returns the error message from loading a file with these bytes.
std::string answer_to(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string file = folder.file("c.json", bytes);
  return complaint_of<UsageError>([&] { Cluster::load(file); });
}

}  // namespace

TEST_CASE("a message costs latency plus bytes over bandwidth, by the link it crosses") {
  Cluster cluster{.nodes = 2, .ranks_per_node = 2, .within = {1e-6, 1e9}, .between = {5e-6, 1e8}};
  CHECK(cluster.latency(0, 1, 7) == 1'000'000);
  CHECK(cluster.latency(1, 2, 7) == 5'000'000);
  CHECK(cluster.transfer(0, 1, 1000) == 1'000'000);
  CHECK(cluster.transfer(3, 0, 1000) == 10'000'000);
}

TEST_CASE("a segment's α and β hold from its size up to that of the next segment") {
  auto document = two_nodes();
  document["within"]["segments"] = nlohmann::json::parse(R"([
    {"from_bytes": 1000, "latency_seconds": 5e-6, "bandwidth": 1e9},
    {"from_bytes": 4000, "latency_seconds": 0, "bandwidth": null}])");
  const TemporaryFolder folder;
  const Cluster cluster = Cluster::load(folder.file("segments.json", document.dump()));
  CHECK(cluster.latency(0, 1, 999) == 3'000'000);
  CHECK(cluster.transfer(0, 1, 900) == 3'000);
  for (const int bytes : {1000, 3999}) {
    CHECK(cluster.latency(0, 1, bytes) == 5'000'000);
    CHECK(cluster.transfer(0, 1, bytes) == 1'000 * bytes);
  }
  CHECK(cluster.latency(0, 1, 4000) == 0);
  CHECK(cluster.transfer(0, 1, 1 << 30) == 0);
  CHECK(cluster.latency(0, 4, 4000) == 10'000'000);  // `between` has no segments
  CHECK(Cluster::load(folder.file("again.json", cluster.json())) == cluster);

  const auto answer_with = [&](const char* segments) {
    document["between"]["segments"] = nlohmann::json::parse(segments);
    return answer_to(document.dump());
  };
  for (const char* wrong :
       {R"({"from_bytes": 4})", R"([3])", R"([{"from_bytes": 4, "latency_seconds": 0}])",
        R"([{"from_bytes": 0, "latency_seconds": 0, "bandwidth": 1e9}])",
        R"([{"from_bytes": 1.5, "latency_seconds": 0, "bandwidth": 1e9}])",
        R"([{"from_bytes": 1e99, "latency_seconds": 0, "bandwidth": 1e9}])",
        R"([{"from_bytes": 4, "latency_seconds": -1, "bandwidth": 1e9}])",
        R"([{"from_bytes": 4, "latency_seconds": 0, "bandwidth": 1e9, "speed": 1}])",
        R"([{"from_bytes": 8, "latency_seconds": 0, "bandwidth": 1e9},
            {"from_bytes": 8, "latency_seconds": 0, "bandwidth": 1e9}])"}) {
    CAPTURE(wrong);
    CHECK(unlike(answer_with(wrong), {"c.json", "'between'", "segments"}) == "");
  }
}

TEST_CASE("a message takes the cheapest protocol that is used for its size") {
  auto document = two_nodes();
  document["within"] = nlohmann::json::parse(R"({"protocols": [
    {"name": "low latency", "latency_seconds": 1e-6, "bandwidth": 1e9, "up_to_bytes": 7000},
    {"name": "128 bytes", "latency_seconds": 4e-6, "bandwidth": 4e9},
    {"name": "simple", "latency_seconds": 1e-5, "bandwidth": 1e10}]})");
  const TemporaryFolder folder;
  const Cluster cluster = Cluster::load(folder.file("protocols.json", document.dump()));
  const auto costs = [&](std::int64_t bytes, Picoseconds latency, Picoseconds of_a_byte) {
    CAPTURE(bytes);
    CHECK(cluster.latency(0, 1, bytes) == latency);
    CHECK(cluster.transfer(0, 1, bytes) == of_a_byte * bytes);
  };
  // The costs are equal, 1 + n = 4 + n/4, at n = 4 (µs and kB), and 4 + n/4 = 10 + n/10 at n = 40.
  costs(0, 1'000'000, 1000);
  costs(3'999, 1'000'000, 1000);
  costs(4'001, 4'000'000, 250);
  costs(39'999, 4'000'000, 250);
  costs(40'001, 10'000'000, 100);
  CHECK(cluster.latency(0, 4, 4000) == 10'000'000);  // `between` has no protocols
  CHECK(Cluster::load(folder.file("again.json", cluster.json())) == cluster);

  // Without the second protocol, 1 + n = 10 + n/10 at n = 10, but the first ends at 7 kB.
  Cluster limited = cluster;
  limited.within.protocols.erase(limited.within.protocols.begin() + 1);
  CHECK(limited.latency(0, 1, 7'000) == 1'000'000);
  CHECK(limited.latency(0, 1, 7'001) == 10'000'000);

  // A longer message never takes less time, whatever the limits.
  std::mt19937 random{7};
  const auto draw = [&](double least, double most) {
    return std::uniform_real_distribution<double>{least, most}(random);
  };
  for (int trial = 0; trial < 200; ++trial) {
    Link link{.protocols = {{"simple", draw(0, 1e-5), draw(1e8, 1e10)}}};
    for (int i = 0; i < trial % 4; ++i)
      link.protocols.push_back(
          {"other", draw(0, 1e-5), draw(1e8, 1e10), static_cast<std::int64_t>(draw(1, 1e5))});
    double before = 0;
    for (std::int64_t bytes = 0; bytes < 200'000; bytes += 997) {
      const Link::Segment at = link.at(bytes);
      const double time = at.latency_seconds + static_cast<double>(bytes) / at.bandwidth;
      CHECK(time >= before);
      before = time;
      for (const Link::Protocol& each : link.protocols)
        if (bytes <= each.up_to_bytes)
          CHECK(time <= each.latency_seconds + static_cast<double>(bytes) / each.bandwidth);
    }
  }
}

TEST_CASE("wrong protocols of a link give one line with the key") {
  const auto answer_with = [&](const char* protocols, const char* beside = nullptr) {
    auto document = two_nodes();
    document["between"] = {{"protocols", nlohmann::json::parse(protocols)}};
    if (beside) document["between"][beside] = two_nodes()["between"].value(beside, 1.0);
    return answer_to(document.dump());
  };
  constexpr const char* good = R"([{"name": "a", "latency_seconds": 0, "bandwidth": null}])";
  CHECK(answer_with(good) == "(nothing thrown)");
  for (const char* beside : {"latency_seconds", "bandwidth", "segments"})
    CHECK(unlike(answer_with(good, beside), {"'between'", beside, "beside 'protocols'"}) == "");
  CHECK(unlike(answer_with(good, "speed"), {"'between'", "'speed'", "protocols"}) == "");
  for (const char* wrong :
       {"3", "[3]", "[]", R"([{"latency_seconds": 0, "bandwidth": 1e9}])",
        R"([{"name": "a", "latency_seconds": -1, "bandwidth": 1e9}])",
        R"([{"name": "a", "latency_seconds": 0, "bandwidth": 0}])",
        R"([{"name": "a", "latency_seconds": 0, "bandwidth": 1e9, "speed": 1}])",
        R"([{"name": "a", "latency_seconds": 0, "bandwidth": 1e9, "up_to_bytes": 4}])",
        R"([{"name": "a", "latency_seconds": 0, "bandwidth": 1e9, "up_to_bytes": 1.5}])",
        R"([{"name": "a", "latency_seconds": 0, "bandwidth": 1e9, "up_to_bytes": 1e99}])"}) {
    CAPTURE(wrong);
    CHECK(unlike(answer_with(wrong), {"c.json", "'between'", "protocols"}) == "");
  }
}

TEST_CASE("a cluster may have a switch that adds") {
  auto document = two_nodes();
  const TemporaryFolder folder;
  CHECK(!Cluster::load(folder.file("none.json", document.dump())).in_switch);
  document["in_switch"] = {{"latency_seconds", 2e-6}, {"bandwidth", nullptr}};
  const Cluster cluster = Cluster::load(folder.file("switch.json", document.dump()));
  REQUIRE(cluster.in_switch);
  CHECK(*cluster.in_switch == Link{2e-6, std::numeric_limits<double>::infinity()});
  CHECK(Cluster::load(folder.file("again.json", cluster.json())) == cluster);
  document["in_switch"] = {{"latency_seconds", 2e-6}};
  CHECK(unlike(answer_to(document.dump()), {"c.json", "'in_switch'", "bandwidth"}) == "");
  document["in_switch"] = 3;
  CHECK(unlike(answer_to(document.dump()), {"c.json", "'in_switch'", "JSON object"}) == "");
}

TEST_CASE("a cluster file says what ranks share") {
  auto document = two_nodes();
  document["shared"] = nlohmann::json::parse(R"({"port": 3e11, "uplink": null,
    "cards": {"per_node": 2, "bandwidth": 2.5e10},
    "leaves": {"nodes": 2, "by_rail": true, "oversubscription": 2},
    "kernels_beside_collectives": 1.1})");
  const TemporaryFolder folder;
  const Cluster cluster = Cluster::load(folder.file("shared.json", document.dump()));
  REQUIRE(cluster.shared);
  CHECK(cluster.shared->port == 3e11);
  CHECK(std::isinf(cluster.shared->uplink));
  CHECK(cluster.shared->cards->of_rank == std::vector{0, 0, 1, 1});  // neighbours share a card
  CHECK(cluster.shared->leaves->by_rail);
  CHECK(cluster.shared->kernels_beside_collectives == 1.1);
  CHECK(Cluster::load(folder.file("again.json", cluster.json())) == cluster);

  const auto answer_with = [&](const char* shared) {
    document["shared"] = nlohmann::json::parse(shared);
    return answer_to(document.dump());
  };
  for (const char* wrong :
       {R"([])", R"({"port": 0})", R"({"uplink": "fast"})", R"({"cables": 3})",
        R"({"cards": {"per_node": 0, "bandwidth": 1}})", R"({"cards": {"per_node": 2}})",
        R"({"cards": {"per_node": 2, "bandwidth": 1, "of_rank": [0, 1]}})",
        R"({"cards": {"per_node": 2, "bandwidth": 1, "of_rank": [0, 1, 2, 1]}})",
        R"({"cards": {"per_node": 2, "bandwidth": 1, "of_rank": [0, 1, -1, 1]}})",
        R"({"leaves": {"nodes": 2}})", R"({"leaves": {"nodes": 2, "oversubscription": 0.5}})",
        R"({"leaves": {"nodes": 2, "oversubscription": 2, "by_rail": 1}})",
        R"({"kernels_beside_collectives": 0.9})", R"({"kernels_beside_collectives": 1e6})"}) {
    CAPTURE(wrong);
    CHECK(unlike(answer_with(wrong), {"c.json", "'shared'"}) == "");
  }
  document.erase("shared");
  document["collectives"] = "magic";
  CHECK(unlike(answer_to(document.dump()), {"c.json", "'collectives'", "library"}) == "");
}

TEST_CASE("compute costs the slower of arithmetic and memory, and a launch") {
  const Cluster cluster{.flops = 1e9, .memory_bandwidth = 1e6, .launch_seconds = 2e-6};
  CHECK(cluster.compute({.flops = 1000, .bytes = 0}) == 3'000'000);
  CHECK(cluster.compute({.flops = 1000, .bytes = 5}) == 7'000'000);
  CHECK(cluster.compute({}) == 2'000'000);
}

TEST_CASE("a cost is rounded once, to the nearest picosecond") {
  // Each part alone is 0.4 ps, which rounds to 0; the sum is 0.8 ps.
  const Cluster cluster{.flops = 1, .launch_seconds = 0.4e-12};
  CHECK(cluster.compute({.flops = 0.4e-12}) == 1);
  CHECK(picoseconds(0.4e-12) + picoseconds(0.4e-12) == 0);
  CHECK(picoseconds(1.5e-12) == 2);
  CHECK(picoseconds(-1.5e-12) == -2);

  std::mt19937_64 random{3};
  std::uniform_real_distribution<double> exponent(0, 12);
  for (int round = 0; round < 1000; ++round) {
    const Cluster any{.flops = std::pow(10, exponent(random) + 6),
                      .memory_bandwidth = std::pow(10, exponent(random) + 6),
                      .launch_seconds = std::pow(10, -exponent(random))};
    const Cost cost{.flops = std::pow(10, exponent(random)),
                    .bytes = std::pow(10, exponent(random))};
    const double exact =
        (std::max(cost.flops / any.flops, cost.bytes / any.memory_bandwidth) + any.launch_seconds) *
        1e12;
    const auto cost_of = static_cast<double>(any.compute(cost));
    CHECK(std::abs(cost_of - exact) <= 0.5 + exact * 1e-15);
  }
}

TEST_CASE("a modelled time above 46 days is refused, however large the terms are") {
  const Cluster slow{.name = "slow", .flops = 1.5, .within = {0, 1}};
  CHECK(slow.after(latest_time - 1, 1) == latest_time);
  for (const auto& [start, duration] : {std::pair{latest_time, Picoseconds{1}},
                                        {longest_time, Picoseconds{0}},
                                        {Picoseconds{0}, longest_time},
                                        {longest_time, longest_time},
                                        {plus(longest_time, 2 * longest_time), longest_time}})
    CHECK(unlike(complaint_of<UsageError>([&, s = start, d = duration] { slow.after(s, d); }),
                 {"'slow'", "1.5 FLOP/s", "46 days", "--cluster"}) == "");
  Picoseconds free = latest_time;
  const auto bytes = std::int64_t{1} << 50;  // at 1 B/s
  CHECK_THROWS_AS(depart(slow, 0, 1, bytes, 0, free), UsageError);
  CHECK_THROWS_AS(arrive(slow, 0, 1, bytes, latest_time, free), UsageError);
}

TEST_CASE("a cluster file describes a whole cluster") {
  const TemporaryFolder folder;
  const Cluster cluster = Cluster::load(folder.file("two.json", two_nodes().dump()));
  CHECK(cluster.name == "two nodes");
  CHECK(cluster.nodes == 2);
  CHECK(cluster.ranks_per_node == 4);
  CHECK(cluster.flops == 3.12e14);
  CHECK(cluster.memory_bandwidth == 2.0e12);
  CHECK(cluster.launch_seconds == 5e-6);
  CHECK(cluster.within.latency_seconds == 3e-6);
  CHECK(cluster.within.bandwidth == 3.0e11);
  CHECK(cluster.between.latency_seconds == 1e-5);
  CHECK(cluster.between.bandwidth == 2.5e10);
}

TEST_CASE("null means infinite bandwidth: a byte then takes no time") {
  auto document = two_nodes();
  document["flops"] = nullptr;
  document["memory_bandwidth"] = nullptr;
  document["within"]["bandwidth"] = nullptr;
  const TemporaryFolder folder;
  const Cluster cluster = Cluster::load(folder.file("null.json", document.dump()));
  CHECK(std::isinf(cluster.flops));
  CHECK(cluster.transfer(0, 1, std::int64_t{1} << 40) == 0);
  CHECK(cluster.transfer(0, 4, 25) == 1000);
  CHECK(cluster.compute({.flops = 1e20, .bytes = 1e20}) == 5'000'000);
}

TEST_CASE("a cluster that is written and read back is unchanged") {
  const TemporaryFolder folder;
  for (const std::string& preset : Cluster::presets()) {
    const Cluster written = Cluster::load(preset);
    CHECK(Cluster::load(folder.file(preset + ".json", written.json())) == written);
  }
}

TEST_CASE("memory is a whole number of bytes, and unlimited if it is null or missing") {
  const TemporaryFolder folder;
  auto document = two_nodes();
  const auto read = [&] { return Cluster::load(folder.file("memory.json", document.dump())); };
  CHECK(!read().memory);
  CHECK(read().json().find("\"memory\"") == std::string::npos);
  document["memory"] = nullptr;
  CHECK(!read().memory);
  for (const nlohmann::json& bytes : {nlohmann::json(80'000'000'000), nlohmann::json(8.0e10)}) {
    document["memory"] = bytes;
    const Cluster cluster = read();
    CHECK(cluster.memory == 80'000'000'000);
    CHECK(nlohmann::json::parse(cluster.json())["memory"].dump() == "80000000000");
    CHECK(Cluster::load(folder.file("again.json", cluster.json())) == cluster);
    Cluster unlimited = cluster;
    unlimited.memory.reset();
    CHECK(cluster != unlimited);
  }
  for (const nlohmann::json& wrong :
       {nlohmann::json(0), nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json(1e300),
        nlohmann::json("80 GB"), nlohmann::json(true), nlohmann::json::array({8}),
        nlohmann::json::object()}) {
    CAPTURE(wrong);
    document["memory"] = wrong;
    const std::string shown = wrong.is_array()    ? "a list"
                              : wrong.is_object() ? "an object"
                                                  : wrong.dump();
    CHECK(unlike(answer_to(document.dump()),
                 {"c.json", "'memory'", shown, "wants a whole number of bytes", "null"}) == "");
  }
}

namespace {

/// The rates in core/time/README.md, "Clusters".
nlohmann::json with_rates() {
  auto document = two_nodes();
  document["rates"] = nlohmann::json::parse(R"({
    "products": {"m": [128, 1024], "n": [1024], "k": [64, 1024],
                 "flops": [2.0e13, 1.0e14, 8.0e13, 2.4e14]},
    "attention": {"m": [64, 1024], "n": [1024], "k": [64], "flops": [3.0e13, 1.2e14]},
    "memory_share": 0.8})");
  return document;
}

}  // namespace

TEST_CASE("groups of ranks have their own devices, and the cluster's values otherwise") {
  auto document = two_nodes();
  document["memory"] = 1000;
  document["groups"] = {{{"name", "old"}, {"ranks", {6, 1}}, {"flops", 1e14}, {"memory", nullptr}},
                        {{"name", "tiny"}, {"ranks", {7}}, {"memory", 10}, {"launch_seconds", 0}}};
  const TemporaryFolder folder;
  const Cluster cluster = Cluster::load(folder.file("groups.json", document.dump()));
  REQUIRE(cluster.groups.size() == 2);
  CHECK(cluster.groups[0].ranks == std::vector{1, 6});
  const int groups[] = {-1, 0, -1, -1, -1, -1, 0, 1, -1};
  for (int rank = 0; rank < 9; ++rank) CHECK(cluster.group_of(rank) == groups[rank]);
  CHECK(cluster.device_name(0) == "two nodes");
  CHECK(cluster.device_name(6) == "old");
  const Cost cost{.flops = 3.12e14, .bytes = 1e12};
  CHECK(cluster.compute(cost) == 1'000'005'000'000);
  CHECK(cluster.as_seen_by(0).compute(cost) == 1'000'005'000'000);
  CHECK(cluster.as_seen_by(1).compute(cost) == 3'120'005'000'000);
  CHECK(cluster.as_seen_by(7).compute(cost) == 1'000'000'000'000);
  CHECK(cluster.as_seen_by(0).memory == 1000);
  CHECK(!cluster.as_seen_by(6).memory);
  CHECK(cluster.as_seen_by(7).memory == 10);
  CHECK(cluster.as_seen_by(7).groups.empty());
  CHECK(cluster.as_seen_by(7).between == cluster.between);
  CHECK(Cluster::load(folder.file("again.json", cluster.json())) == cluster);
}

TEST_CASE("a group without rates runs at the peak, also if the others have rates") {
  auto document = two_nodes();
  const auto rates = [](double flops) {
    const nlohmann::ordered_json table{{"m", {8}}, {"n", {8}}, {"k", {8}}, {"flops", {flops}}};
    return nlohmann::ordered_json{{"products", table}, {"attention", table}, {"memory_share", 1}};
  };
  document["launch_seconds"] = 0;
  document["rates"] = rates(1e12);
  document["groups"] = {{{"name", "peak"}, {"ranks", {0}}, {"rates", nullptr}},
                        {{"name", "slow"}, {"ranks", {1}}, {"rates", rates(1e10)}}};
  const TemporaryFolder folder;
  const Cluster cluster = Cluster::load(folder.file("rates.json", document.dump()));
  const Cost cost{.flops = 3.12e14, .kind = KernelKind::product};
  CHECK(cluster.as_seen_by(0).compute(cost) == 1'000'000'000'000);
  CHECK(cluster.as_seen_by(1).compute(cost) / 1'000'000 == doctest::Approx(31'200'000'000));
  CHECK(cluster.as_seen_by(2).compute(cost) == 312'000'000'000'000);
  CHECK(std::string{cluster.rates_text()} == "partly at measured rates, partly at peak");
  CHECK(Cluster::load(folder.file("again.json", cluster.json())) == cluster);
}

TEST_CASE("wrong groups of ranks give one line with the key") {
  const auto answer_with = [](const nlohmann::ordered_json& groups) {
    auto document = two_nodes();
    document["groups"] = groups;
    return answer_to(document.dump());
  };
  const auto group = [](const nlohmann::ordered_json& changes) {
    nlohmann::ordered_json one{{"name", "old"}, {"ranks", {0}}};
    one.update(changes);
    return nlohmann::ordered_json::array({one});
  };
  CHECK(unlike(answer_with({{"name", "old"}}), {"c.json", "'groups'", "a list of objects"}) == "");
  CHECK(unlike(answer_with({1}), {"c.json", "'groups'", "a JSON object"}) == "");
  for (const char* wrong :
       {R"({"ranks": [8]})", R"({"ranks": [-1]})", R"({"ranks": [0.5]})", R"({"ranks": ["0"]})",
        R"({"ranks": []})", R"({"ranks": 3})", R"({"ranks": [2, 2]})"}) {
    CAPTURE(wrong);
    CHECK(unlike(answer_with(group(nlohmann::ordered_json::parse(wrong))),
                 {"'groups'", "'ranks'"}) == "");
  }
  CHECK(unlike(answer_with(group({{"name", 3}})), {"'groups'", "'name'"}) == "");
  CHECK(unlike(answer_with(group({{"flops", 0}})), {"'groups'", "'flops'"}) == "");
  CHECK(unlike(answer_with(group({{"memory", -5}})), {"'groups'", "'memory'"}) == "");
  CHECK(unlike(answer_with(group({{"speed", 1}})), {"'groups'", "unknown key 'speed'"}) == "");
  CHECK(unlike(answer_with({{{"name", "a"}, {"ranks", {0, 1}}}, {{"name", "b"}, {"ranks", {1}}}}),
               {"'groups'", "'ranks'", "1, which is there twice"}) == "");
  CHECK(answer_with(nullptr) == "(nothing thrown)");
}

TEST_CASE("measured rates: a kernel's time follows from its kind and shape") {
  const TemporaryFolder folder;
  Cluster cluster = Cluster::load(folder.file("rates.json", with_rates().dump()));
  cluster.launch_seconds = 0;
  const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return cluster.compute(
        {.flops = 1.2e12, .bytes = 1e15, .kind = KernelKind::product, .m = m, .n = n, .k = k});
  };
  CHECK(time(128, 1024, 64) == picoseconds(1.2e12 / 2.0e13));
  CHECK(time(128, 1024, 1024) == picoseconds(1.2e12 / 1.0e14));
  CHECK(time(1024, 1024, 64) == picoseconds(1.2e12 / 8.0e13));
  CHECK(time(1024, 1024, 1024) == picoseconds(1.2e12 / 2.4e14));
  CHECK(time(1, 7, 9) == time(128, 1024, 64));  // beyond the measured sizes, the nearest
  CHECK(time(9999, 9999, 9999) == time(1024, 1024, 1024));
  // Halfway on a logarithmic scale, the rate is the geometric mean: of 2 and 10 between k = 64 and
  // 1024, of 2 and 8 between m = 128 and 1024, and of all four.
  const auto rate = [&](std::int64_t m, double k) {
    return 1.2e12 / seconds(time(m, 1024, static_cast<std::int64_t>(k)));
  };
  CHECK(rate(128, 256) == doctest::Approx(1e13 * std::sqrt(2.0 * 10)).epsilon(1e-6));
  CHECK(rate(362, 64) == doctest::Approx(1e13 * std::sqrt(2.0 * 8)).epsilon(1e-3));
  CHECK(rate(362, 256) == doctest::Approx(1e13 * std::pow(2.0 * 10 * 8 * 24, 0.25)).epsilon(1e-3));
  for (const auto& [queries, rate_of_them] : {std::pair{64, 3.0e13}, {1024, 1.2e14}})
    CHECK(cluster.compute({.flops = 1.2e12,
                           .bytes = 1e15,
                           .kind = KernelKind::attention,
                           .m = queries,
                           .n = queries,
                           .k = 64}) == picoseconds(1.2e12 / rate_of_them));
  CHECK(cluster.compute({.bytes = 1.6e12}) == picoseconds(1.6e12 / (0.8 * 2.0e12)));
  cluster.launch_seconds = 5e-6;
  CHECK(cluster.compute({}) == 5'000'000);
  CHECK(std::string{cluster.rates_text()} == "at measured rates");
  CHECK(std::string{Cluster{}.rates_text()} == "at peak");
  CHECK(Cluster::load(folder.file("again.json", cluster.json())) == cluster);
}

TEST_CASE("measured rates: a rate lies between the measured ones, and meets each of them") {
  std::mt19937 random{3};
  const auto up_to = [&](int most) {
    return 1 + static_cast<std::int64_t>(random() % unsigned(most));
  };
  for (int trial = 0; trial < 200; ++trial) {
    RateTable rates;
    for (auto* sizes : {&rates.m, &rates.n, &rates.k}) {
      sizes->push_back(up_to(40));
      for (std::int64_t i = up_to(3); i > 1; --i) sizes->push_back(sizes->back() + up_to(1000));
    }
    const std::size_t count = rates.m.size() * rates.n.size() * rates.k.size();
    for (std::size_t i = 0; i < count; ++i)
      rates.flops.push_back(1e9 * static_cast<double>(up_to(1000)));
    const auto [least, most] = std::ranges::minmax(rates.flops);
    const std::int64_t m = up_to(3000), n = up_to(3000), k = up_to(3000);
    const double rate = rates.at({.m = m, .n = n, .k = k});
    CHECK(rate >= least * (1 - 1e-12));
    CHECK(rate <= most * (1 + 1e-12));
    const std::size_t i = random() % rates.m.size(), j = random() % rates.n.size(),
                      l = random() % rates.k.size();
    CHECK(
        rates.at({.m = rates.m[i], .n = rates.n[j], .k = rates.k[l]}) ==
        doctest::Approx(rates.flops[(i * rates.n.size() + j) * rates.k.size() + l]).epsilon(1e-9));
  }
}

TEST_CASE("measured rates: a wrong file gives one line with the key") {
  const auto answer = [](const std::vector<std::string>& path, const nlohmann::json& value) {
    auto document = with_rates();
    nlohmann::json* at = &document["rates"];
    for (const std::string& key : path) at = &(*at)[key];
    *at = value;
    return answer_to(document.dump());
  };
  CHECK(answer({}, with_rates()["rates"]) == "(nothing thrown)");
  CHECK(unlike(answer({}, 3), {"c.json", "'rates'", "object"}) == "");
  CHECK(unlike(answer({"gelu"}, 1), {"'rates'", "'gelu'", "memory_share"}) == "");
  CHECK(unlike(answer({"products"}, nullptr), {"'products'"}) == "");
  CHECK(unlike(answer({"products", "m"}, {128}), {"'flops' has 4 rates", "2 shapes"}) == "");
  for (const nlohmann::json& wrong :
       {nlohmann::json{128, 128}, nlohmann::json{0, 128}, nlohmann::json{1.5}, nlohmann::json{"x"},
        nlohmann::json(7), nlohmann::json::array()})
    for (const char* size : {"m", "n", "k"})
      CHECK(unlike(answer({"products", size}, wrong), {"'" + std::string{size} + "'"}) == "");
  for (const nlohmann::json& wrong :
       {nlohmann::json(0), nlohmann::json("fast"), nlohmann::json()}) {
    CHECK(unlike(answer({"products", "flops"}, {1e9, 1e9, 1e9, wrong}), {"'flops'"}) == "");
    CHECK(unlike(answer({"attention", "flops"}, {1e9, wrong}), {"'attention'", "'flops'"}) == "");
    CHECK(unlike(answer({"memory_share"}, wrong), {"'memory_share'"}) == "");
  }
}

TEST_CASE("presets are found by name, and `free` costs nothing") {
  CHECK(Cluster::presets() == std::vector<std::string>{"free", "classroom", "ethernet", "mixed",
                                                       "a100", "h100", "h200", "b200"});
  for (const std::string& name : Cluster::presets()) CHECK(Cluster::load(name).name == name);
  const Cluster free = Cluster::load("free");
  CHECK(free.latency(0, 1, 7) == 0);
  CHECK(free.transfer(0, 1, std::int64_t{1} << 40) == 0);
  CHECK(Cluster::load("a100").flops == 3.12e14);
}

TEST_CASE("presets of real machines have the memory of their cards, the textbook's are unlimited") {
  for (const char* name : {"free", "classroom", "ethernet", "mixed"})
    CHECK(!Cluster::load(name).memory);
  for (const char* name : {"a100", "h100"}) {
    const std::int64_t card = std::int64_t{80} << 30;
    const std::int64_t memory = Cluster::load(name).memory.value();
    CHECK(memory == 80'000'000'000);
    CHECK(card - memory > 5e9);
    CHECK(card - memory < 6e9);
  }
  CHECK(Cluster::load("h200").memory == 141'000'000'000);
  CHECK(Cluster::load("b200").memory == 1'440'000'000'000 / 8);
}

TEST_CASE("the textbook presets run at the peak, with their figures unchanged") {
  CHECK(Cluster::load("free") == Cluster{});
  const Cluster classroom{.name = "classroom",
                          .nodes = 16,
                          .ranks_per_node = 8,
                          .flops = 3.12e14 / 192,
                          .memory_bandwidth = 2.0e12,
                          .launch_seconds = 5e-6 / 9200,
                          .within = {3e-6 / 9200, 3.0e11},
                          .between = {1e-5 / 9200, 2.5e10}};
  CHECK(Cluster::load("classroom") == classroom);
  Cluster ethernet = classroom;
  ethernet.name = "ethernet";
  ethernet.nodes = 128;
  ethernet.ranks_per_node = 1;
  ethernet.between.bandwidth = 1.25e10;
  CHECK(Cluster::load("ethernet") == ethernet);
}

TEST_CASE(
    "presets of real machines: the best product is the measured one, thin ones are far below") {
  // Best measured products: stas00/ml-engineering. Peaks and memory: NVIDIA's data sheets.
  struct Known {
    const char* name;
    double best, peak, memory;
  };
  for (const auto& [name, best, peak, memory] : {Known{"a100", 271.2e12, 312e12, 2.0e12},
                                                 {"h100", 794.5e12, 989e12, 3.35e12},
                                                 {"h200", 794.5e12, 989e12, 4.8e12},
                                                 {"b200", 1745e12, 2250e12, 8.0e12}}) {
    CAPTURE(name);
    const Cluster cluster = Cluster::load(name);
    CHECK(cluster.flops == peak);
    CHECK(cluster.memory_bandwidth == memory);
    REQUIRE(cluster.rates);
    const RateTable& products = cluster.rates->products;
    CHECK(std::ranges::max(products.flops) == doctest::Approx(best).epsilon(1e-12));
    const auto rate = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
      return products.at({.m = m, .n = n, .k = k});
    };
    CHECK(rate(1 << 20, 1 << 20, 1 << 20) == doctest::Approx(best).epsilon(1e-12));
    CHECK(rate(8192, 8192, 8192) > 0.8 * best);
    for (const std::int64_t thin : {1, 16, 32}) {
      CHECK(rate(thin, 8192, 8192) < 0.25 * peak);
      CHECK(rate(8192, thin, 8192) < 0.25 * peak);
      CHECK(rate(8192, 8192, thin) < 0.25 * peak);
    }
    CHECK(rate(128, 128, 128) < 0.25 * peak);
    // A matrix times a vector reads each element of the matrix once, so memory limits its speed.
    const double elements = 8192.0 * 8192;
    CHECK(2 * elements / rate(8192, 1, 8192) ==
          doctest::Approx(2 * elements / memory).epsilon(0.02));
    // A larger product is never slower, and attention is never faster than the peak.
    for (std::int64_t size = 1; size < 20000; size *= 2) {
      CHECK(rate(size, 512, 4096) <= rate(2 * size, 512, 4096));
      CHECK(rate(512, size, 4096) <= rate(512, 2 * size, 4096));
      CHECK(rate(512, 4096, size) <= rate(512, 4096, 2 * size));
      CHECK(cluster.rates->attention.at({.m = size, .n = size, .k = 128}) < peak);
    }
  }
}

TEST_CASE("an invalid cluster file gives one line that names the file and the key") {
  CHECK(unlike(complaint_of<UsageError>([] { Cluster::load("missing.json"); }),
               {"--cluster missing.json", "no such", "classroom"}) == "");
  const TemporaryFolder folder;
  CHECK(unlike(complaint_of<UsageError>([&] { Cluster::load(folder.path().string()); }),
               {"--cluster " + folder.path().string()}) == "");

  for (const std::string bytes :
       {"", "nonsense", "{\"name\":", "{\n\n\"name\" 3\n}", "[]", "3", "null", "\xff\xfe{}",
        "{\"name\": \"x\", \"nodes\": NaN}", "{\"nodes\": 1e999}", "\"\n\""}) {
    CAPTURE(bytes);
    CHECK(unlike(answer_to(bytes), {"--cluster ", "c.json"}) == "");
  }

  std::string twice = two_nodes().dump();
  twice.insert(1, "\"nodes\":3,");
  CHECK(unlike(answer_to(twice), {"c.json", "'nodes' is there twice"}) == "");
  CHECK(unlike(answer_to(std::string(1'000'000, '[')), {"c.json", "524288 bytes"}) == "");
  for (const std::string& name :
       std::vector<std::string>{"a\x1b[2J", "a\nb", std::string(1000, 'a')}) {
    auto document = two_nodes();
    document["name"] = name;
    CHECK(unlike(answer_to(document.dump()), {"c.json", "'name'", "printable"}) == "");
  }

  const nlohmann::json good = two_nodes();
  for (const auto& [key, value] : good.items()) {
    CAPTURE(std::string{key});
    auto without = two_nodes();
    without.erase(key);
    CHECK(unlike(answer_to(without.dump()), {"c.json", "'" + key + "'"}) == "");
    auto other = two_nodes();
    other[key] = key == "name" ? nlohmann::json(7) : nlohmann::json("seven");
    CHECK(unlike(answer_to(other.dump()), {"c.json", "'" + key + "'"}) == "");
    other[key] = true;
    CHECK(unlike(answer_to(other.dump()), {"c.json", "'" + key + "'"}) == "");
    other.erase(key);
    other[key + "s"] = value;
    CHECK(unlike(answer_to(other.dump()), {"c.json", "'" + key}) == "");
  }
  for (const char* link : {"within", "between"}) {
    for (const char* key : {"latency_seconds", "bandwidth"}) {
      CAPTURE(std::string{key});
      auto document = two_nodes();
      document[link].erase(key);
      CHECK(unlike(answer_to(document.dump()), {"c.json", link, key}) == "");
      document[link][key] = -1;
      CHECK(unlike(answer_to(document.dump()), {"c.json", link, key, "-1"}) == "");
    }
    auto document = two_nodes();
    document[link]["speed"] = 3;
    CHECK(unlike(answer_to(document.dump()), {"c.json", link, "'speed'", "bandwidth"}) == "");
  }
  auto document = two_nodes();
  document["gpus"] = 3;
  CHECK(unlike(answer_to(document.dump()), {"c.json", "'gpus'", "ranks_per_node"}) == "");
}

TEST_CASE("an impossible number is named with its key") {
  struct Wrong {
    const char* key;
    nlohmann::json value;
  };
  const std::vector<Wrong> wrongs{{"nodes", 0},
                                  {"nodes", -1},
                                  {"nodes", 2.5},
                                  {"nodes", nullptr},
                                  {"nodes", 1e12},
                                  {"nodes", 1e300},
                                  {"ranks_per_node", 0},
                                  {"ranks_per_node", 1.5},
                                  {"ranks_per_node", 3e9},
                                  {"flops", 0},
                                  {"flops", -3.0},
                                  {"memory_bandwidth", 0},
                                  {"launch_seconds", -1e-9},
                                  {"launch_seconds", nullptr},
                                  {"launch_seconds", 1e300}};
  for (const auto& [key, value] : wrongs) {
    CAPTURE(std::string{key});
    CAPTURE(value);
    auto document = two_nodes();
    document[key] = value;
    CHECK(unlike(answer_to(document.dump()),
                 {"c.json", std::string{"'"} + key + "'", value.dump(), "wants"}) == "");
  }
  auto document = two_nodes();
  document["within"]["latency_seconds"] = 1e300;
  CHECK(unlike(answer_to(document.dump()), {"c.json", "within", "latency_seconds"}) == "");
}
