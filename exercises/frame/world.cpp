#include "exercises/frame/world.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/comm/group.h"
#include "exercises/frame/own_memory.h"
#include "exercises/frame/staging.h"

namespace lockstep::exercises {

Buffer::Buffer(RankState& rank, std::size_t numbers) : rank_(&rank), numbers_(numbers) {
  rank.held_bytes += static_cast<std::int64_t>(numbers_.size() * sizeof(float));
  if (!numbers_.empty()) rank.buffers[numbers_.data()] = numbers_.size();
  if (rank.held_bytes <= rank.peak_bytes) return;
  rank.peak_bytes = rank.held_bytes;
  rank.peak_sizes.clear();
  for (const auto& [where, size] : rank.buffers) rank.peak_sizes.push_back(size);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  rank_ = std::exchange(other.rank_, nullptr);
  numbers_ = std::exchange(other.numbers_, {});
  return *this;
}

void Buffer::reset() {
  if (rank_ != nullptr) {
    rank_->held_bytes -= static_cast<std::int64_t>(numbers_.size() * sizeof(float));
    rank_->buffers.erase(numbers_.data());
    if (std::uncaught_exceptions() == 0) rank_->in_flight.free(numbers_);
  }
  rank_ = nullptr;
  numbers_ = std::vector<float>{};  // frees the memory, so that later accesses are reported
}

void Work::wait() {
  const Uncounted uncounted;
  if (work_ != nullptr) work_->wait();
}

int World::rank() const {
  return ranks_.rank();
}
int World::size() const {
  return ranks_.size();
}

Work World::send(std::span<const float> data, int to, std::source_location where) {
  return start_on(state_, {"send", where}, {.read = data, .written = {}},
                  [&](View numbers, View) { return ranks_.send(numbers, to, where); });
}
Work World::receive(std::span<float> into, int from, std::source_location where) {
  return start_on(state_, {"receive", where}, {.read = {}, .written = into},
                  [&](View, View numbers) { return ranks_.receive(numbers, from, where); });
}

void World::compute(const std::string& name, double microseconds) {
  const Uncounted uncounted;
  state_.check_memory();
  const OutOfTurn computing{state_.turn};
  Stream& stream = state_.rank.compute;
  const double flops = microseconds * 1e-6 * stream.clock().cluster().flops;
  stream.launch({.name = stream.trace().keep(name)}, {.flops = flops},
                [](const Kernels&, Queue) {});
}

Buffer World::allocate(std::size_t numbers) {
  const Uncounted uncounted;
  return Buffer{state_, numbers};
}

World World::along(Axis axis) {
  const Uncounted uncounted;
  const OutOfTurn creating{state_.turn};
  return World{state_, state_.along(axis)};
}
int World::coordinate(Axis axis) const {
  return state_.mesh.coordinate(state_.rank.id, axis);
}
int World::size(Axis axis) const {
  return state_.mesh.size(axis);
}

}  // namespace lockstep::exercises
