#include "core/plan/plan.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <map>
#include <set>

#include "core/model/checkpoint/checkpoint.h"
#include "core/model/checkpoint/safetensors.h"
#include "core/model/data.h"
#include "core/model/gpt.h"
#include "core/model/philox.h"
#include "core/plan/flat_layout.h"
#include "core/run/results/rank_results.h"
#include "lessons/05_zero_3/prediction.h"
#include "tests/model/fixture.h"
#include "tests/support/complaints.h"
#include "tests/support/random_plans.h"
#include "tests/support/stored_parts.h"
#include "tests/support/whole_checkpoint.h"

using namespace lockstep;
using namespace lockstep::test;
using namespace lockstep::testing;
using Folder = lockstep::test::TemporaryFolder;

namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

TEST_CASE(
    "over 1,000 plans the ranks' slices make up every tensor, with the declared replicas only") {
  std::mt19937 random{2026};
  int split = 0, padded = 0, experts = 0, several_stages = 0;
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    const Plan plan = random_plan(random);
    CHECK(plan == Plan{plan});
    const int ranks = plan.mesh.ranks();
    // For each parameter and element, the ranks that hold the element.
    std::vector<std::vector<std::set<int>>> holders;
    for (const ParameterSpec& spec : plan.parameters())
      holders.emplace_back(at(static_cast<int>(spec.shape.elements())));
    std::map<std::pair<int, int>, Slice> slices;  // by parameter and rank
    for (int rank = 0; rank < ranks; ++rank) {
      const Place place = plan.place(rank);
      CHECK(place == plan.place(rank));
      several_stages += place.stages.size() > 1;
      for (const Held& held : place.held) {
        const ParameterSpec& spec = plan.parameters()[at(held.parameter)];
        CHECK(held.slice.whole() == spec.shape);
        split += !held.slice.is_whole();
        padded += held.slice.elements() < held.slice.local().elements();
        experts += spec.name.ends_with(".experts");
        slices[{held.parameter, rank}] = held.slice;
        for (const auto& [in_whole, in_local, n] : held.slice.runs())
          for (std::int64_t i = 0; i < n; ++i)
            holders[at(held.parameter)][at(static_cast<int>(in_whole + i))].insert(rank);
      }
    }
    bool covered = true, replicated = true, equal = true;
    for (const auto& [key, slice] : slices) {
      const auto& [parameter, rank] = key;
      const std::vector<int> declared = plan.replicas(parameter, rank);
      const std::set<int> expected(declared.begin(), declared.end());
      for (const int other : declared) equal = equal && slices.at({parameter, other}) == slice;
      for (const auto& [in_whole, in_local, n] : slice.runs())
        for (std::int64_t i = 0; i < n; ++i)
          replicated =
              replicated && holders[at(parameter)][at(static_cast<int>(in_whole + i))] == expected;
    }
    for (const auto& tensor : holders)
      for (const auto& ranks_of_element : tensor) covered = covered && !ranks_of_element.empty();
    CHECK(covered);
    CHECK(equal);
    CHECK(replicated);
  }
  CHECK(split > 10'000);
  CHECK(padded > 1'000);
  CHECK(experts > 1'000);
  CHECK(several_stages > 1'000);
}

TEST_CASE("ZeRO's shards make up every slice once, whatever the plan") {
  std::mt19937 random{3};
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const Plan plan = random_plan(random);
    if (!can_shard(plan)) continue;
    for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
      if (plan.mesh.coordinate(rank, Axis::dp) != 0) continue;
      const Place place = plan.place(rank);
      for (const int stage : place.stages) {
        const auto units = plan.units(place, stage);
        const FlatLayout layout{units, place.size(Axis::dp), 1 + 500 * (round % 4)};
        std::map<std::pair<int, std::int64_t>, int> owned, held;
        const auto count = [](auto& into, int order, const Slice& slice) {
          for (const auto& [in_whole, in_local, n] : slice.runs())
            for (std::int64_t i = 0; i < n; ++i) ++into[{order, in_whole + i}];
        };
        std::set<int> seen;
        for (const StoredUnit& unit : units)
          for (const StoredParameter& parameter : unit.parameters)
            if (seen.insert(parameter.order).second) count(held, parameter.order, parameter.slice);
        for (const FlatLayout::Bucket& bucket : layout.buckets())
          for (int i = 0; i < layout.shards(); ++i)
            for (const FlatLayout::Piece& piece : layout.shard(bucket, i))
              count(owned, bucket.slots[piece.slot].parameter.order,
                    FlatLayout::slice(bucket, piece));
        CHECK(owned == held);
      }
    }
  }
}

TEST_CASE("a slice starts with its cut of the whole tensor's values, on any rank of any plan") {
  std::mt19937 random{4};
  OneDevice one;
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    const Plan plan = random_plan(random);
    std::map<int, std::vector<float>> whole;
    for (const ParameterSpec& spec : plan.parameters())
      whole[spec.order] = whole_values(spec, plan.seed);
    const int rank = static_cast<int>(random() % static_cast<unsigned>(plan.mesh.ranks()));
    bool same = true;
    for (const bool sharded : {false, true})
      for (const StoredParameter& stored : stored_by(plan, rank, sharded)) {
        const auto spec = std::ranges::find(plan.parameters(), stored.order, &ParameterSpec::order);
        ParameterSpec wide = *spec;
        wide.dtype = DType::f32;
        const Parameter made{wide, stored.slice, one.device(), plan.seed};
        same = same && same_bits(floats(made.value), cut_of(whole[stored.order], stored.slice));
      }
    CHECK(same);
  }
}

