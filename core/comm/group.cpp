#include "core/comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace lockstep {

namespace {

/// Converts a number of elements to the int that the libraries take.
int narrow(std::int64_t count) {
  if (count > std::numeric_limits<int>::max())
    throw std::invalid_argument(
        fmt::format("a collective of {} elements; MPI and NCCL take at most 2^31 - 1", count));
  return static_cast<int>(count);
}

}  // namespace

Group::Group(Endpoint endpoint, std::vector<int> ranks, std::string name, int channels)
    : endpoint_(endpoint),
      ranks_(std::move(ranks)),
      name_(std::move(name)),
      kept_name_(endpoint.device.compute.trace().keep(name_)),
      messages_(endpoint, channels, fmt::format("{}: send", name_),
                fmt::format("{}: receive", name_)) {
  const auto self = std::find(ranks_.begin(), ranks_.end(), endpoint.transport.rank());
  if (self == ranks_.end())
    throw std::invalid_argument(
        fmt::format("rank {} is not a member of group {}", endpoint.transport.rank(), name_));
  rank_ = static_cast<int>(self - ranks_.begin());
  endpoint.transport.open_group(name_);
  if (size() == 1) return;
  endpoint.transport.connect(ranks_, channels, channels_taken);
  if (endpoint.device.memory.device() == DeviceKind::meta)
    meta_ = endpoint.transport.meta_collectives(ranks_, channels + 1,
                                                endpoint.device.compute.clock().cluster());
  if (endpoint.collectives == Collectives::native)
    native_ = endpoint.transport.native(ranks_, channels + 1);
  // Collectives that the library enqueues on a GPU need no thread, whose agent has a queue too.
  const bool enqueues = native_ && native_->gpu_queue() != nullptr;
  if (!meta_ && !enqueues) worker_ = std::make_unique<Worker>(endpoint.transport, name_);
  collective_channel_ = std::make_unique<Channel>(
      Endpoint{worker_ ? worker_->agent() : endpoint.transport, endpoint.device}, channels + 1,
      fmt::format("{} collectives: send", name_), fmt::format("{} collectives: receive", name_));
}

Group::~Group() {
  endpoint_.transport.close_group(name_);
}

View Group::checked(const char* operation, View data) const {
  if (!is_floating(data.dtype))
    throw std::invalid_argument(
        fmt::format("{} in {}: the elements must be f32, bf16 or f16, not {}", operation, name_,
                    name_of(data.dtype)));
  if (native_ && is_narrow(data.dtype) && !native_->narrow())
    throw std::invalid_argument(
        fmt::format("{} of {} in {}: MPI's collectives support only f32; use --comm ring",
                    operation, name_of(data.dtype), name_));
  if (!data.contiguous())
    throw std::invalid_argument(fmt::format(
        "{} in {}: the elements must be contiguous; copy them together first", operation, name_));
  return data;
}

int Group::member(const char* operation, int i) const {
  if (i < 0 || i >= size())
    throw std::invalid_argument(
        fmt::format("{} member {}: {} has members 0 to {}", operation, i, name_, size() - 1));
  return i;
}

Channel::Part Group::part(const char* name, std::source_location where) const {
  return {.span = {.name = name,
                   .category = Category::communication,
                   .step = endpoint_.device.compute.trace().step(),
                   .group = kept_name_,
                   .group_size = size()},
          .where = where};
}

Work Group::send(View data, int to, std::source_location where) {
  return messages_.send(data, world_rank(member("send to", to)), endpoint_.device.compute.record(),
                        part("send", where));
}

Work Group::receive(View into, int from, std::source_location where) {
  return messages_.receive(into, world_rank(member("receive from", from)), part("recv", where));
}

Work Group::broadcast(View data, int root, std::source_location where) {
  checked("broadcast", data);
  member("broadcast from", root);
  return issue(
      {"broadcast", "binomial", static_cast<std::int64_t>(data.bytes()), 0, where, root},
      [=](Peers& peers) { binomial_broadcast(peers, data, root); },
      [=](NativeCollectives& native) { native.broadcast(data, root); });
}

