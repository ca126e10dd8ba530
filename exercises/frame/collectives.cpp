#include "exercises/frame/collectives.h"

#include "core/comm/group.h"
#include "exercises/frame/staging.h"

namespace lockstep::exercises {

namespace {

std::vector<std::int64_t> wide(const std::vector<int>& counts) {
  return {counts.begin(), counts.end()};
}

/// Starts a collective that works in place.
Work in_place(World& world, const Asked& asked, std::span<float> data,
              const std::function<lockstep::Work(View)>& start) {
  return start_on(Frame::state(world), {asked.operation, asked.where, &Frame::group(world)},
                  {.read = data, .written = data},
                  [&](View numbers, View) { return start(numbers); });
}

}  // namespace

Work all_reduce(World& world, std::span<float> data, Where where) {
  return in_place(world, {"all_reduce", where}, data, [&](View numbers) {
    return Frame::group(world).all_reduce(numbers, Algorithm::ring, where);
  });
}
Work reduce_scatter(World& world, std::span<float> data, Where where) {
  return in_place(world, {"reduce_scatter", where}, data,
                  [&](View numbers) { return Frame::group(world).reduce_scatter(numbers, where); });
}
Work all_gather(World& world, std::span<float> data, Where where) {
  return in_place(world, {"all_gather", where}, data,
                  [&](View numbers) { return Frame::group(world).all_gather(numbers, where); });
}
Work broadcast(World& world, std::span<float> data, int root, Where where) {
  return in_place(world, {"broadcast", where}, data, [&](View numbers) {
    return Frame::group(world).broadcast(numbers, root, where);
  });
}
Work all_to_all(World& world, std::span<const float> out, const std::vector<int>& send_counts,
                std::span<float> in, const std::vector<int>& receive_counts, Where where) {
  return start_on(Frame::state(world), {"all_to_all", where}, {.read = out, .written = in},
                  [&](View sent, View received) {
                    return Frame::group(world).all_to_all_v(sent, wide(send_counts), received,
                                                            wide(receive_counts), where);
                  });
}

}  // namespace lockstep::exercises
