#pragma once

#include <cstdint>
#include <span>

#include "kernels/view.h"

namespace lockstep {

/// Whose algorithms do collectives: ours over point-to-point, or the backend's own library.
enum class Collectives { ring, native };

/// The collectives that a backend brings along (MPI's here), on contiguous f32 views (MPI has no
/// 16-bit floats), in place like Group's. Called by one agent at a time, by every member in the
/// same order; each call returns when this member's part is done. They throw RunError as the
/// backend reports errors.
class NativeCollectives {
 public:
  virtual ~NativeCollectives() = default;
  virtual void broadcast(View data, int root) = 0;
  virtual void all_reduce(View data) = 0;
  /// `counts`: elements of each member's chunk, one after another in `data`; `own` receives this
  /// member's sum.
  virtual void reduce_scatter(View data, View own, std::span<const int> counts) = 0;
  virtual void all_gather(View data, std::span<const int> counts) = 0;
  virtual void gather(View data, std::span<const int> counts, int root) = 0;
  virtual void all_to_all(View out, std::span<const int> send_counts, View in,
                          std::span<const int> receive_counts) = 0;
  virtual void barrier() = 0;
};

}  // namespace lockstep
