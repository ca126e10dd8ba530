#include "core/comm/mpi/polling.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <thread>

#include "core/comm/mpi/environment.h"

namespace lockstep {

namespace {

/// The struct sched_attr of sched_setattr(2), in its first version. glibc declares it only since
/// version 2.41.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  ///< the time slice in nanoseconds; 0 for the kernel's default
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

/// How long a wait polls without a pause: 20 µs if each rank on this host has a core of its own,
/// otherwise 0, because the rank that it waits for may need this core.
std::chrono::microseconds spinning() {
  static const bool own_core = static_cast<unsigned>(mpi_local_size_from_environment()) <=
                               std::thread::hardware_concurrency();
  return std::chrono::microseconds{own_core ? 20 : 0};
}

}  // namespace

void wake_up_promptly() {
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0U) != 0) return;
  constexpr std::uint32_t other = 0, batch = 3;
  if (attributes.policy != other && attributes.policy != batch) return;
  attributes.runtime = 100'000;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0U);
}

double Polling::pause() {
  using namespace std::chrono;
  const auto before = steady_clock::now();
  const auto waited = before - begin_;
  if (waited < spinning()) return 0;
  std::this_thread::sleep_for(
      std::clamp<steady_clock::duration>(waited / 4, microseconds{20}, milliseconds{1}));
  return duration<double>(steady_clock::now() - before).count();
}

}  // namespace lockstep
