#pragma once

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// What a rank has of the gradient of one parameter.
struct Gradient {
  std::string name;            ///< such as "h.0.attn.c_attn.weight"
  bool divided = false;        ///< this is a part, and the ranks along tp have the others;
                               ///< otherwise each of them has the same, whole gradient
  std::vector<float> numbers;  ///< a part may be empty
};

/// Returns the norm of the gradients of the whole model, the same bits on each rank: the square root
/// of the sum of the squares of all numbers. If it is above `limit`, which is positive, multiplies
/// `gradients` by limit / norm; otherwise they remain as they are.
///
/// Called on every rank of a mesh of the axes dp, pp and tp, with this rank's gradients:
/// - along dp, all ranks have the same gradients, already averaged;
/// - along pp, each rank has another stage, with parameters of its own;
/// - along tp, the ranks have the same list of parameters: parts of those that are divided, and
///   copies of the others.
/// Only a few single numbers are sent, never gradients.
double clip_gradients(World& world, std::vector<Gradient>& gradients, double limit);

}  // namespace lockstep::exercises
