#include "exercises/05_mesh/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "A rank is a number whose digits are its coordinates. The order of the axes decides which "
    "ranks are neighbours, and so which technique gets the fast links within a node.";

namespace {

std::string text(const std::vector<int>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

std::string text(const MeshAxes& mesh) {
  std::string all = "a mesh of ";
  for (const MeshAxis& axis : mesh)
    all += fmt::format("{}{} {}", &axis == &mesh.front() ? "" : ", ", axis.name, axis.size);
  return all;
}

/// Returns the coordinates of all ranks, by counting: the coordinate on the first axis changes
/// fastest.
std::vector<std::vector<int>> count_up(const MeshAxes& mesh) {
  std::vector<std::vector<int>> all;
  std::vector<int> at(mesh.size());
  while (true) {
    all.push_back(at);
    std::size_t axis = 0;
    while (axis < mesh.size() && ++at[axis] == mesh[axis].size) at[axis++] = 0;
    if (axis == mesh.size()) return all;
  }
}

/// Returns the same for a mesh whose last axis is the innermost.
std::vector<std::vector<int>> count_up_from_the_last(MeshAxes mesh) {
  std::ranges::reverse(mesh);
  auto all = count_up(mesh);
  for (auto& each : all) std::ranges::reverse(each);
  return all;
}

using Stride = std::function<int(std::size_t axis)>;

/// The distances between neighbours on an axis that common mistakes give.
struct WrongStride {
  Stride of;
  std::string why;
};

std::vector<WrongStride> wrong_strides(const MeshAxes& mesh) {
  const auto size = [&mesh](std::size_t axis) { return mesh[axis].size; };
  return {
      {[](std::size_t) { return 1; },
       "The stride is missing: neighbours are adjacent ranks only on the innermost axis. On every "
       "other axis they are as many ranks apart as all axes further in have together."},
      {[size](std::size_t axis) { return axis == 0 ? 1 : size(axis - 1); },
       "This takes the size of one axis, the one before, for the stride. Neighbours are as many "
       "ranks apart as *all* axes further in have together: the product of their sizes."},
      {[size](std::size_t axis) {
         int stride = 1;
         for (std::size_t i = 0; i <= axis; ++i) stride *= size(i);
         return stride;
       },
       "The stride includes the axis's own size. Only the axes further in count: on the innermost "
       "axis, neighbours are adjacent ranks, so its stride is 1."}};
}

void check_coordinates(const MeshAxes& mesh) {
  const auto right = count_up(mesh);
  std::vector<std::vector<int>> found;
  for (int rank = 0; rank < static_cast<int>(right.size()); ++rank)
    found.push_back(coordinates_of(rank, mesh));
  if (found == right) return;

  const auto gives = [&](const std::function<std::vector<int>(int)>& mistake) {
    for (std::size_t rank = 0; rank < found.size(); ++rank)
      if (found[rank] != mistake(static_cast<int>(rank))) return false;
    return true;
  };
  std::string why =
      "Write down the coordinates of all ranks of this mesh, from rank 0: the first coordinate "
      "counts up from rank to rank, and the next one grows when it starts again at 0.";
  if (std::ranges::any_of(found, [&](const auto& each) { return each.size() != mesh.size(); })) {
    why = "A rank has one coordinate on each axis, even on an axis of size 1.";
  } else if (found == count_up_from_the_last(mesh)) {
    why =
        "These are the coordinates if the last axis is the innermost. Here the first one is: from "
        "one rank to the next, the first coordinate changes.";
  } else if (gives([&](int rank) {
               std::vector<int> reversed = right[at(rank)];
               std::ranges::reverse(reversed);
               return reversed;
             })) {
    why = "These are the right coordinates in reverse: the first is that on the innermost axis.";
  } else if (gives([&](int rank) {
               std::vector<int> at;
               int stride = 1;
               for (const MeshAxis& axis : mesh) {
                 at.push_back(rank / stride);
                 stride *= axis.size;
               }
               return at;
             })) {
    why =
        "Dividing by the stride is not enough: a coordinate starts again at 0 when it has reached "
        "the size of its axis. Take the quotient modulo the size.";
  } else {
    for (const WrongStride& mistake : wrong_strides(mesh))
      if (gives([&](int rank) {
            std::vector<int> at;
            for (std::size_t i = 0; i < mesh.size(); ++i)
              at.push_back(rank / mistake.of(i) % mesh[i].size);
            return at;
          }))
        why = mistake.why;
  }
  for (std::size_t rank = 0; rank < right.size(); ++rank)
    if (found[rank] != right[rank])
      throw Wrong{fmt::format("{}: rank {} has the coordinates {}, not {}", text(mesh), rank,
                              text(right[rank]), text(found[rank])),
                  why};
}

void check_ranks(const MeshAxes& mesh) {
  const auto all = count_up(mesh);
  std::vector<int> found;
  for (const auto& each : all) found.push_back(rank_of(each, mesh));

  std::string why =
      "Each coordinate counts as much as its axis's stride, the number of ranks that all axes "
      "further in have together. The rank is the sum.";
  const auto from_the_last = count_up_from_the_last(mesh);
  bool is_from_the_last = true;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    is_from_the_last = is_from_the_last &&
                       found[rank] == static_cast<int>(std::ranges::find(from_the_last, all[rank]) -
                                                       from_the_last.begin());
  if (is_from_the_last) {
    why =
        "This takes the last axis for the innermost. Here the first one is: a step along it leads "
        "to the next rank.";
  } else {
    for (const WrongStride& mistake : wrong_strides(mesh)) {
      bool same = true;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        int sum = 0;
        for (std::size_t i = 0; i < mesh.size(); ++i) sum += all[rank][i] * mistake.of(i);
        same = same && found[rank] == sum;
      }
      if (same) why = mistake.why;
    }
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (found[rank] != static_cast<int>(rank))
      throw Wrong{fmt::format("{}: the coordinates {} are those of rank {}, not {}", text(mesh),
                              text(all[rank]), rank, found[rank]),
                  why};
}

/// Returns the ranks for whose coordinates `belongs` returns true, in ascending order.
std::vector<int> ranks_where(const std::vector<std::vector<int>>& all,
                             const std::function<bool(const std::vector<int>&)>& belongs) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (belongs(all[rank])) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::vector<int> right_group(const std::vector<std::vector<int>>& all, int rank, std::size_t axis) {
  const std::vector<int>& mine = all[at(rank)];
  return ranks_where(all, [&](const std::vector<int>& other) {
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (i != axis && other[i] != mine[i]) return false;
    return true;
  });
}

std::string diagnose_group(const std::vector<std::vector<int>>& all, const MeshAxes& mesh, int rank,
                           std::size_t axis, const std::vector<int>& found) {
  const std::vector<int> right = right_group(all, rank, axis);
  const std::vector<int>& mine = all[at(rank)];
  const std::string& name = mesh[axis].name;

  if (std::multiset(found.begin(), found.end()) == std::multiset(right.begin(), right.end()))
    return fmt::format(
        "These are the right ranks in another order: they must be in the order of their "
        "coordinate along {}, on each of them. A group numbers its ranks by their place, and if "
        "its ranks disagree about it, a chunk or a stage goes to the wrong one.{}",
        name, found.front() == rank ? " Is the rank itself always the first?" : "");
  std::vector<int> others = right;
  std::erase(others, rank);
  if (found == others) return "The rank itself is missing: it belongs to its own group, too.";
  if (found == ranks_where(all, [&](const auto& other) { return other[axis] == mine[axis]; }))
    return fmt::format(
        "These are the ranks that have the *same* coordinate along {}. A group along {} has the "
        "ranks that differ in this coordinate, and agree in all others.",
        name, name);
  for (std::size_t other = 0; other < mesh.size(); ++other)
    if (other != axis && found == right_group(all, rank, other))
      return fmt::format("This is the group along {}, and the one along {} was asked for.",
                         mesh[other].name, name);
  int stride = 1;
  for (std::size_t i = 0; i < axis; ++i) stride *= mesh[i].size;
  const auto starts_at = [&](int first, int apart) {
    for (int i = 0; i < static_cast<int>(found.size()); ++i)
      if (found[at(i)] != first + i * apart) return false;
    return static_cast<int>(found.size()) == mesh[axis].size;
  };
  if (mine[axis] > 0 && starts_at(rank, stride))
    return fmt::format(
        "The group starts at the rank itself, and ends beyond its last one. It starts at the rank "
        "whose coordinate along {} is 0.",
        name);
  if (stride > 1 && (starts_at(right.front(), 1) || starts_at(rank - mine[axis], 1) ||
                     starts_at(rank / mesh[axis].size * mesh[axis].size, 1)))
    return fmt::format(
        "These are adjacent ranks, but only the innermost axis has its neighbours side by side. "
        "Along {}, they are {} ranks apart.",
        name, stride);
  if (starts_at(mine[axis], stride) || starts_at(0, stride))
    return fmt::format(
        "The ranks are as far apart as they should be, {}, but this is the group of another rank: "
        "subtract from the rank only what its coordinate along {} counts, so that the other "
        "coordinates stay as they are.",
        stride, name);
  if (found.size() != right.size())
    return fmt::format("The axis {} has {}, so the group has as many.", name,
                       count_of(mesh[axis].size, "rank"));
  return fmt::format(
      "All ranks of a group have the same coordinates, except along {}: take those of rank {}, let "
      "this one run from 0 to {}, and look up the rank of each.",
      name, rank, mesh[axis].size - 1);
}

void check_groups(const MeshAxes& mesh) {
  const auto all = count_up(mesh);
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank)
    for (std::size_t axis = 0; axis < mesh.size(); ++axis) {
      const std::vector<int> found = group_of(rank, axis, mesh);
      const std::vector<int> right = right_group(all, rank, axis);
      if (found != right)
        throw Wrong{fmt::format("{}: the group of rank {} along {} is {}, not {}", text(mesh), rank,
                                mesh[axis].name, text(right), text(found)),
                    diagnose_group(all, mesh, rank, axis, found)};
    }
}

/// Draws the answer's results for a mesh, with one line per axis.
std::string table(const MeshAxes& mesh) {
  const int ranks = static_cast<int>(count_up(mesh).size());
  std::string lines = "rank";
  for (int rank = 0; rank < ranks; ++rank) lines += fmt::format(" {:2}", rank);
  for (std::size_t axis = 0; axis < mesh.size(); ++axis) {
    lines += fmt::format("\n{:4}", mesh[axis].name);
    std::string groups;
    for (int rank = 0; rank < ranks; ++rank) {
      const int at = coordinates_of(rank, mesh)[axis];
      lines += fmt::format(" {:2}", at);
      if (at == 0)
        groups += fmt::format("{}{}", groups.empty() ? "   " : " | ",
                              fmt::join(group_of(rank, axis, mesh), " "));
    }
    lines += groups;
  }
  return lines;
}

}  // namespace

