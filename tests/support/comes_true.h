#pragma once

#include <chrono>
#include <thread>

namespace lockstep::testing {

/// Waits up to a minute for `holds()` to return true, so that a test need not guess how long an
/// operation takes on a busy machine. Returns whether `holds()` returned true.
template <class Condition>
bool comes_true(const Condition& holds) {
  const auto enough = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (!holds()) {
    if (std::chrono::steady_clock::now() > enough) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

}  // namespace lockstep::testing
