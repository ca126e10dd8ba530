#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>

#include "core/model/flat_buffer.h"
#include "tests/model/fixture.h"
#include "tests/support/complaints.h"

using namespace lockstep;
using namespace lockstep::test;
using lockstep::testing::complaint_of;
using lockstep::testing::unlike;

namespace {

/// Units with parameters of random sizes, some frozen. The last unit may also use a table of the
/// first unit.
struct AnyUnits {
  explicit AnyUnits(std::mt19937& random) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const DType dtype = below(3) == 0 ? DType::bf16 : DType::f32;
    const int first = below(3), count = 1 + below(8);  // a stage's units need not begin at 0
    for (int u = 0; u < count; ++u) {
      StoredUnit unit{.index = first + u};
      const bool frozen = below(4) == 0;
      for (int p = 1 + below(5); p > 0; --p) {
        parameters.push_back(
            {.order = static_cast<int>(parameters.size()),
             .slice = Slice{below(2) == 0 ? Shape{1 + below(400)} : Shape{1 + below(20), 64}},
             .dtype = dtype,
             .frozen = frozen});
        unit.parameters.push_back(parameters.back());
      }
      units.push_back(unit);
    }
    if (count > 1 && below(2) == 0)
      units.back().parameters.push_back(units.front().parameters.front());
  }

  std::vector<StoredParameter> parameters;
  std::vector<StoredUnit> units;
};

std::int64_t bytes_without_last_unit(const FlatLayout::Bucket& bucket, const StoredUnit& last) {
  std::int64_t elements = 0;
  for (const FlatLayout::Slot& slot : bucket.slots)
    if (std::ranges::count(last.parameters, slot.parameter) == 0)
      elements += (slot.elements() + 63) / 64 * 64;
  return elements * static_cast<std::int64_t>(size_of(bucket.dtype));
}

/// Checks one bucket's slots and the ranks' shards of them.
void check_bucket(const FlatLayout& layout, const FlatLayout::Bucket& bucket) {
  const int n = layout.shards();
  std::int64_t end = 0, used = 0;
  std::map<int, std::vector<int>> owners;  // by element: the ranks that own it
  std::map<int, std::int64_t> offsets;
  for (const FlatLayout::Slot& slot : bucket.slots) {
    CHECK(slot.offset % 64 == 0);
    CHECK(slot.offset >= end);
    CHECK(slot.offset < end + 64);
    CHECK(slot.parameter.frozen == bucket.frozen);
    CHECK(slot.parameter.dtype == bucket.dtype);
    const std::int64_t elements = slot.elements();
    end = slot.offset + elements;
    used += elements;
    owners[slot.parameter.order].resize(static_cast<std::size_t>(elements));
    offsets[slot.parameter.order] = slot.offset;
  }
  CHECK(bucket.used == used);
  CHECK(bucket.elements % n == 0);
  CHECK(bucket.elements >= end);
  CHECK(bucket.elements < (end + 63) / 64 * 64 + n);
  for (int i = 0; i < n; ++i) {
    const std::int64_t size = bucket.elements / n;
    std::int64_t last = 0;
    for (const FlatLayout::Piece& piece : layout.shard(bucket, i)) {
      CHECK(piece.in_shard >= last);
      CHECK(piece.elements > 0);
      last = piece.in_shard + piece.elements;
      const FlatLayout::Slot& slot = bucket.slots.at(piece.slot);
      CHECK(slot.offset + piece.in_parameter == size * i + piece.in_shard);
      CHECK(FlatLayout::slice(bucket, piece) ==
            slot.parameter.slice.range(piece.in_parameter, piece.elements));
      for (std::int64_t k = 0; k < piece.elements; ++k)
        ++owners.at(slot.parameter.order).at(static_cast<std::size_t>(piece.in_parameter + k));
    }
    CHECK(last <= size);
  }
  for (const auto& [order, counts] : owners)
    CHECK(std::ranges::count(counts, 1) == static_cast<std::ptrdiff_t>(counts.size()));
}

}  // namespace

