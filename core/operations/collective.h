#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/operation.h"
#include "kernels/view.h"

namespace lockstep {

/// An all-reduce algorithm. Each comment gives the algorithm's time for n bytes on N ranks if a
/// message of n bytes takes α + nβ (Thakur, Rabenseifner, Gropp 2005). P is the largest power of
/// two ≤ N. r is 0 if P = N. Otherwise r is 1, because N − P ranks first send their elements to a
/// partner, and receive the sums from it at the end.
enum class Algorithm : std::uint8_t {
  ring,   ///< 2(N−1)(α + ⌈n/N⌉β): fewest bytes, but 2(N−1) rounds
  naive,  ///< 2α + 2(N−1)nβ: all send to member 0, which adds, then sends the sums back
  tree,   ///< up to 2⌈log₂N⌉(α + nβ): reduces up a binomial tree, then broadcasts down it
  recursive_doubling,  ///< (log₂P + 2r)(α + nβ) at most: fewest rounds; messages are full size
  rabenseifner,  ///< 2log₂P α + 2((P−1)/P)nβ + 2r(α + nβ): recursive halving, then doubling
};
const char* name_of(Algorithm algorithm);
/// Looks up an algorithm by name; words may be separated by - or _. Throws UsageError with the list
/// of names.
Algorithm algorithm_of(const std::string& name);
constexpr Algorithm all_reduce_algorithms[] = {Algorithm::ring, Algorithm::naive, Algorithm::tree,
                                               Algorithm::recursive_doubling,
                                               Algorithm::rabenseifner};

/// One member's part in a collective, without its data: everything that decides which messages the
/// member exchanges.
struct Collective {
  Operation operation = Operation::barrier;
  Algorithm algorithm = Algorithm::ring;  ///< of an all_reduce; the others have one each
  DType dtype = DType::f32;
  int root = -1;              ///< of a broadcast or a gather: a member
  std::int64_t elements = 0;  ///< of the whole data; of an all_to_all, in `counts`
  /// Of an all_to_all: by member, the elements sent to it, then the elements received from it.
  std::vector<std::int64_t> counts{};

  bool operator==(const Collective&) const = default;
};

}  // namespace lockstep
