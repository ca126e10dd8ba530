#include "core/plan/divisions.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plan/plan.h"
#include "tests/support/complaints.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

std::string refusal_of(const std::function<void()>& work) {
  return complaint_of<UsageError>(work);
}

}  // namespace

TEST_CASE("divisions: a remainder is refused with the flags and with values that would do") {
  const auto refusal = [](std::int64_t whole, std::int64_t by) {
    return refusal_of([&] {
      check_division(
          {.flags = "--pages 7 with --readers 2",
           .whole = whole,
           .items = "pages",
           .by = by,
           .into = "2 equal parts"},
          [] {
            return std::vector<std::string>{"--pages 6", "--pages 8", "ink"};
          },
          ", or none");
    });
  };
  CHECK(refusal(7, 2) ==
        "--pages 7 with --readers 2: 7 pages do not divide into 2 equal parts; use --pages 6, "
        "--pages 8 or ink, or none");
  CHECK(refusal(8, 2) == "(nothing thrown)");
  CHECK(refusal(0, 2) == "(nothing thrown)");
  CHECK(refusal(8, 0) != "(nothing thrown)");
}

TEST_CASE("divisions: the nearest multiples and divisors") {
  CHECK(nearest_multiples("-n", 4, 10) == std::vector<std::string>{"-n 8", "-n 12"});
  CHECK(nearest_multiples("-n", 4, 3) == std::vector<std::string>{"-n 4"});
  CHECK(nearest_divisors("-n", 12, 5) == std::vector<std::string>{"-n 4", "-n 6"});
  CHECK(nearest_divisors("-n", 12, 20) == std::vector<std::string>{"-n 12"});
  CHECK(nearest_divisors("-n", 12, 0) == std::vector<std::string>{"-n 1"});
  CHECK(nearest_divisors("-n", 7, 5, 2) == std::vector<std::string>{"-n 7"});
  CHECK(nearest_divisors("-n", 1, 3, 2).empty());
  for (int whole = 1; whole <= 60; ++whole)
    for (int value = 1; value <= 70; ++value) {
      int fewer = 0, more = 0;  // by trying all
      for (int each = 1; each <= whole; ++each)
        if (whole % each == 0) {
          if (each <= value) fewer = each;
          if (each > value && more == 0) more = each;
        }
      std::vector<std::string> expected;
      for (const int each : {fewer, more})
        if (each > 0) expected.push_back("-n " + std::to_string(each));
      CAPTURE(value);
      CHECK(nearest_divisors("-n", whole, value) == expected);
    }
}

TEST_CASE("divisions: every suggestion for a refused number of heads works") {
  std::mt19937 random{1};
  const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % unsigned(most)); };
  for (int trial = 0; trial < 2'000; ++trial) {
    const bool llama = trial % 2 == 1;
    const int others = up_to(3), groups = llama ? up_to(4) : 1, kv_heads = others * up_to(12),
              heads = groups * kv_heads;
    using Flags = std::map<std::string, int>;
    const Flags flags{{"heads", heads},
                      {"kv-heads", kv_heads},
                      {"hidden", (llama ? 2 : 1) * heads * up_to(9)},
                      {"cp", up_to(12)}};
    const auto refusal = [&](const Flags& given) {
      return refusal_of([&] {
        GptConfig model{.hidden = given.at("hidden"), .heads = given.at("heads")};
        if (llama) model.llama = LlamaConfig{.kv_heads = given.at("kv-heads"), .mlp_width = 8};
        model.validate();
        check_heads(model, "these heads", Axis::cp, given.at("cp"), others);
      });
    };
    const std::string text = refusal(flags);
    CHECK((text == "(nothing thrown)") == (kv_heads % (flags.at("cp") * others) == 0));
    const std::size_t use = text.find("; use ");
    if (use == std::string::npos) continue;
    CAPTURE(text);
    // "--cp 2, --cp 3 or --heads 6 with --hidden 66"
    std::string ways = text.substr(use + 6);
    ways = std::regex_replace(ways, std::regex{", | or "}, "\n");
    std::istringstream lines{ways};
    for (std::string way; std::getline(lines, way);) {
      Flags changed = flags;
      const std::regex flag{"--([a-z-]+) (\\d+)"};
      for (std::sregex_iterator each{way.begin(), way.end(), flag}; each != std::sregex_iterator{};
           ++each)
        changed[(*each)[1]] = std::stoi((*each)[2]);
      CHECK(changed != flags);
      CHECK(refusal(changed) == "(nothing thrown)");
    }
  }
}

