#include <doctest/doctest.h>

#include "core/time/cluster.h"

using namespace lockstep;

TEST_CASE("a message costs latency plus bytes over bandwidth, by the link it crosses") {
  Cluster cluster{.nodes = 2, .ranks_per_node = 2, .within = {1e-6, 1e9}, .between = {5e-6, 1e8}};
  CHECK(cluster.latency(0, 1) == 1'000'000);
  CHECK(cluster.latency(1, 2) == 5'000'000);
  CHECK(cluster.transfer(0, 1, 1000) == 1'000'000);
  CHECK(cluster.transfer(3, 0, 1000) == 10'000'000);
}
