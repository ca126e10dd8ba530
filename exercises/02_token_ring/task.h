#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Passes a token once around the ring of ranks. At first, rank 0 has the token, which is a number.
/// It sends the token to rank 1. Each rank that receives the token from its left neighbour (the
/// rank before it, modulo the number of ranks) adds `mine` to it, and sends it to its right
/// neighbour. The journey ends when rank 0 has received the token again and added its own `mine`.
///
/// Called on every rank. `token` is used only on rank 0. Returns the token's value on this rank
/// after the addition of `mine`. Only the token travels: each rank sends one message of one number.
/// With a single rank, the token does not travel.
float pass_token(World& world, float token, float mine);

}  // namespace lockstep::exercises
