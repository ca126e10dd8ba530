// The slices that a rank reports in its trace: written, read, and damaged.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "core/plan/stored_slices.h"
#include "tests/support/random_plans.h"
#include "tests/support/stored_parts.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Columns [16 part, 16 part + 16) of a matrix of 8 x 32.
Slice half_of_columns(int part) {
  const DimensionCut cut{.dimension = 1, .part = part, .parts = 2};
  return Slice{Shape{8, 32}, std::span{&cut, 1}};
}

/// A table that two of a rank's stages use is stored, and added, twice.
void add_new(std::vector<Box>& boxes, const Box& box) {
  if (std::ranges::count(boxes, box) == 0) boxes.push_back(box);
}

}  // namespace

TEST_CASE("a tensor's module is its block, or the tensor itself") {
  CHECK(module_of("transformer.h.12.ln_1.weight") == "transformer.h.12");
  CHECK(module_of("transformer.wte.weight") == "transformer.wte.weight");
  CHECK(module_of("7") == "7");
  CHECK(module_of("").empty());
}

TEST_CASE("equal slices of several blocks are one entry") {
  StoredSlices stored;
  for (const int block : {0, 1, 2, 5}) {
    const std::string name = "h." + std::to_string(block) + ".w";
    stored.add(name, half_of_columns(1), StoredKind::parameters, 2);
    stored.add(name, half_of_columns(1), StoredKind::gradients, 2);
    stored.add(name, half_of_columns(1).range(0, 32), StoredKind::optimizer, 12);
  }
  stored.add("ln_f.bias", Slice{Shape{8}}, StoredKind::parameters, 4);
  REQUIRE(stored.all().size() == 9);
  const std::string json = stored.json();
  CHECK(json == R"({"tensors":[)"
                R"({"name":"h.*.w","blocks":[[0,2],[5,5]],"shape":[8,32],"boxes":[[0,16,8,16]],)"
                R"("bytes":{"parameters":2,"gradients":2}},)"
                R"({"name":"h.*.w","blocks":[[0,2],[5,5]],"shape":[8,32],"boxes":[[0,16,2,16]],)"
                R"("bytes":{"optimizer":12}},)"
                R"({"name":"ln_f.bias","shape":[8],"boxes":[[0,8]],"bytes":{"parameters":4}}]})");
  const ReadSlices read = read_slices(json);
  CHECK(read.omitted == 0);
  REQUIRE(read.slices.size() == 3);
  const StoredSlice& matrix = read.slices[0];
  CHECK(matrix.tensors() == std::vector<std::string>{"h.0.w", "h.1.w", "h.2.w", "h.5.w"});
  CHECK(matrix.is_of("h.5.w"));
  CHECK_FALSE(matrix.is_of("h.3.w"));
  CHECK_FALSE(matrix.is_of("h.5.v"));
  CHECK_FALSE(matrix.is_of("h.w"));
  CHECK(matrix.has(StoredKind::gradients));
  CHECK_FALSE(matrix.has(StoredKind::optimizer));
  CHECK(matrix.elements() == 128);
  CHECK(matrix.bytes(StoredKind::parameters) == 256);
  CHECK(read.slices[1].bytes(StoredKind::optimizer) == 32 * 12);
  CHECK(read.slices[2] == stored.all().back());
}

TEST_CASE("a trace tells the boxes of every rank of any plan") {
  std::mt19937 random{7};
  for (int i = 0; i < 30; ++i) {
    const Plan plan = random_plan(random);
    const bool sharded = i % 2 == 0;
    for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
      std::map<std::string, std::vector<Box>> expected, found;
      StoredSlices stored;
      for (const StoredParameter& each : stored_by(plan, rank, sharded)) {
        const auto spec = std::ranges::find(plan.parameters(), each.order, &ParameterSpec::order);
        stored.add(spec->name, each.slice, StoredKind::parameters, 4);
        for (const Slice::Piece& piece : each.slice.pieces())
          add_new(expected[spec->name], piece.box);
      }
      for (const StoredSlice& slice : read_slices(stored.json()).slices)
        for (const std::string& name : slice.tensors())
          for (const Box& box : slice.boxes) add_new(found[name], box);
      CHECK(found == expected);
    }
  }
}

TEST_CASE("a long list is cut, and says so") {
  StoredSlices stored;
  for (int i = 0; i < 100; ++i)
    stored.add("t" + std::to_string(i), half_of_columns(0).range(i, 1), StoredKind::parameters, 4);
  const std::string json = stored.json(1000);
  CHECK(json.size() < 1020);
  const ReadSlices read = read_slices(json);
  CHECK(read.slices.size() > 5);
  CHECK(read.omitted == 100 - static_cast<std::int64_t>(read.slices.size()));
  // 48 blocks of a large model, whose ranks hold whole tensors, take little more room than one.
  StoredSlices large;
  for (int block = 0; block < 48; ++block)
    for (const char* name : {".ln_1.weight", ".attn.c_attn.weight", ".mlp.c_fc.weight"})
      large.add("transformer.h." + std::to_string(block) + name, Slice{Shape{1600, 6400}},
                StoredKind::parameters, 4);
  CHECK(large.json().size() < 500);
}

TEST_CASE("entries that make no sense are skipped") {
  const auto count = [](const std::string& entry) {
    return read_slices(R"({"tensors":[)" + entry + "]}").slices.size();
  };
  CHECK(count(R"({"name":"w","shape":[4,4],"boxes":[[0,0,4,4]],"bytes":{"parameters":4}})") == 1);
  for (const char* bad :
       {R"({"shape":[4,4],"boxes":[[0,0,4,4]]})", R"({"name":1,"shape":[4],"boxes":[]})",
        R"({"name":"","shape":[4],"boxes":[]})", R"({"name":"w","shape":[],"boxes":[]})",
        R"({"name":"w","shape":[1,1,1,1,1],"boxes":[]})", R"({"name":"w","shape":[-4],"boxes":[]})",
        R"({"name":"w","shape":[4.5],"boxes":[]})",
        R"({"name":"w","shape":[1000000000,1000000000],"boxes":[]})",
        R"({"name":"w","shape":[4],"boxes":[[0,5]]})",
        R"({"name":"w","shape":[4],"boxes":[[3,2]]})", R"({"name":"w","shape":[4],"boxes":[[0]]})",
        R"({"name":"w","shape":[4],"boxes":4})", R"({"name":"w","shape":[0],"boxes":[]})",
        R"({"name":"*","blocks":[[0,2000000000]],"shape":[4],"boxes":[]})",
        R"({"name":"w","shape":[1099511627776],"boxes":[[0,1099511627776],[0,1]]})",
        R"({"name":"*","blocks":[[3,2]],"shape":[4],"boxes":[]})", "7", "null"})
    CHECK_MESSAGE(count(bad) == 0, bad);
  for (const char* text : {"", "{", "[]", "7", R"({"tensors":7})", R"({"omitted":"many"})"}) {
    CHECK(read_slices(text).slices.empty());
    CHECK(read_slices(text).omitted == 0);
  }
  // The numbers of many ranks can be added.
  CHECK(read_slices(R"({"omitted":9223372036854775807})").omitted == std::int64_t{1} << 40);
}
