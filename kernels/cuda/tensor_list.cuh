#pragma once

/// One launch over many tensors: GPT-2 has 148 parameters, and many of them are small.
///
/// The list is a parameter of the kernel, so no copy to the GPU precedes the launch. Parameters may
/// take 4 KiB; a longer list takes several launches.

#include <cstdint>
#include <limits>

namespace lockstep::cuda {

/// Up to `most` tensors, described by T, each with its own consecutive blocks of the launch.
template <class T, int most>
struct TensorList {
  T tensors[most];
  int first_block[most + 1] = {};  ///< tensor i has blocks first_block[i] to first_block[i + 1]
  int count = 0;

  /// Adds a tensor and returns true, unless the list is full.
  bool add(const T& tensor, std::int64_t blocks) {
    if (count == most || blocks > std::numeric_limits<int>::max() - first_block[count])
      return false;
    tensors[count] = tensor;
    first_block[count + 1] = first_block[count] + static_cast<int>(blocks);
    ++count;
    return true;
  }
  int blocks() const { return first_block[count]; }

  /// Returns the index of the tensor to which this block belongs: the last one whose first block is
  /// not after this block, so that tensors without elements are skipped.
  __device__ int of_block(int block) const {
    int tensor = 0;
    for (int step = most / 2; step > 0; step /= 2)
      if (tensor + step < count && first_block[tensor + step] <= block) tensor += step;
    return tensor;
  }
  static_assert((most & (most - 1)) == 0, "of_block searches in steps of powers of two");
};

}  // namespace lockstep::cuda
