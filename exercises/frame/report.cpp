#include "exercises/frame/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

namespace lockstep::exercises {

Reports::Reports(int count) : descriptor_(::memfd_create("check", MFD_CLOEXEC)), count_(count) {
  if (::ftruncate(descriptor_, count * static_cast<off_t>(sizeof(Report))) != 0)
    throw std::runtime_error{fmt::format("can't create the report: {}", std::strerror(errno))};
  map();
  std::random_device random;
  for (Report& report : all())
    report.key = (std::uint64_t{random()} << 32U | random()) | 1U;  // an empty report's seal is 0
}

Reports::Reports(const std::string& path, int count)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CLOEXEC)), count_(count) {
  map();
  ::close(std::exchange(descriptor_, -1));
}

Reports::~Reports() {
  ::munmap(reports_, all().size_bytes());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Reports::map() {
  void* memory =
      ::mmap(nullptr, all().size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error{fmt::format("can't open the report: {}", std::strerror(errno))};
  reports_ = static_cast<Report*>(memory);
}

std::string Reports::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor_);
}

Reporter::Reporter(const std::string& path, int rank, int ranks) : process_(::getpid()) {
  if (path.empty()) return;
  reports_ = std::make_unique<Reports>(path, ranks);
  report_ = &reports_->all()[static_cast<std::size_t>(rank)];
  key_ = std::exchange(report_->key, 0);
}

void Reporter::try_case(const std::string& what) {
  if (report_ != nullptr && process_ == ::getpid()) put(report_->trial, what);
}

void Reporter::wait_until_all_are_stuck(int ranks, std::chrono::seconds patience) {
  if (report_ != nullptr) std::atomic_ref{report_->is_stuck}.store(1);
  const auto first =
      reports_ ? reports_->all().first(static_cast<std::size_t>(ranks)) : std::span<Report>{};
  const auto is_stuck = [](Report& each) { return std::atomic_ref{each.is_stuck}.load() != 0; };
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!std::ranges::all_of(first, is_stuck) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
}

void Reporter::give_verdict(int code, const std::string& text) {
  if (report_ == nullptr || process_ != ::getpid()) return;
  report_->code = code;
  report_->verdict_time = std::chrono::steady_clock::now().time_since_epoch().count();
  put(report_->text, text);
  std::atomic_ref{report_->seal}.store(key_, std::memory_order_release);
}

}  // namespace lockstep::exercises
