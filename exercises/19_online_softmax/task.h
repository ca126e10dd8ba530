#pragma once

#include <cmath>
#include <limits>

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Merges the attention of one query to two sets of keys that have no key in common.
///
/// `y` is the attention to the first set: the mean of the values, weighted with the softmax of the
/// first set's scores. `lse` is the log-sum-exp of these scores, log Σ exp(score). `y_part`, with
/// as many numbers as y, and `lse_part` are the same for the second set. On return, `y` and `lse`
/// are the result for both sets together.
///
/// If a set has no keys, its y is all 0 and its lse is -infinity, log 0; the result is then that of
/// the other set. Scores may be in the thousands, positive or negative, but in f32, exp(score) is
/// infinity for scores above about 88 and 0 for scores below about -104.
void merge(std::span<float> y, float& lse, std::span<const float> y_part, float lse_part);

}  // namespace lockstep::exercises
