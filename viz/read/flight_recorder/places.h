#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "viz/read/flight_recorder/groups.h"

namespace lockstep::flight {

/// The position of a rank on the mesh: an index along each axis.
using Place = std::vector<std::pair<std::string, int>>;

/// Returns the axis that a group's description names: "tp" for "mesh_tp", as torch calls the groups
/// of a device mesh.
std::string axis_of(const std::string& description);

/// Returns the places of the ranks. An axis is a description, such as "mesh_tp" or "tp", that
/// several groups of equal size share, if they contain each rank exactly once. The index of a rank
/// is its rank in its group.
std::map<int, Place> places_of(const ProcessGroups& groups);

/// Returns "pp1 tp0"; "" if the place is unknown.
std::string place_words(const Place& place);

}  // namespace lockstep::flight