TEST_CASE("a checkpoint that one plan saves loads in another: every element has its value") {
  std::mt19937 random{5};
  const Folder folder;
  OneDevice one;
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    Plan saver = random_plan(random);
    GptConfig in_f32 = saver.model();
    in_f32.dtype = DType::f32;
    set_model(saver, in_f32);
    // The same model on another mesh that is valid for it.
    Plan loader = random_plan(random);
    while (loader.stages() > saver.model().layers ||
           saver.model().heads % loader.mesh.size(Axis::tp) != 0)
      loader = random_plan(random);
    set_model(loader, saver.model());
    set_builder(loader, saver.builder());
    loader.split = random_split(random, saver.model().layers, loader.stages());

    // The values that the ranks of the first plan hold are all different.
    std::map<int, std::vector<float>> whole;
    for (const ParameterSpec& spec : saver.parameters())
      whole[spec.order] = whole_values(spec, 1000 + static_cast<std::uint64_t>(round));
    std::vector<RankResults> records;
    for (int rank = 0; rank < saver.mesh.ranks(); ++rank) {
      RankResults& record = records.emplace_back(RankResults{.rank = rank});
      for (const StoredParameter& stored : stored_by(saver, rank, round % 2 == 0)) {
        const auto spec =
            std::ranges::find(saver.parameters(), stored.order, &ParameterSpec::order);
        record.parameters.push_back(
            {spec->name, stored.order, cut_of(whole[stored.order], stored.slice), stored.slice});
      }
      record = RankResults::from_bytes(record.to_bytes());
    }
    const std::vector<NamedValues> together = collect_parameters(records);
    REQUIRE(together.size() == saver.parameters().size());
    std::deque<Parameter> values;
    std::vector<Parameter*> pointers;
    for (const NamedValues& tensor : together) {
      const auto spec = std::ranges::find(saver.parameters(), tensor.order, &ParameterSpec::order);
      CHECK(same_bits(tensor.values, whole[tensor.order]));
      Parameter& parameter = values.emplace_back(*spec, Slice{}, one.device(), 0);
      std::ranges::copy(tensor.values, parameter.value.f32());
      pointers.push_back(&parameter);
    }
    const std::string path = folder / fmt::format("model{}.safetensors", round % 2);
    save_whole(path, saver, one.device(), pointers);

    bool same = true;
    for (int rank = 0; rank < loader.mesh.ranks(); ++rank) {
      std::deque<Parameter> parts;
      std::vector<Parameter*> to_load;
      for (const StoredParameter& stored : stored_by(loader, rank, round % 3 == 0)) {
        const auto spec =
            std::ranges::find(loader.parameters(), stored.order, &ParameterSpec::order);
        to_load.push_back(&parts.emplace_back(*spec, stored.slice, one.device(), 7));
      }
      load_checkpoint(path, loader, one.device(), to_load);
      for (const Parameter& part : parts)
        same = same && same_bits(floats(part.value), cut_of(whole[part.order], part.slice));
    }
    CHECK(same);
  }
}

