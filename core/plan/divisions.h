#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/plan/gpt_config.h"
#include "core/plan/mesh.h"

namespace lockstep {

struct Plan;

/// A quantity that a run divides into equal parts, or into equal groups.
struct Division {
  std::string flags;       ///< the flags that determine the quantity: "--sequence 62 with --cp 4"
  std::int64_t whole = 0;  ///< 62
  std::string items;       ///< "positions"
  std::int64_t by = 1;     ///< must divide `whole`: the number of parts, or the size of a group
  std::string into;        ///< "4 equal chunks", or "equal groups of 4"
};

/// Throws UsageError if `by` does not divide `whole`: "--sequence 62 with --cp 4: 62 positions do
/// not divide into 4 equal chunks; use --sequence 60 or --sequence 64". `ways` returns the flags to
/// use instead, at least one, such as those of nearest_multiples(); `otherwise` ends the message.
void check_division(const Division& division, const std::function<std::vector<std::string>()>& ways,
                    const std::string& otherwise = {});

/// Returns `flag` with the positive multiples of `by` next to `value`: "--sequence 60",
/// "--sequence 64".
std::vector<std::string> nearest_multiples(const std::string& flag, std::int64_t by,
                                           std::int64_t value);
/// Returns `flag` with the divisors of `whole` next to `value` that are at least `least`; there may
/// be none.
std::vector<std::string> nearest_divisors(const std::string& flag, std::int64_t whole,
                                          std::int64_t value, std::int64_t least = 1);

/// Throws UsageError unless the model's heads, and its heads of keys and values, divide into equal
/// groups, one for each of the `size` ranks along `axis`, given that they are already divided into
/// `others` groups. `flags` begins the message, such as "--tp 4 with --heads 6"; `otherwise` ends
/// it, such as ", or --method ring".
void check_heads(const GptConfig& model, const std::string& flags, Axis axis, int size,
                 int others = 1, const std::string& otherwise = {});

/// Throws UsageError unless the batch divides into equal microbatches, the same number on each
/// replica or as many as its share, for each value of m.
void check_batch(const Plan& plan, const std::vector<int>& microbatches);

}  // namespace lockstep