void check(Check& check) {
  std::vector<MeshAxes> meshes{
      {{"tp", 2}},
      {{"tp", 2}, {"dp", 3}},
      {{"tp", 2}, {"dp", 3}, {"pp", 2}},
      {{"pp", 3}, {"tp", 2}, {"dp", 2}},
      {{"tp", 1}},
      {{"tp", 3}, {"cp", 1}, {"dp", 2}, {"pp", 2}},
      {{"dp", 1}, {"pp", 4}, {"tp", 1}},
      {{"tp", 2}, {"cp", 3}, {"ep", 2}, {"dp", 2}, {"pp", 3}},  // Megatron's order
  };
  const std::vector<std::string> names{"tp", "cp", "ep", "dp", "pp"};
  for (int trial = 0; trial < 30; ++trial) {
    MeshAxes mesh;
    const int axes = check.number_from(1, 5), first = check.number_from(0, 4);
    for (int i = 0; i < axes; ++i)
      mesh.push_back({names[static_cast<std::size_t>((first + 2 * i) % 5)],
                      check.number_from(1, i < 3 ? 5 : 2)});
    meshes.push_back(mesh);
  }
  for (const auto& part : {check_coordinates, check_ranks, check_groups})
    for (const MeshAxes& mesh : meshes) {
      check.count_case(text(mesh));
      part(mesh);
    }
  check.show(
      "Each of the twelve ranks is in one group along each axis. Coordinates are by your "
      "coordinates_of, groups by your group_of.",
      table(meshes[2]));
}

}  // namespace lockstep::exercises
