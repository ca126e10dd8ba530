#pragma once

#include <cstdint>

namespace emulator {

/// The requests of the host to all GPUs of the process so far. Each of these calls takes host time,
/// and after a wait the GPU is idle until the host launches more work.
struct Counts {
  std::int64_t kernels = 0;
  std::int64_t products = 0;  ///< cublasLtMatmul
  std::int64_t memsets = 0;
  std::int64_t allocations = 0;      ///< of GPU memory
  std::int64_t device_copies = 0;    ///< between addresses on GPUs
  std::int64_t host_copies = 0;      ///< from or to the host
  std::int64_t pageable_copies = 0;  ///< host_copies from or to memory that is not pinned
  /// The number of times that the host waited for a GPU: synchronizations, copies that block, and
  /// events that had not passed when the host first queried them. (Stream::synchronise polls such
  /// an event.)
  std::int64_t waits = 0;

  friend Counts operator-(Counts a, const Counts& b) {
    a.kernels -= b.kernels;
    a.products -= b.products;
    a.memsets -= b.memsets;
    a.allocations -= b.allocations;
    a.device_copies -= b.device_copies;
    a.host_copies -= b.host_copies;
    a.pageable_copies -= b.pageable_copies;
    a.waits -= b.waits;
    return a;
  }
  friend bool operator==(const Counts&, const Counts&) = default;
};

/// The name and type of the function that the emulated library exports.
inline constexpr const char* counts_symbol = "lockstep_emulated_counts";
using ReadCounts = void(Counts*);

}  // namespace emulator
