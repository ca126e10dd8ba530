#pragma once

#include "core/pipeline/schedule.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Returns the actions of rank `rank` in one step, in order. The pipeline has p = `ranks` ranks
/// with v = `chunks` stages each. Stage s, from 0 to v p - 1, is on rank s mod p, so the rank has
/// the stages rank, rank + p, rank + 2 p and so on. On each of them, each of the m microbatches
/// (numbered from 0) needs its forward pass, Action{Op::forward, stage, microbatch}, and later its
/// backward pass, Action{Op::backward, stage, microbatch}. m is a multiple of p.
///
/// A forward pass waits for that of the previous stage, and a backward pass for that of the next
/// stage. (On the last stage, a microbatch's backward pass needs only its own forward pass.) A
/// forward pass takes T_F and a backward pass T_B, on every stage, and messages take no time. The
/// step must take (v m + p - 1)(T_F + T_B), whatever T_F and T_B are: no schedule is faster.
///
/// A rank holds the activations of a forward pass until the backward pass of the same microbatch
/// through the same stage ends. Rank r may hold the activations of at most
/// (v - 1) p + 2 (p - 1 - r) + 1 passes at a time, over all its stages.
std::vector<Action> interleaved(int rank, int ranks, int chunks, int microbatches);

}  // namespace lockstep::exercises
