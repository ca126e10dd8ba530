// The slices that a rank stores, derived from its parameters and its optimizer.
#include "core/model/stored_state.h"
#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

using BytesByKind = std::array<std::int64_t, stored_kind_count>;

}  // namespace

TEST_CASE("a rank that trains the whole model stores all of it") {
  OneDevice one;
  const Plan plan;
  Gpt model{plan, plan.place(0), one.device()};
  AdamW optimizer{model.parameters(), one.device()};
  const StoredSlices stored = stored_state(model.parameters(), optimizer);
  REQUIRE(stored.all().size() == plan.parameters().size());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < stored.all().size(); ++i) {
    const StoredSlice& slice = stored.all()[i];
    CHECK(slice.tensor == plan.parameters()[i].name);
    CHECK(slice.whole == plan.parameters()[i].shape);
    CHECK(slice.elements() == slice.whole.elements());
    CHECK(slice.bytes_per_element == BytesByKind{4, 4, 8});
    bytes += slice.bytes(StoredKind::optimizer);
  }
  CHECK(bytes == one.memory.current().of(MemoryCategory::optimizer));
}

TEST_CASE("gradients and optimizer state of a part of a parameter") {
  OneDevice one;
  const ParameterSpec spec{.name = "w", .shape = {4, 8}, .order = 3};
  Parameter whole{spec, {}, one.device(), 1};
  Parameter part{spec, Slice{spec.shape}.range(8, 12), one.device(), 1};
  AdamW optimizer{{&part}, one.device()};
  const Box row{.begin = {1, 0}, .extent = {1, 8}}, half{.begin = {2, 0}, .extent = {1, 4}};

  // All gradients remain: only the optimizer's state is sharded.
  auto stored = stored_state({&whole}, optimizer).all();
  REQUIRE(stored.size() == 2);
  CHECK(stored[0].bytes_per_element == BytesByKind{4, 4, 0});
  CHECK(stored[0].elements() == 32);
  CHECK(stored[1].bytes_per_element == BytesByKind{0, 0, 8});
  CHECK(stored[1].boxes == std::vector{row, half});

  // The whole gradient has no storage.
  whole.gradient = {};
  stored = stored_state({&whole}, optimizer).all();
  REQUIRE(stored.size() == 2);
  CHECK(stored[0].bytes_per_element == BytesByKind{4, 0, 0});
  CHECK(stored[1].bytes_per_element == BytesByKind{0, 4, 8});

  // The values, too, are stored only in part.
  stored = stored_state({&part}, optimizer).all();
  REQUIRE(stored.size() == 1);
  CHECK(stored[0].bytes_per_element == BytesByKind{4, 4, 8});
  CHECK(stored[0].elements() == 12);
}

TEST_CASE("16-bit parameters have a master, frozen ones neither gradient nor state") {
  OneDevice one;
  Parameter narrow{
      {.name = "w", .shape = {8}, .order = 1, .dtype = DType::bf16}, {}, one.device(), 1};
  Parameter frozen{{.name = "v", .shape = {8}, .order = 2, .frozen = true}, {}, one.device(), 1};
  AdamW optimizer{{&narrow, &frozen}, one.device()};
  const auto stored = stored_state({&narrow, &frozen}, optimizer).all();
  REQUIRE(stored.size() == 2);
  CHECK(stored[0].bytes_per_element == BytesByKind{2, 2, 12});
  CHECK(stored[1].bytes_per_element == BytesByKind{4, 0, 0});
}
