#include "core/comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace lockstep {

Group::Group(Endpoint endpoint, std::vector<int> ranks, std::string name, int id)
    : ranks_(std::move(ranks)),
      name_(std::move(name)),
      kept_name_(endpoint.device.compute.trace().keep(name_)),
      channel_(endpoint, id, fmt::format("{}: send", name_), fmt::format("{}: receive", name_)) {
  const auto self = std::find(ranks_.begin(), ranks_.end(), endpoint.transport.rank());
  if (self == ranks_.end())
    throw std::invalid_argument(
        fmt::format("rank {} is not a member of group {}", endpoint.transport.rank(), name_));
  rank_ = static_cast<int>(self - ranks_.begin());
}

Span Group::span(const char* name, const char* algorithm) const {
  return {.name = name,
          .category = Category::communication,
          .group = kept_name_,
          .group_size = size(),
          .algorithm = algorithm};
}

Work Group::send(View data, int to, std::source_location where) {
  return channel_.send(data, world_rank(to), channel_.endpoint().device.compute.record(),
                       span("send", nullptr), where);
}

Work Group::receive(View into, int from, std::source_location where) {
  return channel_.receive(into, world_rank(from), span("recv", nullptr), where);
}

View Group::chunk(View data, int i) const {
  const std::int64_t n = data.elements();
  const std::int64_t least = n / size();
  const std::int64_t more = n % size();
  const std::int64_t first = i * least + std::min<std::int64_t>(i, more);
  return data.reshaped({n}).columns(first, least + (i < more ? 1 : 0));
}

Event Group::exchange(View out, int to, View in, int from, Event ready, const Span& span,
                      std::source_location where) {
  Work sent = channel_.send(out, world_rank(to), ready, span, where);
  Work received = channel_.receive(in, world_rank(from), span, where);
  const Event there = received.finish();
  sent.finish();
  return there;
}

// Step k sends chunk (rank - k - 1) on to the right, while the chunk before it comes in from the
// left and is added; after N - 1 steps chunk `rank` has been around the whole ring and is complete
// here.
Event Group::ring_reduce_scatter(View data, Event ready, const Span& span,
                                 std::source_location where) {
  const Device device = channel_.endpoint().device;
  for (int k = 0; k < size() - 1; ++k) {
    View out = chunk(data, neighbour(-k - 1));
    View sum = chunk(data, neighbour(-k - 2));
    Tensor in{device.memory, sum.shape, MemoryCategory::communication};
    ready = exchange(out, neighbour(1), in, neighbour(-1), ready, span, where);
    if (device.memory.device() != DeviceKind::meta) device.compute.kernels().add({}, sum, in, sum);
  }
  return ready;
}

// Step k passes on the chunk that came in last, beginning with one's own.
Event Group::ring_all_gather(View data, Event ready, const Span& span, std::source_location where) {
  for (int k = 0; k < size() - 1; ++k)
    ready = exchange(chunk(data, neighbour(-k)), neighbour(1), chunk(data, neighbour(-k - 1)),
                     neighbour(-1), ready, span, where);
  return ready;
}

Work Group::reduce_scatter(View data, std::source_location where) {
  Stream& compute = channel_.endpoint().device.compute;
  const Span what = span("reduce_scatter", "ring");
  return {compute, what, ring_reduce_scatter(data, compute.record(), what, where)};
}

Work Group::all_gather(View data, std::source_location where) {
  Stream& compute = channel_.endpoint().device.compute;
  const Span what = span("all_gather", "ring");
  return {compute, what, ring_all_gather(data, compute.record(), what, where)};
}

Work Group::all_reduce(View data, std::source_location where) {
  Stream& compute = channel_.endpoint().device.compute;
  const Span what = span("all_reduce", "ring");
  const Event mine_is_complete = ring_reduce_scatter(data, compute.record(), what, where);
  return {compute, what, ring_all_gather(data, mine_is_complete, what, where)};
}

// In round k (1, 2, 4, ...) whoever has the data and counts less than k from the root sends it k
// further.
Work Group::broadcast(View data, int root, std::source_location where) {
  Stream& compute = channel_.endpoint().device.compute;
  const Span what = span("broadcast", "binomial");
  const int place = (rank_ - root + size()) % size();
  const auto member = [&](int distance) { return world_rank((root + distance) % size()); };
  Event ready = compute.record();
  for (int k = 1; k < size(); k *= 2) {
    if (place < k && place + k < size()) {
      channel_.send(data, member(place + k), ready, what, where).finish();
    } else if (place >= k && place < 2 * k) {
      const Event came = channel_.receive(data, member(place - k), what, where).finish();
      ready.time = std::max(ready.time, came.time);
    }
  }
  return {compute, what, ready};
}

Work Group::barrier(std::source_location where) {
  Stream& compute = channel_.endpoint().device.compute;
  const Span what = span("barrier", "dissemination");
  Event ready = compute.record();
  for (int k = 1; k < size(); k *= 2) {
    const Event came = exchange({}, neighbour(k), {}, neighbour(-k), ready, what, where);
    ready.time = std::max(ready.time, came.time);
  }
  return {compute, what, ready};
}

}  // namespace lockstep
