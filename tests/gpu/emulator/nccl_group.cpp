// Records NCCL's operations, issued alone or in groups, checks them as far as NCCL does, and puts
// them on streams. See nccl.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tests/gpu/emulator/clique.h"

namespace emulator {

namespace {

/// An operation that this thread has issued between ncclGroupStart and ncclGroupEnd.
struct Issued {
  std::shared_ptr<Member> member;
  cudaStream_t stream;
  std::shared_ptr<Part> part;
};
thread_local int group_depth = 0;
thread_local std::vector<Issued> group;

/// Enqueues one communicator's part of a group. As in NCCL, the part runs on its first stream,
/// which waits for the part's other streams; those streams then wait for the first.
void put_group(Machine::Lock& lock, const std::vector<Issued>& issued) {
  Machine& machine = Machine::get();
  const int device = issued.front().member->device;
  std::vector<Stream*> streams;
  std::vector<std::shared_ptr<Part>> parts;
  for (const Issued& one : issued) {
    Stream* stream = machine.find(one.stream, device);
    if (std::find(streams.begin(), streams.end(), stream) == streams.end())
      streams.push_back(stream);
    parts.push_back(one.part);
  }
  for (std::size_t i = 1; i < streams.size(); ++i)
    machine.order_after(lock, *streams[0], *streams[i]);
  machine.put(lock, *streams[0],
              {.name = "NCCL",
               .meeting = std::make_shared<GroupMeeting>(issued.front().member, std::move(parts))});
  for (std::size_t i = 1; i < streams.size(); ++i)
    machine.order_after(lock, *streams[i], *streams[0]);
}

/// NCCL makes a connection at the first operation that needs one, and the call is not done until
/// the other side makes its call. (The emulator does this only with
/// $LOCKSTEP_EMULATED_NCCL_CONNECTS; tests of mismatched operations on a GPU run without
/// connecting.)
bool connections_matter() {
  static const bool matter = std::getenv("LOCKSTEP_EMULATED_NCCL_CONNECTS") != nullptr;
  return matter;
}

/// The two ends of the connection that a part needs; (-1, -1) for a collective.
std::pair<int, int> ends_of(const Part& part) {
  return part.peer < 0 ? std::pair{-1, -1}
         : part.sends  ? std::pair{part.rank, part.peer}
                       : std::pair{part.peer, part.rank};
}

bool is_connected(const Issued& one) {
  const Clique& clique = *one.member->clique;
  const int wanted = one.part->peer == one.part->rank ? 1 : one.part->peer < 0 ? clique.size : 2;
  return clique.connecting.at(ends_of(*one.part)).size() >= static_cast<std::size_t>(wanted);
}

ncclResult_t flush_group() {
  Machine& machine = Machine::get();
  Machine::Lock lock = machine.lock();
  std::vector<Issued> all = std::move(group);
  group.clear();
  for (const Issued& one : all)
    one.member->clique->connecting[ends_of(*one.part)].insert(one.member->rank);
  machine.changed();
  ncclResult_t result = ncclSuccess;
  while (!all.empty()) {
    const std::shared_ptr<Member> member = all.front().member;
    const auto rest = std::stable_partition(
        all.begin(), all.end(), [&](const Issued& one) { return one.member == member; });
    const std::vector<Issued> its{all.begin(), rest};
    all.erase(all.begin(), rest);
    const ncclResult_t its_result = make_call(
        lock, member,
        [its] {
          return !connections_matter() || std::all_of(its.begin(), its.end(), is_connected);
        },
        [its](Machine::Lock& held) {
          put_group(held, its);
          return ncclSuccess;
        });
    if (its_result != ncclSuccess) result = its_result;
  }
  return result;
}

ncclResult_t issue(Part part, ncclComm_t communicator, cudaStream_t stream) {
  {
    Machine& machine = Machine::get();
    const Machine::Lock lock = machine.lock();
    const std::shared_ptr<Member> member = ready_member_of(communicator);
    if (!member) return ncclInvalidArgument;
    const Stream* found = machine.find(stream, member->device);
    if (found == nullptr || found->device != member->device)
      return refused(ncclInvalidUsage, "the stream is not of the communicator's GPU");
    for (const void* data : {part.from, static_cast<const void*>(part.to)})
      if (data != nullptr && part.count > 0 && machine.memory().device_of(data) != member->device &&
          machine.memory().where(data) != Where::pinned)
        return refused(ncclInvalidArgument, "the buffer is not of the communicator's GPU");
    if (part.peer >= 0 && group_depth == 0 && !member->blocking)
      return refused(ncclInvalidUsage,
                     "a send or receive outside a group, on a non-blocking communicator");
    if (std::max(part.peer, part.root) >= member->clique->size)
      return refused(
          ncclInvalidArgument,
          fmt::format("rank {} of {}", std::max(part.peer, part.root), member->clique->size));
    part.rank = member->rank;
    group.push_back({member, stream, std::make_shared<Part>(part)});
  }
  return group_depth == 0 ? flush_group() : ncclSuccess;
}

}  // namespace

}  // namespace emulator

using emulator::Kind;
using emulator::refused;

ncclResult_t ncclGroupStart() {
  ++emulator::group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (emulator::group_depth == 0)
    return refused(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  return --emulator::group_depth == 0 ? emulator::flush_group() : ncclSuccess;
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return emulator::issue({.from = data, .count = count, .type = type, .peer = peer, .sends = true},
                         communicator, stream);
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return emulator::issue({.to = data, .count = count, .type = type, .peer = peer}, communicator,
                         stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  return emulator::issue(
      {.kind = Kind::broadcast, .from = from, .to = to, .count = count, .type = type, .root = root},
      communicator, stream);
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t communicator, cudaStream_t stream) {
  return emulator::issue(
      {.kind = Kind::all_reduce, .from = from, .to = to, .count = count, .type = type},
      communicator, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count_to,
                               ncclDataType_t type, ncclRedOp_t, ncclComm_t communicator,
                               cudaStream_t stream) {
  return emulator::issue(
      {.kind = Kind::reduce_scatter, .from = from, .to = to, .count = count_to, .type = type},
      communicator, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count_from, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return emulator::issue(
      {.kind = Kind::all_gather, .from = from, .to = to, .count = count_from, .type = type},
      communicator, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t, int root, ncclComm_t communicator, cudaStream_t stream) {
  return emulator::issue(
      {.kind = Kind::reduce, .from = from, .to = to, .count = count, .type = type, .root = root},
      communicator, stream);
}
