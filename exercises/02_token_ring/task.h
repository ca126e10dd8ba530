#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Passes a token once around the ring of ranks. Rank 0 has the token, a number. It sends the token
/// to rank 1. Each rank that receives the token from its left neighbour (the rank before it, modulo
/// the number of ranks) adds `mine` to it, and sends it to its right neighbour. The journey ends
/// when rank 0 has received the token again and added its own `mine`.
///
/// Called on every rank. `token` counts only on rank 0. Returns the token as it was on this rank
/// after the addition. With a single rank, the token does not travel.
float pass_token(World& world, float token, float mine);

}  // namespace lockstep::exercises