TEST_CASE("a flat layout has every element of every parameter in one place, owned by one rank") {
  std::mt19937 random{11};
  for (int round = 0; round < 200; ++round) {
    const AnyUnits any{random};
    const int shards = 1 + static_cast<int>(random() % 9);
    const std::int64_t bucket_bytes = round % 3 == 0 ? 1
                                      : round % 3 == 1
                                          ? 256 * (1 + random() % 16)  // often exactly full
                                          : 1 + random() % 9000;
    std::int64_t parameters = 0;
    for (const StoredParameter& each : any.parameters) parameters += each.slice.elements();
    if (parameters < shards) continue;
    CAPTURE(round);
    const FlatLayout layout{any.units, shards, bucket_bytes};
    CHECK(layout.shards() == shards);

    std::vector<int> units;
    std::set<int> placed;
    std::int64_t trained = 0, elements = 0, trained_elements = 0;
    for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
      const FlatLayout::Bucket& bucket = layout.buckets()[b];
      check_bucket(layout, bucket);
      elements += bucket.elements;
      if (!bucket.frozen) {
        trained += bucket.used;
        trained_elements += bucket.elements;
      }
      for (const int unit : bucket.units) {
        units.push_back(unit);
        CHECK(layout.buckets_of(unit) == std::vector{b});
      }
      CHECK(bucket.first_unit() == bucket.units.front());
      CHECK(bucket.last_unit() == bucket.units.back());
      for (const FlatLayout::Slot& slot : bucket.slots) {
        CHECK(placed.insert(slot.parameter.order).second);
        CHECK(layout.bucket_holding(slot.parameter.order) == b);
        const auto user = std::ranges::find_if(any.units, [&](const StoredUnit& unit) {
          return std::ranges::count(unit.parameters, slot.parameter) > 0;
        });
        CHECK(layout.buckets_of(user->index).front() == b);  // a tied table's first use
      }
      // A bucket closes at the first unit that makes it large enough.
      const StoredUnit& last =
          any.units[static_cast<std::size_t>(bucket.last_unit() - any.units.front().index)];
      CHECK((bucket.units.size() == 1 || bytes_without_last_unit(bucket, last) < bucket_bytes));
      if (b + 1 < layout.buckets().size() && layout.buckets()[b + 1].frozen == bucket.frozen)
        CHECK(bytes_without_last_unit(bucket, {}) >= bucket_bytes);
    }
    // The units are in backward's order: descending, each unit once.
    CHECK(units.size() == any.units.size());
    for (std::size_t u = 0; u < units.size(); ++u)
      CHECK(units[u] == any.units[any.units.size() - 1 - u].index);
    CHECK(placed.size() == any.parameters.size());

    CHECK(layout.elements() == elements);
    CHECK(layout.elements(false) == trained_elements);
    std::int64_t owned = 0, owned_with_frozen = 0;
    for (int i = 0; i < shards; ++i) {
      owned += layout.owned(i);
      owned_with_frozen += layout.owned(i, true);
    }
    CHECK(owned == trained);
    CHECK(owned_with_frozen == parameters);
  }
}

TEST_CASE("a unit's frozen and trained parameters, or different dtypes, get separate buckets") {
  // The last stage of a tied pipeline: its head has its own LayerNorm and the table of unit 0.
  for (const int frozen : {0, 4}) {
    GptConfig config{.layers = 3, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 20};
    config.tied = true;
    config.frozen = {frozen};
    const Plan plan{config, Mesh{3, {1, 1, 1, 3}}};
    const Place place = plan.place(2);
    for (const std::int64_t bytes : {1, 1'000'000}) {
      const FlatLayout layout{plan.units(place, 2), 2, bytes};
      CHECK(layout.buckets_of(4).size() == 2);
      for (const FlatLayout::Bucket& bucket : layout.buckets()) check_bucket(layout, bucket);
      const auto bucket_of = [&](int order) {
        return layout.buckets()[layout.bucket_holding(order)];
      };
      CHECK(bucket_of(token_table_order).frozen == (frozen == 0));
      CHECK(bucket_of(final_gain_spec(config).order).frozen == (frozen == 4));
      CHECK(layout.used() == 12 * 8 * 8 + 13 * 8 + 2 * 8 + 20 * 8);
    }
  }
  const std::vector<StoredUnit> router{
      {.index = 1,
       .parameters = {{.order = 1, .slice = Slice{{4}}, .dtype = DType::bf16},
                      {.order = 2, .slice = Slice{{4}}, .dtype = DType::f32},
                      {.order = 3, .slice = Slice{{4}}, .dtype = DType::bf16}}}};
  const FlatLayout layout{router, 2, 1};
  CHECK(layout.buckets().size() == 2);
  CHECK(layout.bucket_holding(1) == layout.bucket_holding(3));
  CHECK(layout.bucket_holding(1) != layout.bucket_holding(2));
  CHECK_THROWS_AS(layout.bucket_holding(4), std::out_of_range);
  CHECK_THROWS_AS(layout.buckets_of(2), std::out_of_range);
}

