#pragma once

#include <memory>
#include <vector>

#include "core/device/device.h"

namespace lockstep {

/// Doubles that kernels compute on the device for the host (Kernels::sums). Kernels write them one
/// after another, and the host then waits once to read all of them. These few bytes are not charged
/// to a memory category.
class DeviceNumbers {
 public:
  DeviceNumbers() = default;
  /// Creates uninitialised numbers. The device must outlive the numbers.
  DeviceNumbers(Device device, std::size_t count);

  /// Returns all numbers in the form that kernels take, (count, 2). On the meta device, the view
  /// has no memory.
  View view() const { return view_; }
  /// Returns number i in the same form, (1, 2).
  View at(std::size_t i) const;
  /// Returns the numbers that the work launched so far computes, or zeros on the meta device. Waits
  /// for the device.
  std::vector<double> read() const { return read_later().get<double>(); }
  /// Like read(), but waits only when the numbers are used; see Stream::read_later().
  LaterRead read_later() const { return compute_->read_later(view_); }

 private:
  Stream* compute_ = nullptr;
  std::shared_ptr<void> memory_;
  View view_;
};

}  // namespace lockstep