TEST_CASE(
    "ranks of a context-parallel group read each position once, and replicas each sequence once") {
  std::mt19937 random{6};
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>(random() % 17);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    Plan plan = random_plan(random);
    const Corpus corpus{text, plan.model()};
    const int m = plan.batch.microbatches, dp = plan.mesh.size(Axis::dp);
    if (round % 2 == 1) {  // replicas with different numbers of microbatches
      plan.batch.shares.assign(static_cast<std::size_t>(dp), 1);
      for (int i = dp; i < dp * m; ++i)
        ++plan.batch.shares[random() % static_cast<std::size_t>(dp)];
      plan.validate();
    }
    // `expected` counts the tokens, with their targets, that a single device would read; `read`
    // counts those that the ranks with one pipeline stage and one tp coordinate read.
    const Batch all = corpus.batch(plan.seed, 3, {.microbatches = 1, .size = plan.batch.sequences});
    std::map<std::pair<std::int32_t, std::int32_t>, int> expected, read;
    for (std::size_t i = 0; i < all.tokens.size(); ++i) ++expected[{all.tokens[i], all.targets[i]}];
    std::size_t tokens = 0;
    double share = 0;
    for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
      const Place place = plan.place(rank);
      if (place.coordinate(Axis::pp) != 0 || place.coordinate(Axis::tp) != 0) continue;
      const BatchShape samples = plan.samples(place);
      CHECK(samples.microbatches ==
            (plan.batch.shares.empty()
                 ? m
                 : plan.batch.shares[static_cast<std::size_t>(place.coordinate(Axis::dp))]));
      const Batch mine = corpus.batch(plan.seed, 3, samples);
      CHECK(mine.microbatches.front().tokens.shape ==
            Shape{plan.boundary(m).shape[0], plan.boundary(m).shape[1]});
      for (std::size_t i = 0; i < mine.tokens.size(); ++i)
        ++read[{mine.tokens[i], mine.targets[i]}];
      tokens += mine.tokens.size();
      for (const Microbatch& each : mine.microbatches)
        share += static_cast<double>(each.token_weight) *
                 static_cast<double>(each.tokens.shape.elements());
    }
    CHECK(tokens == all.tokens.size());
    CHECK(read == expected);
    CHECK(share == doctest::Approx(1));
  }
  CHECK(context_positions(ContextLayout::zigzag, 16, 1, 2) ==
        std::vector<Positions>{{4, 8}, {8, 12}});
  CHECK(context_positions(ContextLayout::contiguous, 16, 1, 2) == std::vector<Positions>{{8, 16}});
}

TEST_CASE("a stage as built matches its plan") {
  std::mt19937 random{8};
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    GptConfig config{.layers = 4, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 20};
    config.tied = round % 2 == 0;
    if (round % 3 == 0) config.frozen = {2};
    const int pp = 1 + round % 4;
    Plan plan{config, Mesh{pp, {1, 1, 1, pp}}};
    if (round % 5 == 0 && pp == 2) plan.rank_of_stage = {0, 1, 1, 0};
    for (int rank = 0; rank < pp; ++rank) {
      const Place place = plan.place(rank);
      OneDevice one;
      for (const int stage : place.stages) {
        const Gpt model{plan, place, stage, one.device()};
        CHECK(model.stored_units() == plan.units(place, stage));
        const Gpt same{config, one.device(), plan.layers_of(stage), plan.seed};
        CHECK(values(model) == values(same));
      }
    }
  }
}

TEST_CASE("an impossible plan gives one line") {
  const auto complaint = [](const Plan& plan) {
    return complaint_of<UsageError>([&] { plan.validate(); });
  };
  const GptConfig seven{.layers = 4, .hidden = 14, .heads = 7, .sequence = 6};
  CHECK(unlike(complaint({seven, Mesh{2, {2, 1, 1, 1}}}), {"--heads 7", "--tp 2", "--heads 8"}) ==
        "");
  CHECK(unlike(complaint({seven, Mesh{8, {1, 1, 1, 8}}}), {"--layers 4", "8 pipeline stages"}) ==
        "");
  CHECK(unlike(complaint({seven, Mesh{4, {1, 4, 1, 1}}}),
               {"--sequence 6", "--cp 4", "--sequence 8"}) == "");
  CHECK(unlike(complaint({seven, Mesh{3, {1, 1, 3, 1}}}), {"--batch 16"}) == "");
  CHECK(unlike(complaint_of<UsageError>([] {
                 Mesh{4, {2, 1, 2, 1}}.with_experts(3);
               }),
               {"--ep 3", "2 ranks of dp and cp", "use --ep 2"}) == "");
}
