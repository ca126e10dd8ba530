#include <doctest/doctest.h>

#include <set>

#include "core/base/error.h"
#include "core/plan/mesh.h"
#include "core/plan/ranks_of_model.h"

using namespace lockstep;

namespace {

std::array<int, axis_count> sizes(int tp, int cp, int dp, int pp) {
  return {tp, cp, dp, pp};
}

}  // namespace

TEST_CASE("Megatron's order: tensor-parallel ranks are neighbours, stages are far apart") {
  const Mesh mesh{16, sizes(2, 1, 2, 4)};
  CHECK(mesh.group(0, Axis::tp) == std::vector{0, 1});
  CHECK(mesh.group(0, Axis::dp) == std::vector{0, 2});
  CHECK(mesh.group(5, Axis::pp) == std::vector{1, 5, 9, 13});
  CHECK(mesh.coordinate(13, Axis::pp) == 3);
  CHECK(mesh.json() == R"({"pp":4,"dp":2,"tp":2})");
}

TEST_CASE("every axis divides the ranks into groups, whatever the order") {
  for (const char* order : {"tp,cp,dp,pp", "pp,dp,cp,tp", "dp,tp,pp,cp"}) {
    const Mesh mesh{24, sizes(2, 3, 2, 2), order};
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp}) {
      std::multiset<int> seen;
      for (int rank = 0; rank < 24; ++rank) {
        const auto group = mesh.group(rank, axis);
        CHECK(static_cast<int>(group.size()) == mesh.size(axis));
        CHECK(group[static_cast<std::size_t>(mesh.coordinate(rank, axis))] == rank);
        for (const int member : group) CHECK(mesh.group(member, axis) == group);
        if (group.front() == rank) seen.insert(group.begin(), group.end());
      }
      CHECK(seen.size() == 24);
      CHECK(std::set<int>(seen.begin(), seen.end()).size() == 24);
    }
  }
}

TEST_CASE("rows of dp ranks share one copy of the states, columns have the same shard") {
  GptConfig config;
  Plan plan{config, Mesh{16, sizes(2, 1, 4, 2)}};
  const auto sharers_of = [&](int rank, int shards) { return sharers(plan.place(rank), shards); };
  CHECK(sharers_of(0, 2) == std::vector{0, 2});
  CHECK(sharers_of(7, 2) == std::vector{5, 7});
  CHECK(replicas_of_shard(plan.place(7), 2) == std::vector{3, 7});
  CHECK(sharers_of(8, 4) == std::vector{8, 10, 12, 14});
  CHECK(replicas_of_shard(plan.place(8), 4) == std::vector{8});
  CHECK(replicas_of_shard(plan.place(8), 1) == std::vector{8, 10, 12, 14});
  // Plain layers are not divided among tp ranks, so a copy of a model is spread over the stages and
  // over the sharers on each stage.
  CHECK(ranks_of_model(plan, 0) == std::vector{0, 8});
  CHECK(ranks_of_model(plan, 0, 2) == std::vector{0, 2, 8, 10});
  for (int rank = 0; rank < 16; ++rank)
    for (const int shards : {1, 2, 4}) {
      for (const int member : sharers_of(rank, shards))
        CHECK(sharers_of(member, shards) == sharers_of(rank, shards));
      for (const int member : ranks_of_model(plan, rank, shards))
        CHECK(ranks_of_model(plan, member, shards) == ranks_of_model(plan, rank, shards));
    }
}

TEST_CASE("an omitted axis gets the remaining ranks; an impossible mesh is an error") {
  CHECK(Mesh(8, sizes(2, 1, 0, 2)).size(Axis::dp) == 2);
  CHECK_THROWS_WITH_AS(Mesh(8, sizes(3, 1, 1, 0)), doctest::Contains("--ranks 8 with --tp 3"),
                       UsageError);
  CHECK_THROWS_WITH_AS(Mesh(8, sizes(2, 1, 1, 2)), doctest::Contains("multiply to 8"), UsageError);
  CHECK_THROWS_AS(Mesh(1, sizes(1, 1, 1, 1), "tp,tp,dp,pp"), UsageError);
  CHECK_THROWS_AS(Mesh(1, sizes(1, 1, 1, 1), "tp,dp,pp"), UsageError);
}
