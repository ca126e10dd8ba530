#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/run/reference/parity.h"
#include "core/run/results/rank_results.h"
#include "tests/support/bytes.h"
#include "tests/support/complaints.h"
#include "viz/read/report/report.h"

using namespace lockstep;
using lockstep::testing::bytes_of;
using namespace lockstep::testing;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

Reference reference_of(std::vector<double> losses, std::vector<float> values) {
  return {std::move(losses), {{"w", 0, std::move(values)}}};
}

}  // namespace

TEST_CASE("a rank's results survive serialisation bit for bit") {
  std::mt19937 random{4};
  for (int round = 0; round < 50; ++round) {
    RankResults record{.rank = round, .host = "höst \"1\"", .train_seconds = 0.1 * round};
    for (int i = 0; i < 20; ++i)
      record.losses.emplace_back(
          i, std::bit_cast<double>((std::uint64_t{random()} << 32 | random()) >> 2));
    record.losses.emplace_back(20, -0.0);
    record.losses.emplace_back(21, 5.0);
    record.losses.emplace_back(22, std::numeric_limits<double>::infinity());
    record.parameters.push_back({"w", 3, {0.0F, -0.0F, inf, -inf, std::nanf(""), 1e-45F}});
    record.parameters.push_back({"empty", 4, {}});
    std::vector<float> any(random() % 100);
    for (float& value : any) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    record.parameters.push_back({"any", 5, any});
    auto predicted = Predicted::without_memory("no \"reason\"");
    predicted.formula = "(p-1)/(m+p-1)";
    predicted.bubble = 3.0 / 7;
    predicted.bytes_sent[Operation::send] = std::int64_t{1} << 50;
    predicted.bytes_sent[Operation::gather] = Figure::not_predicted("who knows");
    predicted.peak_bytes[MemoryCategory::activations] = 7;
    predicted.schedule = "0F0,1F0";
    predicted.stages = 4;
    predicted.in_flight = 3;
    record.phases.push_back({.phase = {"m = 4", 2, 3, 4, {0, 2, 5}},
                             .predicted = predicted,
                             .bytes_sent = bytes_of({{Operation::send, 9}}),
                             .overhead_bytes = 160,
                             .peak = {.bytes = {1, 2, 3, 4, std::int64_t{1} << 60}},
                             .peak_total = std::int64_t{1} << 61});
    record.process = {.id = 7, .program = std::int64_t{1} << 40, .resident = -1};
    record.phases.push_back({});

    const RankResults copy = RankResults::from_bytes(record.to_bytes());
    CHECK(copy.rank == record.rank);
    CHECK(copy.host == record.host);
    CHECK(copy.train_seconds == record.train_seconds);
    REQUIRE(copy.losses.size() == record.losses.size());
    for (std::size_t i = 0; i < copy.losses.size(); ++i) {
      CHECK(copy.losses[i].first == record.losses[i].first);
      CHECK(std::bit_cast<std::uint64_t>(copy.losses[i].second) ==
            std::bit_cast<std::uint64_t>(record.losses[i].second));
    }
    REQUIRE(copy.parameters.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(copy.parameters[i].name == record.parameters[i].name);
      CHECK(copy.parameters[i].order == record.parameters[i].order);
      CHECK(bits_of(copy.parameters[i].values) == bits_of(record.parameters[i].values));
    }
    REQUIRE(copy.phases.size() == 2);
    const PhaseResults& phase = copy.phases[0];
    CHECK(phase.phase.name == "m = 4");
    CHECK(phase.phase.first_step == 2);
    CHECK(phase.phase.steps == 3);
    CHECK(phase.phase.microbatches == 4);
    CHECK(phase.phase.replicas == std::vector{0, 2, 5});
    CHECK(phase.predicted.formula == "(p-1)/(m+p-1)");
    CHECK(phase.predicted.bubble == 3.0 / 7);
    CHECK_FALSE(phase.predicted.bubble_simulated);
    CHECK(phase.predicted.bytes_sent == record.phases[0].predicted.bytes_sent);
    CHECK(phase.predicted.peak_bytes == record.phases[0].predicted.peak_bytes);
    CHECK(phase.predicted.schedule == "0F0,1F0");
    CHECK(phase.predicted.stages == 4);
    CHECK(phase.predicted.in_flight == 3);
    CHECK(phase.bytes_sent == record.phases[0].bytes_sent);
    CHECK(phase.overhead_bytes == 160);
    CHECK(phase.peak.bytes == record.phases[0].peak.bytes);
    CHECK(phase.peak_total == std::int64_t{1} << 61);
    CHECK(copy.process.id == 7);
    CHECK(copy.process.program == std::int64_t{1} << 40);
    CHECK(copy.process.resident == -1);
  }
}

