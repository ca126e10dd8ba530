#include "core/comm/channel_peers.h"

#include <cstring>
#include <stdexcept>

namespace lockstep {

namespace {

template <DType dtype>
void add_bytes(const Kernels& kernels, Queue queue, std::byte* into, const std::byte* from,
               std::size_t bytes) {
  const auto n = static_cast<std::int64_t>(bytes / size_of(dtype));
  const View sum{into, {n}, dtype};
  kernels.add(queue, sum, View{const_cast<std::byte*>(from), {n}, dtype}, sum);
}

/// Returns a function that adds arriving elements. Group admits only floating-point types.
Combine adds(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return add_bytes<DType::bf16>;
    case DType::f16:
      return add_bytes<DType::f16>;
    default:
      return add_bytes<DType::f32>;
  }
}

}  // namespace

Work ChannelPeers::start_send(View out, int to) {
  return channel_.send(out, ranks_[static_cast<std::size_t>(to)], now(), part_);
}

Work ChannelPeers::start_receive(View in, int from, Combine combine) {
  release(in);
  return channel_.receive(in, ranks_[static_cast<std::size_t>(from)], part_, combine, now());
}

Picoseconds ChannelPeers::finish(Work work) const {
  const Event done = work.finish();
  if (gpu_queue_ != nullptr) gpu_queue_->wait(done);
  return done.time;
}

void ChannelPeers::sent(Work work) {
  end_ = std::max(end_, finish(std::move(work)));
}

void ChannelPeers::leave(Work work, View out) {
  // On a GPU, the queue waits, not the host. A barrier ends only after its empty messages have been
  // received.
  if (gpu_queue_ != nullptr || out.data == nullptr) return sent(std::move(work));
  going_.push_back({std::move(work), out});
  if (going_.size() <= most_going) return;
  sent(std::move(going_.front().work));
  going_.erase(going_.begin());
}

void ChannelPeers::release(View into) {
  const auto overlaps = [&](const Going& each) {
    const auto* begin = static_cast<const std::byte*>(into.data);
    const auto* other = static_cast<const std::byte*>(each.out.data);
    return begin < other + each.out.bytes() && other < begin + into.bytes();
  };
  auto last = going_.size();
  while (last > 0 && !overlaps(going_[last - 1])) --last;
  for (std::size_t i = 0; i < last; ++i) sent(std::move(going_[i].work));
  going_.erase(going_.begin(), going_.begin() + static_cast<std::ptrdiff_t>(last));
}

Event ChannelPeers::end() {
  for (Going& each : going_) sent(std::move(each.work));
  going_.clear();
  return {std::max(ready_, end_), gpu_queue_ ? gpu_queue_->record() : nullptr};
}

void ChannelPeers::received(Work work) {
  ready_ = std::max(ready_, finish(std::move(work)));
}

void ChannelPeers::send(View out, int to) {
  sent(start_send(out, to));
}

void ChannelPeers::receive(View in, int from) {
  received(start_receive(in, from));
}

void ChannelPeers::receive_add(View sum, int from) {
  if (channel_.endpoint().transport.combines())
    return received(start_receive(sum, from, adds(sum.dtype)));
  const View in = slice(scratch_, 0, sum.elements());
  received(start_receive(in, from));
  add(in, sum);
}

void ChannelPeers::exchange(View out, int to, View in, int from) {
  Work going = start_send(out, to);
  Work coming = start_receive(in, from);
  received(std::move(coming));
  leave(std::move(going), out);
}

void ChannelPeers::exchange_add(View out, int to, View sum, int from) {
  Work going = start_send(out, to);
  // If `sum` is also the data being sent, the incoming elements must not be added to it in place.
  const bool apart = out.data != sum.data;
  if (apart && channel_.endpoint().transport.combines()) {
    received(start_receive(sum, from, adds(sum.dtype)));
    return leave(std::move(going), out);
  }
  const View in = slice(scratch_, 0, sum.elements());
  received(start_receive(in, from));
  if (!apart) {
    sent(std::move(going));
    return add(in, sum);
  }
  add(in, sum);
  leave(std::move(going), out);
}

// If a receive adds directly from the sender's buffer, it must be done before the next one starts,
// because both may add to the same elements. Other receives all start at once.
void ChannelPeers::at_once(std::span<const Transfer> transfers) {
  using Kind = Transfer::Kind;
  const bool combines = channel_.endpoint().transport.combines();
  std::vector<Work> going, coming;
  std::vector<View> outs;
  for (const auto& [kind, data, peer] : transfers) {
    if (kind != Kind::send) continue;
    going.push_back(start_send(data, peer));
    outs.push_back(data);
  }
  std::vector<std::pair<View, View>> added;  // in scratch, and the sum; empty for a plain receive
  const auto finish_receives = [&] {
    for (std::size_t i = 0; i < coming.size(); ++i) {
      received(std::move(coming[i]));
      if (added[i].second.elements() > 0) add(added[i].first, added[i].second);
    }
    coming.clear();
    added.clear();
  };
  std::int64_t used = 0;
  for (const auto& [kind, data, peer] : transfers) {
    if (kind == Kind::send) continue;
    if (kind == Kind::receive_add && combines) {
      finish_receives();
      received(start_receive(data, peer, adds(data.dtype)));
      continue;
    }
    View in = data;
    if (kind == Kind::receive_add) {
      in = slice(scratch_, used, data.elements());
      used += data.elements();
    }
    coming.push_back(start_receive(in, peer));
    added.emplace_back(in, kind == Kind::receive_add ? data : View{nullptr, {0}});
  }
  finish_receives();
  for (std::size_t i = 0; i < going.size(); ++i) leave(std::move(going[i]), outs[i]);
}

void ChannelPeers::add_in_switch(View) {
  throw std::logic_error("in_switch is a cost only: no device but meta has it");
}

void ChannelPeers::add(View in, View sum) {
  if (sum.data == nullptr) return;  // the meta device
  release(sum);
  channel_.endpoint().device.compute.kernels().add(queue(), sum, in, sum);
}

void ChannelPeers::copy(View from, View into) {
  if (from.data == nullptr || into.data == nullptr || from.data == into.data) return;
  release(into);
  if (gpu_queue_ != nullptr)
    gpu_queue_->gpu().copy(queue(), into.data, from.data, from.bytes());
  else
    std::memmove(into.data, from.data, from.bytes());
}

}  // namespace lockstep
