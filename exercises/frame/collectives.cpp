#include "exercises/frame/collectives.h"

#include "core/comm/group.h"

namespace lockstep::exercises {

namespace {

View view_of(std::span<const float> data) {
  return View{const_cast<float*>(data.data()), Shape{static_cast<std::int64_t>(data.size())}};
}

std::vector<std::int64_t> wide(const std::vector<int>& counts) {
  return {counts.begin(), counts.end()};
}

}  // namespace

Work all_reduce(World& world, std::span<float> data, Where where) {
  return world.group().all_reduce(view_of(data), Algorithm::ring, where);
}
Work reduce_scatter(World& world, std::span<float> data, Where where) {
  return world.group().reduce_scatter(view_of(data), where);
}
Work all_gather(World& world, std::span<float> data, Where where) {
  return world.group().all_gather(view_of(data), where);
}
Work broadcast(World& world, std::span<float> data, int root, Where where) {
  return world.group().broadcast(view_of(data), root, where);
}
Work all_to_all(World& world, std::span<const float> out, const std::vector<int>& send_counts,
                std::span<float> in, const std::vector<int>& receive_counts, Where where) {
  return world.group().all_to_all_v(view_of(out), wide(send_counts), view_of(in),
                                    wide(receive_counts), where);
}

}  // namespace lockstep::exercises