TEST_CASE("a NaN loss stays NaN") {
  RankResults record;
  record.losses.emplace_back(0, std::nan(""));
  CHECK(std::isnan(RankResults::from_bytes(record.to_bytes()).losses.front().second));
}

TEST_CASE("a phase's metadata in the trace is valid JSON with the known values") {
  Predicted predicted;
  predicted.formula = "a \"formula\"";
  predicted.bubble = 0.5;
  predicted.schedule = "1F1B";
  predicted.stages = 2;
  const auto json = nlohmann::json::parse(predicted_json({"m = 4", 2, 3, 4}, predicted));
  CHECK(json["formula"] == "a \"formula\"");
  CHECK(json["bubble"] == 0.5);
  CHECK(json["microbatches"] == 4);
  CHECK(json["first_step"] == 2);
  CHECK_FALSE(json.contains("bubble_simulated"));
  CHECK(nlohmann::json::parse(predicted_json({}, {})).contains("phase"));
}

TEST_CASE("the report compares resident memory with the account, process by process") {
  const auto rank = [](int id, const char* host, RankProcess process,
                       const std::vector<std::int64_t>& peaks) {
    RankResults record{.rank = id, .host = host, .process = process};
    for (const std::int64_t peak : peaks) record.phases.push_back({.peak_total = peak});
    return record;
  };
  // Two hosts, each with a process of the same id.
  std::vector<RankResults> ranks{rank(0, "a", {7, 50, 1'000}, {300, 400}),
                                 rank(1, "b", {7, 60, 700}, {500}),
                                 rank(2, "a", {7, 50, 900}, {200, 100})};
  const std::vector<ProcessMemory> processes = process_memory(ranks);
  REQUIRE(processes.size() == 2);
  CHECK(processes[0].ranks == std::vector{0, 2});
  CHECK(processes[0].tensors == 400 + 200);  // each rank's highest phase
  CHECK(processes[0].program == 50);
  CHECK(processes[0].resident == 900);  // measured before rank 0 had copied its results
  CHECK(processes[0].other() == 900 - 600 - 50);
  CHECK(processes[1].ranks == std::vector{1});
  CHECK(processes[1].other() == 700 - 500 - 60);
  ranks[1].process = {};
  CHECK(process_memory(ranks).empty());
}

TEST_CASE("losses come from the ranks that have them, and each step must have one") {
  std::vector<RankResults> ranks(2);
  ranks[0].losses = {{1, 10.0}};
  ranks[1].losses = {{0, 9.0}, {2, 11.0}};
  CHECK(collect_losses(ranks, 3) == std::vector<double>{9, 10, 11});
  ranks[1].losses.push_back({1, 2.5});  // another share of the same step's loss
  CHECK(collect_losses(ranks, 3) == std::vector<double>{9, 12.5, 11});
  CHECK(unlike(complaint_of<RunError>([&] { collect_losses(ranks, 4); }), {"step 3"}) == "");
}

TEST_CASE("each parameter appears once, in the model's order") {
  std::vector<RankResults> ranks(2);
  ranks[0].parameters = {{"tied", 7, {1}}, {"b", 2, {2}}};
  ranks[1].parameters = {{"a", 0, {3}}, {"tied", 7, {1}}};
  const auto parameters = collect_parameters(ranks);
  REQUIRE(parameters.size() == 3);
  CHECK(parameters[0].name == "a");
  CHECK(parameters[1].name == "b");
  CHECK(parameters[2].name == "tied");
}

TEST_CASE("slices of parameters are assembled, whichever ranks hold them") {
  std::mt19937 random{9};
  for (int round = 0; round < 50; ++round) {
    const int ranks = 1 + round % 5;
    std::vector<RankResults> records(static_cast<std::size_t>(ranks));
    std::vector<NamedValues> whole;
    for (int order = 0; order < 6; ++order) {
      NamedValues tensor{std::string{"t"} + std::to_string(order), order, {}};
      for (auto left = 1 + random() % 40; left > 0; --left)
        tensor.values.push_back(static_cast<float>(random()));
      for (std::size_t at = 0; at < tensor.values.size();) {
        const std::size_t count =
            std::min<std::size_t>(1 + random() % 20, tensor.values.size() - at);
        const auto from = tensor.values.begin() + static_cast<std::ptrdiff_t>(at);
        const Slice all{{static_cast<std::int64_t>(tensor.values.size())}};
        const NamedValues part{
            tensor.name,
            order,
            {from, from + static_cast<std::ptrdiff_t>(count)},
            all.range(static_cast<std::int64_t>(at), static_cast<std::int64_t>(count))};
        for (auto copies = 1 + random() % 2; copies > 0; --copies)
          records[random() % records.size()].parameters.push_back(part);
        at += count;
      }
      whole.push_back(tensor);
    }
    const auto together = collect_parameters(records);
    REQUIRE(together.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      CHECK(together[i].name == whole[i].name);
      CHECK(together[i].order == whole[i].order);
      CHECK(together[i].slice.is_whole());
      CHECK(bits_of(together[i].values) == bits_of(whole[i].values));
    }
    const RankResults copy = RankResults::from_bytes(records[0].to_bytes());
    REQUIRE(copy.parameters.size() == records[0].parameters.size());
    for (std::size_t i = 0; i < copy.parameters.size(); ++i)
      CHECK(copy.parameters[i].slice == records[0].parameters[i].slice);
  }
}

TEST_CASE("slices that leave a gap, differ or do not belong together are named") {
  const auto complaint = [](std::vector<NamedValues> first, std::vector<NamedValues> second) {
    std::vector<RankResults> ranks(2);
    ranks[1].rank = 1;
    ranks[0].parameters = std::move(first);
    ranks[1].parameters = std::move(second);
    return complaint_of<RunError>([&] { collect_parameters(ranks); });
  };
  const auto part = [](const char* name, int order, std::vector<float> values, std::int64_t first,
                       std::int64_t whole = 3) {
    const auto n = static_cast<std::int64_t>(values.size());
    return NamedValues{name, order, std::move(values), Slice{{whole}}.range(first, n)};
  };
  const NamedValues begin = part("w", 0, {1, 2}, 0), end = part("w", 0, {3}, 2);
  CHECK(complaint({begin}, {end}) == "(nothing thrown)");
  CHECK(complaint({begin, end}, {part("w", 0, {2, 3}, 1)}) == "(nothing thrown)");
  CHECK(unlike(complaint({begin}, {}), {"no rank has element 2 of w"}) == "");
  CHECK(unlike(complaint({end}, {}), {"no rank has element 0 of w"}) == "");
  CHECK(unlike(complaint({begin, end}, {part("v", 1, {3}, 2)}), {"element 0 of v"}) == "");
  CHECK(unlike(complaint({begin, end}, {part("w", 0, {4}, 2)}),
               {"replicas differ", "rank 1", "w"}) == "");
  CHECK(unlike(complaint({begin, end}, {part("w", 0, {4}, 2, 4)}), {"rank 1", "w", "[4]"}) == "");
  CHECK(unlike(complaint({{"w", 0, {1}, Slice{{3}}}}, {}), {"rank 0 has 1 elements of w"}) == "");
}

TEST_CASE("equal bits are bitwise equal, and within any tolerance") {
  const Parity parity =
      compare({2.5, 1.25}, {{"w", 0, {1, -2, 3}}}, reference_of({2.5, 1.25}, {1, -2, 3}));
  CHECK(parity.bitwise);
  CHECK(parity.max_relative_loss == 0);
  CHECK(parity.max_relative_parameter == 0);
  CHECK(parity.within({0, 0}));
}

TEST_CASE("the distance is measured per tensor, relative to its norm or that of small values") {
  // ‖(0, 0, 0.5)‖ over ‖(3, 0, 4)‖.
  Parity parity = compare({1}, {{"w", 0, {3, 0, 4.5F}}}, reference_of({1}, {3, 0, 4}));
  CHECK(parity.max_relative_parameter == doctest::Approx(0.1));
  CHECK(parity.worst_parameter == "w");
  CHECK_FALSE(parity.bitwise);
  CHECK_FALSE(parity.within({0, 0}));
  CHECK_FALSE(parity.within({0.09, 0.09}));
  CHECK(parity.within({0.11, 0.11}));
  // A tensor of zeros is compared with √n · 0.02.
  parity = compare({1}, {{"w", 0, {0.01F, 0, 0, 0}}}, reference_of({1}, {0, 0, 0, 0}));
  CHECK(parity.max_relative_parameter == doctest::Approx(0.01 / (2 * 0.02)));
  // Losses are judged separately.
  parity = compare({2.02, 1}, {{"w", 0, {1}}}, reference_of({2, 1}, {1}));
  CHECK(parity.max_relative_loss == doctest::Approx(0.01));
  CHECK_FALSE(parity.bitwise);
  CHECK(parity.within({0.011, 0.011}));
  CHECK_FALSE(parity.within({0.009, 0.009}));
  // The message names the worst of several tensors.
  const Reference two{{1}, {{"a", 0, {1}}, {"b", 1, {1}}}};
  CHECK(compare({1}, {{"a", 0, {1.1F}}, {"b", 1, {1.2F}}}, two).worst_parameter == "b");
  CHECK(compare({1}, {{"a", 0, {1.3F}}, {"b", 1, {1.2F}}}, two).worst_parameter == "a");
}

TEST_CASE("zeros of opposite sign have no distance, but different bits") {
  const Parity parity = compare({0.5}, {{"w", 0, {0.0F, 1}}}, reference_of({0.5}, {-0.0F, 1}));
  CHECK_FALSE(parity.bitwise);
  CHECK(parity.max_relative_parameter == 0);
  CHECK(parity.within({1e-9, 1e-9}));
  CHECK_FALSE(parity.within({0, 0}));
}

TEST_CASE("non-finite values count as an infinite distance") {
  for (const float odd : {std::nanf(""), inf, -inf}) {
    Parity parity = compare({1}, {{"w", 0, {1, odd}}}, reference_of({1}, {1, 2}));
    CHECK(parity.max_relative_parameter == inf);
    CHECK(parity.worst_parameter == "w");
    CHECK_FALSE(parity.within({1e30, 1e30}));
    parity = compare({1}, {{"w", 0, {1, 2}}}, reference_of({1}, {1, odd}));
    CHECK_FALSE(parity.within({1e30, 1e30}));
    parity = compare({odd}, {{"w", 0, {1}}}, reference_of({1}, {1}));
    CHECK(parity.max_relative_loss == inf);
    CHECK_FALSE(parity.within({1e30, 1e30}));
    parity = compare({1}, {{"w", 0, {1}}}, reference_of({odd}, {1}));
    CHECK_FALSE(parity.within({1e30, 1e30}));
  }
  // This tensor remains the worst even if a later one differs by a finite amount.
  const Reference two{{1}, {{"a", 0, {1}}, {"b", 1, {1}}}};
  CHECK(compare({1}, {{"a", 0, {std::nanf("")}}, {"b", 1, {9}}}, two).worst_parameter == "a");
}

TEST_CASE("missing, unknown or wrongly sized tensors are named") {
  const Reference reference{{1}, {{"a", 0, {1}}, {"b", 1, {1, 2}}}};
  const auto answer = [&](const std::vector<double>& losses,
                          const std::vector<NamedValues>& parameters) {
    return complaint_of<RunError>([&] { compare(losses, parameters, reference); });
  };
  CHECK(unlike(answer({1}, {{"a", 0, {1}}}), {"parity", "1 tensors", "2"}) == "");
  CHECK(unlike(answer({1, 2}, {{"a", 0, {1}}, {"b", 1, {1, 2}}}), {"2 losses"}) == "");
  CHECK(unlike(answer({1}, {{"a", 0, {1}}, {"b", 1, {1}}}), {"b (1 elements)", "2 elements"}) ==
        "");
  CHECK(unlike(answer({1}, {{"a", 0, {1}}, {"c", 2, {1, 2}}}), {"c ", "b "}) == "");
}