TEST_CASE("a tied table on two stages has the same shards on both, beside nothing else") {
  for (const int shards : {2, 3, 4})
    for (const std::int64_t bytes : {1, 3'000, 1'000'000}) {
      GptConfig config{.layers = 3, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 21};
      config.tied = true;
      const Plan plan{config, Mesh{2, {1, 1, 1, 2}}};
      const FlatLayout first{plan.units(plan.place(0), 0), shards, bytes};
      const FlatLayout last{plan.units(plan.place(1), 1), shards, bytes};
      const auto table_of = [](const FlatLayout& layout) {
        return layout.buckets()[layout.bucket_holding(token_table_order)];
      };
      const FlatLayout::Bucket ours = table_of(first), theirs = table_of(last);
      CHECK(ours.slots.size() == 1);
      CHECK(ours.elements == theirs.elements);
      for (int i = 0; i < shards; ++i) {
        const auto mine = first.shard(ours, i), other = last.shard(theirs, i);
        REQUIRE(mine.size() == other.size());
        for (std::size_t p = 0; p < mine.size(); ++p)
          CHECK(FlatLayout::slice(ours, mine[p]) == FlatLayout::slice(theirs, other[p]));
      }
      // The unit's other parameters are in a bucket that they share with no other unit.
      CHECK(first.buckets_of(0).size() == 2);
      CHECK(last.buckets_of(config.layers + 1).size() == 2);
      for (const FlatLayout* layout : {&first, &last})
        for (const FlatLayout::Bucket& bucket : layout->buckets())
          CHECK((bucket.units.size() == 1 || bucket.last_unit() > 0));
      CHECK(first.units() == std::vector{2, 1, 0});
    }
}

TEST_CASE("an impossible layout gives one line") {
  std::mt19937 random{12};
  const AnyUnits any{random};
  for (const int bytes : {0, -1})
    CHECK(unlike(complaint_of<UsageError>([&] { FlatLayout(any.units, 2, bytes); }),
                 {fmt::format("--bucket {}", bytes), "at least 1 byte"}) == "");
  const std::vector<StoredUnit> unit{{.index = 0, .parameters = {{.slice = Slice{{3}}}}}};
  CHECK(FlatLayout(unit, 3, 1).owned(2) == 0);  // 64 elements: the third rank has only padding
  CHECK(unlike(complaint_of<UsageError>([&] { FlatLayout(unit, 4, 1); }),
               {"--ranks 4", "3 parameters"}) == "");
}

TEST_CASE("parameters built in a flat buffer, and their parts, equal those of a whole model") {
  const GptConfig config{.layers = 2, .hidden = 12, .heads = 2, .sequence = 7, .vocabulary = 30};
  OneDevice one;
  Gpt whole_model{config, one.device(), StageLayers::whole(config), 3};
  const std::int64_t bytes = one.memory.current().of(MemoryCategory::parameters);
  CHECK(bytes == 4 * config.parameter_count());
  Gpt model{config, one.device(), StageLayers::whole(config), 3, {}, Storage::none};
  Gpt bare{config, one.device(), StageLayers::whole(config), 3, {}, Storage::none};
  std::vector<Tensor> kept;
  for (const int shards : {1, 3, 4}) {
    const FlatLayout layout{model.stored_units(), shards, 4'000};
    const FlatLayout bare_layout{bare.stored_units(), shards, 4'000};
    std::vector<Tensor> flat;
    for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
      const FlatLayout::Bucket& bucket = layout.buckets()[b];
      Tensor& all = flat.emplace_back(
          zeros(one.device(), bucket.elements, MemoryCategory::activations, bucket.dtype));
      make_values(model, bucket, all, 3);
      for (const FlatLayout::Slot& slot : bucket.slots) {
        const Parameter& parameter = model.parameter(slot.parameter.order);
        CHECK(parameter.value.f32() == all.f32() + slot.offset);
        CHECK_FALSE(parameter.value_storage);
      }
      for (int i = 0; i < shards; ++i) {
        const std::int64_t size = bucket.elements / shards;
        const View mine = all.view().columns(i * size, size);
        Tensor made{one.memory, {size}, MemoryCategory::activations};
        const auto parts = parts_of_shard(model, layout, bucket, i, mine, {});
        const auto fresh = parts_of_shard(bare, bare_layout, bare_layout.buckets()[b], i, made, {});
        REQUIRE(parts.size() == fresh.size());
        for (std::size_t p = 0; p < parts.size(); ++p) {
          const Parameter& whole = model.parameter(parts[p].order);
          CHECK(parts[p].name == whole.name);
          CHECK(parts[p].decay == whole.decay);
          CHECK(parts[p].value.f32() == whole.value.f32() + parts[p].slice.runs().front().in_box);
          CHECK(parts[p].gradient.elements() == 0);
          // The initial values are generated in place and equal those of the whole tensor.
          CHECK(fresh[p].slice == parts[p].slice);
          fresh[p].fill_initial(model.device(), 3);
          CHECK(same_bits(floats(fresh[p].value), floats(parts[p].value)));
        }
      }
    }
    CHECK(values(model) == values(whole_model));
    CHECK(one.memory.current().of(MemoryCategory::parameters) == bytes);
    for (Tensor& each : flat) kept.push_back(std::move(each));
    if (shards < 4) continue;
    for (const FlatLayout::Bucket& bucket : layout.buckets()) {
      put_values(model, bucket, {});
      for (const FlatLayout::Slot& slot : bucket.slots)
        CHECK(model.parameter(slot.parameter.order).value.elements() == 0);
    }
  }
}
