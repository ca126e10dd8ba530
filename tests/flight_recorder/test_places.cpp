// Places on the mesh, derived from the descriptions of process groups.
#include <doctest/doctest.h>

#include "viz/read/flight_recorder/places.h"

using namespace lockstep::flight;

namespace {

/// Returns the words for the place of rank 1 of 4, given the members of groups of one description.
std::string place_of_1(const std::vector<std::vector<int>>& groups) {
  ProcessGroups found;
  found.ranks = {0, 1, 2, 3};
  for (const std::vector<int>& members : groups)
    found.all.push_back({.description = "mesh_tp", .members = members, .order = members});
  return place_words(places_of(found)[1]);
}

}  // namespace

TEST_CASE("a description is an axis if its groups divide the ranks into equal parts") {
  CHECK(place_of_1({{0, 1}, {2, 3}}) == "tp1");
  CHECK(place_of_1({{1, 3}, {0, 2}}) == "tp0");
  CHECK(place_of_1({{0, 1}, {2}}).empty());
  CHECK(place_of_1({{0, 1}, {1, 2}}).empty());
  CHECK(place_of_1({{0, 1, 2, 3}}).empty());
  CHECK(place_of_1({{0}, {1}, {2}, {3}}).empty());
}
