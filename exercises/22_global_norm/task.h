#pragma once

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// A rank's part of the gradient of one parameter.
struct Gradient {
  std::string name;            ///< such as "h.0.attn.c_attn.weight"
  bool divided = false;        ///< a part; the other ranks along tp have the other parts;
                               ///< if false, each of them has the same, whole gradient
  std::vector<float> numbers;  ///< a part may be empty
};

/// Returns the norm of the whole model's gradients, bitwise the same on each rank: the square root
/// of the sum of the squares of all numbers. If it is above `limit`, which is positive, multiplies
/// `gradients` by limit / norm; otherwise they remain as they are.
///
/// Called on every rank of a mesh with the axes dp, pp and tp, with this rank's gradients:
/// - along dp, all ranks have the same gradients, already averaged;
/// - along pp, each rank has a different stage, with its own parameters;
/// - along tp, the ranks have the same list of parameters: parts of those that are divided, and
///   copies of the others. The ranks send only a few single numbers, never gradients.
double clip_gradients(World& world, std::vector<Gradient>& gradients, double limit);

}  // namespace lockstep::exercises
