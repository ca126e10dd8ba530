#include "core/comm/transport/transport.h"

#include <fmt/format.h>

#include <stdexcept>

#include "core/comm/transport/native.h"

namespace lockstep {

int Transport::open_channels(int count) {
  std::lock_guard lock{account_->mutex};
  const int first = account_->next_channel;
  account_->next_channel += count;
  return first;
}

void Transport::open_group(const std::string& name) {
  std::lock_guard lock{account_->mutex};
  if (!account_->groups.insert(name).second)
    throw std::invalid_argument(fmt::format(
        "rank {} already has a group named {}; give the new group another name", rank(), name));
}

void Transport::close_group(const std::string& name) {
  std::lock_guard lock{account_->mutex};
  account_->groups.erase(name);
}

std::unique_ptr<Pending> Transport::send(const Route& route, std::span<const std::byte> data,
                                         const Event& ready) {
  if (!is_control(route.channel))
    count_sent(route.operation, static_cast<std::int64_t>(data.size()));
  return post_send(route, data, ready);
}

void Transport::connect(const std::vector<int>&, int, int) {}
void Transport::connect(int, int, Directions) {}

void Transport::use(Gpu& gpu) {
  gpu_queue_ = std::make_unique<GpuQueue>(gpu);
}

void Transport::count_on(const Transport& other) {
  account_->counts = other.account_->counts;
}

void Transport::count_sent(const char* operation, std::int64_t bytes) {
  const Operation counted_as = operation_named(operation);
  Counts& counts = *account_->counts;
  std::lock_guard lock{counts.mutex};
  counts.traffic.bytes_sent[counted_as] += bytes;
}

void Transport::count_overhead(std::int64_t bytes) {
  Counts& counts = *account_->counts;
  std::lock_guard lock{counts.mutex};
  counts.traffic.overhead_bytes += bytes;
}

void Transport::count_library_call(const char* operation) {
  const Operation counted_as = operation_named(operation);
  Counts& counts = *account_->counts;
  std::lock_guard lock{counts.mutex};
  ++counts.traffic.library_calls[counted_as];
}

Traffic Transport::traffic() const {
  Counts& counts = *account_->counts;
  std::lock_guard lock{counts.mutex};
  return counts.traffic;
}

std::unique_ptr<NativeCollectives> Transport::native(const std::vector<int>&, int) {
  return nullptr;
}

std::unique_ptr<MetaCollectives> Transport::meta_collectives(const std::vector<int>&, int,
                                                             const Cluster&) {
  throw std::logic_error("this transport does not support the meta device");
}

std::unique_ptr<SharedTime> Transport::shared_time(const Cluster&, int) {
  throw std::logic_error("this transport does not support shared links");
}

void Transport::waits_for_jobs(Transport&, std::int64_t, const Route&) {}

}  // namespace lockstep