TEST_CASE("divisions: the ranks of tensor parallelism divide a Llama's heads and its MLP") {
  const auto refusal = [](int tp, int heads, int kv_heads, int mlp_width) {
    const GptConfig model{.hidden = 8 * heads,
                          .heads = heads,
                          .llama = LlamaConfig{.kv_heads = kv_heads, .mlp_width = mlp_width}};
    const Plan plan{model, Mesh::along(Axis::tp, tp)};
    return refusal_of([&] { plan.validate(); });
  };
  CHECK(refusal(3, 6, 3, 30) == "(nothing thrown)");
  CHECK(refusal(3, 6, 2, 30) ==
        "--tp 3 with --heads 6 and --kv-heads 2: 2 heads of keys and values do not divide into 3 "
        "equal groups; use --tp 2 or --kv-heads 3");
  CHECK(refusal(3, 4, 2, 30) ==
        "--tp 3 with --heads 4: 4 heads do not divide into 3 equal groups; use --tp 2 or --heads 6 "
        "with --kv-heads 3 and --hidden 36");
  CHECK(refusal(4, 8, 1, 32) ==
        "--tp 4 with --heads 8 and --kv-heads 1: 1 heads of keys and values do not divide into 4 "
        "equal groups; use --kv-heads 4");
  CHECK(refusal(4, 8, 4, 30) ==
        "--tp 4 with --mlp-width 30: 30 columns of the MLP do not divide into 4 equal parts; use "
        "--mlp-width 28 or --mlp-width 32");
}

TEST_CASE("divisions: a batch divides for every number of microbatches, or a batch is suggested") {
  const auto refusal = [](int sequences, int dp, const std::vector<int>& microbatches) {
    Plan plan{{}, Mesh::along(Axis::dp, dp)};
    plan.batch.sequences = sequences;
    return refusal_of([&] { check_batch(plan, microbatches); });
  };
  CHECK(refusal(26, 2, {1, 13}) == "(nothing thrown)");
  CHECK(refusal(26, 2, {1, 2, 3}) ==
        "--batch 26 with --microbatches 2 and --dp 2: 26 sequences do not divide into 4 equal "
        "microbatches; use --batch 24 or --batch 36");
  CHECK(refusal(3, 1, {2}) ==
        "--batch 3 with --microbatches 2: 3 sequences do not divide into 2 equal microbatches; use "
        "--batch 2 or --batch 4");
  const auto refusal_with = [](const std::vector<int>& shares) {
    Plan plan{{}, Mesh::along(Axis::dp, 3)};
    plan.batch.sequences = 24;
    plan.batch.shares = shares;
    return refusal_of([&] { check_batch(plan, {4}); });
  };
  CHECK(refusal_with({6, 5, 1}) == "(nothing thrown)");
  CHECK(refusal_with({6, 6}) ==
        "--shares 6,6 with --dp 3: give one number of microbatches per replica");
  CHECK(refusal_with({7, 5, 0}) == "--shares 7,5,0: every replica needs at least one microbatch");
  CHECK(refusal_with({6, 5, 2}) ==
        "--shares 6,5,2: these are 13 microbatches; 3 replicas with --microbatches 4 have 12 "
        "together");
  // The least common multiple of these does not fit into 64 bits.
  CHECK(refusal(16, 2, {268435399, 268435367, 268435361})
            .ends_with("use --batch 2 with --microbatches 1"));
  std::mt19937 random{2};
  const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % unsigned(most)); };
  for (int trial = 0; trial < 1'000; ++trial) {
    const int sequences = up_to(60), dp = up_to(4);
    const std::vector<int> microbatches{up_to(6), up_to(6)};
    const std::string text = refusal(sequences, dp, microbatches);
    const bool divides =
        sequences % (microbatches[0] * dp) == 0 && sequences % (microbatches[1] * dp) == 0;
    CHECK((text == "(nothing thrown)") == divides);
    const std::regex way{"(?:use|or) --batch (\\d+)"};
    for (std::sregex_iterator each{text.begin(), text.end(), way}; each != std::sregex_iterator{};
         ++each)
      CHECK(refusal(std::stoi((*each)[1]), dp, microbatches) == "(nothing thrown)");
  }
}
