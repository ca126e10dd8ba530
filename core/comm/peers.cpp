#include "core/comm/peers.h"

#include <cstring>

namespace lockstep {

namespace {

template <DType dtype>
void add_bytes(const Kernels& kernels, Queue queue, std::byte* into, const std::byte* from,
               std::size_t bytes) {
  const auto n = static_cast<std::int64_t>(bytes / size_of(dtype));
  const View sum{into, {n}, dtype};
  kernels.add(queue, sum, View{const_cast<std::byte*>(from), {n}, dtype}, sum);
}

/// What adds elements that arrive; Group lets only floating types through.
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

View slice(View data, std::int64_t first, std::int64_t count) {
  return data.reshaped({data.elements()}).columns(first, count);
}

View chunk_of(View data, int i, int count) {
  const std::int64_t least = data.elements() / count;
  const std::int64_t more = data.elements() % count;
  return slice(data, i * least + std::min<std::int64_t>(i, more), least + (i < more ? 1 : 0));
}

Work Peers::start_send(View out, int to) {
  return channel_.send(out, place_.ranks[static_cast<std::size_t>(to)], now(), part_);
}

Work Peers::start_receive(View in, int from, Combine combine) {
  return channel_.receive(in, place_.ranks[static_cast<std::size_t>(from)], part_, combine, now());
}

Picoseconds Peers::finish(Work work) const {
  const Event done = work.finish();
  if (lane_ != nullptr) lane_->wait(done);
  return done.time;
}

void Peers::sent(Work work) {
  end_ = std::max(end_, finish(std::move(work)));
}

void Peers::received(Work work) {
  ready_ = std::max(ready_, finish(std::move(work)));
}

void Peers::send(View out, int to) {
  sent(start_send(out, to));
}

void Peers::receive(View in, int from) {
  received(start_receive(in, from));
}

void Peers::receive_add(View sum, int from) {
  if (channel_.endpoint().transport.combines())
    return received(start_receive(sum, from, adds(sum.dtype)));
  const View in = slice(scratch_, 0, sum.elements());
  received(start_receive(in, from));
  add(in, sum);
}

void Peers::exchange(View out, int to, View in, int from) {
  Work going = start_send(out, to);
  Work coming = start_receive(in, from);
  received(std::move(coming));
  sent(std::move(going));
}

void Peers::exchange_add(View out, int to, View sum, int from) {
  Work going = start_send(out, to);
  // What is still being sent must not change under the receiver's eyes.
  const bool apart = out.data != sum.data;
  if (apart && channel_.endpoint().transport.combines()) {
    received(start_receive(sum, from, adds(sum.dtype)));
    return sent(std::move(going));
  }
  const View in = slice(scratch_, 0, sum.elements());
  received(start_receive(in, from));
  if (apart) add(in, sum);
  sent(std::move(going));
  if (!apart) add(in, sum);
}

void Peers::add(View in, View sum) const {
  if (sum.data == nullptr) return;  // the meta device
  channel_.endpoint().device.compute.kernels().add(queue(), sum, in, sum);
}

void Peers::copy(View from, View into) const {
  if (from.data == nullptr || into.data == nullptr || from.data == into.data) return;
  if (lane_ != nullptr)
    lane_->gpu().copy(queue(), into.data, from.data, from.bytes());
  else
    std::memmove(into.data, from.data, from.bytes());
}

}  // namespace lockstep
