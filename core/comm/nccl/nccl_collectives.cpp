#include "core/comm/nccl/nccl_collectives.h"

#include <algorithm>
#include <functional>

#include "core/comm/transport/peers.h"

namespace lockstep {

namespace {

bool all_equal(std::span<const int> counts) {
  return std::ranges::adjacent_find(counts, std::not_equal_to{}) == counts.end();
}

/// Calls `each` with every member and its chunk of `data`, except for empty chunks.
void for_chunks(View data, std::span<const int> counts,
                const std::function<void(int, View)>& each) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) each(static_cast<int>(i), slice(data, first, counts[i]));
    first += counts[i];
  }
}

}  // namespace

void NcclCollectives::broadcast(View data, int root) {
  communicator_.broadcast(queue(), data, root);
}

void NcclCollectives::all_reduce(View data) {
  communicator_.all_reduce(queue(), data);
}

void NcclCollectives::reduce_scatter(View data, View own, std::span<const int> counts) {
  if (all_equal(counts)) return communicator_.reduce_scatter(queue(), data, own);
  GpuGroup group{communicator_};
  for_chunks(data, counts,
             [&](int member, View chunk) { communicator_.reduce(queue(), chunk, member); });
  group.submit();
}

void NcclCollectives::all_gather(View data, std::span<const int> counts) {
  if (all_equal(counts)) return communicator_.all_gather(queue(), data);
  GpuGroup group{communicator_};
  for_chunks(data, counts,
             [&](int member, View chunk) { communicator_.broadcast(queue(), chunk, member); });
  group.submit();
}

void NcclCollectives::gather(View data, std::span<const int> counts, int root) {
  const int self = communicator_.rank();
  GpuGroup group{communicator_};
  for_chunks(data, counts, [&](int member, View chunk) {
    if (member == root) return;
    if (self == root) communicator_.receive(queue(), chunk, member);
    if (self == member) communicator_.send(queue(), chunk, root);
  });
  group.submit();
}

void NcclCollectives::all_to_all(View out, std::span<const int> send_counts, View in,
                                 std::span<const int> receive_counts) {
  const int self = communicator_.rank();
  View mine;
  GpuGroup group{communicator_};
  for_chunks(out, send_counts, [&](int member, View chunk) {
    if (member == self)
      mine = chunk;
    else
      communicator_.send(queue(), chunk, member);
  });
  View stays;
  for_chunks(in, receive_counts, [&](int member, View chunk) {
    if (member == self)
      stays = chunk;
    else
      communicator_.receive(queue(), chunk, member);
  });
  group.submit();
  if (mine && mine.data != stays.data)
    gpu_queue_.gpu().copy(queue(), stays.data, mine.data, mine.bytes());
}

// NCCL has no barrier, but an all-reduce serves as one, because no member can obtain the sum before
// every member has contributed.
void NcclCollectives::barrier() {
  void* word = gpu_queue_.gpu().allocate(sizeof(float), queue());
  communicator_.all_reduce(queue(), View{word, {1}, DType::i32});
  gpu_queue_.gpu().release(word, queue());
}

}  // namespace lockstep
