#include "core/comm/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/comm/between_nodes.h"
#include "core/comm/choose_algorithm.h"

namespace lockstep {

namespace {

/// Converts a number of elements to the int that the libraries take.
int narrow(std::int64_t count) {
  if (count > std::numeric_limits<int>::max())
    throw std::invalid_argument(
        fmt::format("a collective of {} elements; MPI and NCCL take at most 2^31 - 1", count));
  return static_cast<int>(count);
}

std::int64_t tensor_bytes(View data) {
  return static_cast<std::int64_t>(data.bytes());
}

}  // namespace

Group::Group(Endpoint endpoint, std::vector<int> ranks, std::string name, int channels)
    : endpoint_(endpoint),
      ranks_(std::move(ranks)),
      name_(std::move(name)),
      kept_name_(endpoint.device.compute.trace().keep(name_)),
      per_node_(members_per_node(ranks_, endpoint.device.compute.clock().cluster().ranks_per_node)),
      messages_(endpoint, channels, fmt::format("{}: send", name_),
                fmt::format("{}: receive", name_), name_) {
  const auto self = std::find(ranks_.begin(), ranks_.end(), endpoint.transport.rank());
  if (self == ranks_.end())
    throw std::invalid_argument(
        fmt::format("rank {} is not a member of group {}", endpoint.transport.rank(), name_));
  rank_ = static_cast<int>(self - ranks_.begin());
  endpoint.transport.open_group(name_);
  if (size() > 1) {
    endpoint.transport.connect(ranks_, channels, channels_taken);
    if (Recorder& trace = endpoint.device.compute.trace(); trace.on())
      trace.metadata("group",
                     fmt::format(R"({{"name":"{}","ranks":[{}]}})", name_, fmt::join(ranks_, ",")));
  }
  if (OperationLog* log = endpoint.device.compute.operations(); log != nullptr && size() > 1)
    recorded_ = log->open_group({name_, channels, ranks_});
  collectives_ = collectives(channels + 1);
}

std::unique_ptr<GroupCollectives> Group::collectives(int channel) {
  Transport& transport = endpoint_.transport;
  if (size() == 1) return collectives_alone(members(), messages_);
  if (endpoint_.device.memory.device() == DeviceKind::meta)
    return collectives_on_meta(
        members(), channel,
        transport.meta_collectives(ranks_, channel, endpoint_.device.compute.clock().cluster()));
  if (endpoint_.collectives == Collectives::native)
    if (auto library = transport.native(ranks_, channel))
      return collectives_of_library(members(), channel, std::move(library));
  return collectives_by_worker(members(), channel);
}

Group::~Group() {
  endpoint_.transport.close_group(name_);
}

View Group::checked(const char* operation, View data) const {
  if (!is_floating(data.dtype))
    throw std::invalid_argument(
        fmt::format("{} in {}: the elements must be f32, bf16 or f16, not {}", operation, name_,
                    name_of(data.dtype)));
  if (is_narrow(data.dtype) && !collectives_->supports_16_bit())
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

Channel::Part Group::part(const char* name, std::source_location where, const char* algorithm,
                          std::int64_t whole, int root) const {
  return {.span = {.name = name,
                   .category = Category::communication,
                   .step = endpoint_.device.compute.trace().step(),
                   .group = kept_name_,
                   .group_size = size(),
                   .algorithm = algorithm},
          .where = where,
          .whole = whole,
          .root = root};
}

Work Group::send(View data, int to, std::source_location where) {
  return messages_.send(data, world_rank(member("send to", to)), endpoint_.device.compute.record(),
                        part("send", where));
}

Work Group::receive(View into, int from, std::source_location where) {
  return messages_.receive(into, world_rank(member("receive from", from)), part("recv", where));
}

Work Group::issue(Collective collective, View data, CollectiveCall call, View in) {
  collective.dtype = data.dtype;
  if (collective.counts.empty()) collective.elements = data.elements();
  call.dtype = data.dtype;
  OperationLog* log = endpoint_.device.compute.operations();
  const auto recorded = log != nullptr && recorded_ >= 0 ? log->collective(recorded_, collective)
                                                         : OperationLog::not_recorded;
  call.built_in = [collective = std::move(collective), data, in](Peers& peers) {
    run(collective, peers, data, in);
  };
  if (CollectivesInFlight* all = endpoint_.device.compute.collectives_in_flight();
      all != nullptr && size() > 1)
    call.ended = all->begin();
  return collectives_->issue(std::move(call)).recorded_as(recorded);
}

Work Group::broadcast(View data, int root, std::source_location where) {
  checked("broadcast", data);
  member("broadcast from", root);
  return issue({.operation = Operation::broadcast, .root = root}, data,
               {.part = part("broadcast", where, "binomial", tensor_bytes(data), root),
                .native = [=](NativeCollectives& library) { library.broadcast(data, root); }});
}

Work Group::all_reduce(View data, std::optional<Algorithm> chosen, std::source_location where) {
  checked("all_reduce", data);
  Collective collective = with_default(Operation::all_reduce, data);
  if (chosen)
    collective = {.operation = Operation::all_reduce,
                  .algorithm = *chosen,
                  .per_node = *chosen == Algorithm::hierarchical ? per_node_ : 0};
  if (collective.algorithm == Algorithm::rings)
    throw std::invalid_argument(fmt::format(
        "all_reduce by rings in {}: a group has one stream, and so one ring; use Rings", name_));
  if (collective.algorithm == Algorithm::in_switch) check_in_switch();
  return issue(
      std::move(collective), data,
      {.part = part("all_reduce", where, name_of(collective.algorithm), tensor_bytes(data)),
       .scratch = scratch_of(collective, data),
       .native = [=](NativeCollectives& library) { library.all_reduce(data); }});
}

Work Group::reduce_scatter(View data, std::source_location where) {
  checked("reduce_scatter", data);
  const Collective collective = with_default(Operation::reduce_scatter, data);
  return issue(
      collective, data,
      {.part = part("reduce_scatter", where, name_of(collective.algorithm), tensor_bytes(data)),
       .scratch = scratch_of(collective, data),
       .native = [=, this](NativeCollectives& library) {
         library.reduce_scatter(data, chunk(data, rank_), chunk_counts(data));
       }});
}

Work Group::all_gather(View data, std::source_location where) {
  checked("all_gather", data);
  const Collective collective = with_default(Operation::all_gather, data);
  return issue(
      collective, data,
      {.part = part("all_gather", where, name_of(collective.algorithm), tensor_bytes(data)),
       .native = [=, this](NativeCollectives& library) {
         library.all_gather(data, chunk_counts(data));
       }});
}

Work Group::gather(View data, int root, std::source_location where) {
  checked("gather", data);
  member("gather to", root);
  return issue({.operation = Operation::gather, .root = root}, data,
               {.part = part("gather", where, "linear", tensor_bytes(data), root),
                .native = [=, this](NativeCollectives& library) {
                  library.gather(data, chunk_counts(data), root);
                }});
}

const Collective& Group::with_default(Operation operation, View data) {
  const auto [found, is_new] = defaults_.try_emplace({operation, data.elements(), data.dtype});
  if (!is_new) return found->second;
  Collective& collective = found->second;
  collective = {.operation = operation,
                .dtype = data.dtype,
                .elements = data.elements(),
                .choice = endpoint_.device.memory.device() == DeviceKind::meta
                              ? Collective::Choice::by_cost_or_switch
                              : Collective::Choice::by_cost};
  if (const Clock& clock = endpoint_.device.compute.clock(); clock.is_modelled())
    collective = with_default_algorithm(collective, ranks_, clock.cluster());
  return collective;
}

std::int64_t Group::scratch_of(const Collective& collective, View data) const {
  return all_reduce_scratch(collective.algorithm, data.elements(), size(),
                            endpoint_.transport.combines(), collective.per_node, data.dtype);
}

void Group::check_in_switch() const {
  const Cluster& cluster = endpoint_.device.compute.clock().cluster();
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("all_reduce by in_switch in {}: {}", name_, why));
  };
  if (endpoint_.device.memory.device() != DeviceKind::meta)
    refuse("a cost only; it has no data to add except on the meta device (--device meta)");
  if (!cluster.in_switch)
    refuse(fmt::format("cluster '{}' has no 'in_switch': its switches can't add", cluster.name));
  if (!cluster.on_one_node(ranks_))
    refuse("its members are on several nodes; a switch joins the ranks of one");
}

