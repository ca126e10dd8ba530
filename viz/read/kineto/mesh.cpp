#include "viz/read/kineto/mesh.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string_view>

namespace lockstep::kineto {

std::vector<std::pair<std::string, int>> mesh_of(const std::vector<Trace>& traces) {
  constexpr std::string_view prefix = "mesh_";
  struct Axis {
    int stride = 0;  ///< between the ranks of a group
    int size = 0;
  };
  std::map<std::string, Axis> axes;
  for (const Trace& trace : traces)
    for (const ProcessGroup& group : trace.groups)
      if (group.description.starts_with(prefix) && group.ranks.size() >= 2)
        axes[group.description.substr(prefix.size())] = {group.ranks[1] - group.ranks[0],
                                                         static_cast<int>(group.ranks.size())};
  std::vector<std::pair<std::string, Axis>> sorted{axes.begin(), axes.end()};
  std::ranges::stable_sort(sorted, std::greater{},
                           [](const auto& axis) { return axis.second.stride; });
  std::int64_t product = 1;
  std::vector<std::pair<std::string, int>> mesh;
  for (const auto& [name, axis] : sorted) {
    if (product > std::numeric_limits<int>::max()) return {};
    product *= axis.size;
    mesh.emplace_back(name, axis.size);
  }
  return product == traces.front().world_size ? mesh : decltype(mesh){};
}

}  // namespace lockstep::kineto