Work Group::all_reduce(View data, Algorithm algorithm, std::source_location where) {
  checked("all_reduce", data);
  const std::int64_t scratch =
      all_reduce_scratch(algorithm, data.elements(), size(), endpoint_.transport.combines());
  return issue(
      {"all_reduce", name_of(algorithm), static_cast<std::int64_t>(data.bytes()), scratch, where,
       -1, data.dtype},
      [=](Peers& peers) { lockstep::all_reduce(algorithm, peers, data); },
      [=](NativeCollectives& native) { native.all_reduce(data); });
}

Work Group::reduce_scatter(View data, std::source_location where) {
  checked("reduce_scatter", data);
  const std::int64_t scratch =
      all_reduce_scratch(Algorithm::ring, data.elements(), size(), endpoint_.transport.combines());
  return issue(
      {"reduce_scatter", "ring", static_cast<std::int64_t>(data.bytes()), scratch, where, -1,
       data.dtype},
      [=](Peers& peers) { ring_reduce_scatter(peers, data); },
      [=, this](NativeCollectives& native) {
        native.reduce_scatter(data, chunk(data, rank_), chunk_counts(data));
      });
}

Work Group::all_gather(View data, std::source_location where) {
  checked("all_gather", data);
  return issue(
      {"all_gather", "ring", static_cast<std::int64_t>(data.bytes()), 0, where},
      [=](Peers& peers) { ring_all_gather(peers, data); },
      [=, this](NativeCollectives& native) { native.all_gather(data, chunk_counts(data)); });
}

Work Group::gather(View data, int root, std::source_location where) {
  checked("gather", data);
  member("gather to", root);
  return issue(
      {"gather", "linear", static_cast<std::int64_t>(data.bytes()), 0, where, root},
      [=](Peers& peers) { linear_gather(peers, data, root); },
      [=, this](NativeCollectives& native) { native.gather(data, chunk_counts(data), root); });
}

Work Group::all_to_all(View out, View in, std::source_location where) {
  const std::int64_t n = out.elements();
  if (n % size() != 0 || in.elements() != n)
    throw std::invalid_argument(fmt::format(
        "all_to_all of {} into {} elements between {} members: the chunks must be equal", n,
        in.elements(), size()));
  const std::vector<std::int64_t> counts(ranks_.size(), n / size());
  return all_to_all_v(out, counts, in, counts, where);
}

Work Group::all_to_all_v(View out, std::vector<std::int64_t> send_counts, View in,
                         std::vector<std::int64_t> receive_counts, std::source_location where) {
  checked("all_to_all_v", out);
  checked("all_to_all_v", in);
  if (in.dtype != out.dtype)
    throw std::invalid_argument(fmt::format("all_to_all_v of {} elements into {} elements",
                                            name_of(out.dtype), name_of(in.dtype)));
  const auto total = [&](const std::vector<std::int64_t>& counts) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) {
      if (count < 0) throw std::invalid_argument("all_to_all_v: a count is negative");
      sum += count;
    }
    return sum;
  };
  if (send_counts.size() != ranks_.size() || receive_counts.size() != ranks_.size() ||
      total(send_counts) > out.elements() || total(receive_counts) > in.elements() ||
      send_counts[static_cast<std::size_t>(rank_)] !=
          receive_counts[static_cast<std::size_t>(rank_)])
    throw std::invalid_argument(
        "all_to_all_v: there must be one count per member, the counts must not exceed the views, "
        "and "
        "this member must send itself as many elements as it expects from itself");
  const auto narrowed = [](const std::vector<std::int64_t>& counts) {
    std::vector<int> result;
    for (const std::int64_t count : counts) result.push_back(narrow(count));
    return result;
  };
  return issue(
      {"all_to_all", "pairwise", -1, 0, where},
      [=](Peers& peers) { pairwise_all_to_all(peers, out, send_counts, in, receive_counts); },
      [=](NativeCollectives& native) {
        native.all_to_all(out, narrowed(send_counts), in, narrowed(receive_counts));
      });
}

Work Group::barrier(std::source_location where) {
  return issue({"barrier", "dissemination", 0, 0, where}, dissemination_barrier,
               [](NativeCollectives& native) { native.barrier(); });
}

std::vector<int> Group::chunk_counts(View data) const {
  std::vector<int> counts;
  for (int i = 0; i < size(); ++i) counts.push_back(narrow(chunk(data, i).elements()));
  return counts;
}

}  // namespace lockstep