Work Group::all_to_all(View out, View in, std::source_location where) {
  return equal_all_to_all(out, in, 0, where);
}

Work Group::two_hop_all_to_all(View out, View in, std::source_location where) {
  return equal_all_to_all(out, in, per_node_, where);
}

Work Group::equal_all_to_all(View out, View in, int per_node, std::source_location where) {
  const std::int64_t n = out.elements();
  if (n % size() != 0 || in.elements() != n)
    throw std::invalid_argument(fmt::format(
        "all_to_all of {} into {} elements between {} members: the chunks must be equal", n,
        in.elements(), size()));
  const std::vector<std::int64_t> counts(ranks_.size(), n / size());
  return exchange(out, counts, in, counts, per_node, where);
}

Work Group::all_to_all_v(View out, std::vector<std::int64_t> send_counts, View in,
                         std::vector<std::int64_t> receive_counts, std::source_location where) {
  return exchange(out, std::move(send_counts), in, std::move(receive_counts), 0, where);
}

Work Group::exchange(View out, std::vector<std::int64_t> send_counts, View in,
                     std::vector<std::int64_t> receive_counts, int per_node,
                     std::source_location where) {
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
  std::vector<std::int64_t> counts = send_counts;
  counts.insert(counts.end(), receive_counts.begin(), receive_counts.end());
  return issue(
      {.operation = Operation::all_to_all, .counts = std::move(counts), .per_node = per_node}, out,
      {.part = part("all_to_all", where, per_node > 0 ? "two_hop" : "pairwise"),
       .scratch = per_node > 0 ? out.elements() : 0,
       .native =
           [=](NativeCollectives& library) {
             library.all_to_all(out, narrowed(send_counts), in, narrowed(receive_counts));
           }},
      in);
}

Work Group::barrier(std::source_location where) {
  return issue({.operation = Operation::barrier}, View{nullptr, {0}},
               {.part = part("barrier", where, "dissemination", 0),
                .native = [](NativeCollectives& library) { library.barrier(); }});
}

std::vector<int> Group::chunk_counts(View data) const {
  std::vector<int> counts;
  for (int i = 0; i < size(); ++i) counts.push_back(narrow(chunk(data, i).elements()));
  return counts;
}

}  // namespace lockstep
