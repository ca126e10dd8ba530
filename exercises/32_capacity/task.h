#pragma once

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// The routing of one rank's T tokens. Choice j of token t is at index t k + j.
struct Routing {
  std::vector<int> experts;  ///< the expert that is chosen
  std::vector<int> slots;    ///< its row among this rank's rows for the expert; -1 if dropped
  float balance = 0;         ///< the load-balancing loss of all ranks' tokens, without coefficient
};

/// Routes this rank's T tokens to E experts. `probabilities` are a row of E numbers for each token,
/// the softmax of the router's logits. Called on every rank; T may differ between ranks and may be
/// 0, but at least one rank has tokens.
///
/// 1. Each token chooses the k experts with the largest probabilities, k <= E. Choice 0 is the
///    largest. Among equal probabilities, the expert with the smaller number comes first.
/// 2. Each expert takes at most C = capacity_factor k T / E rows from this rank, rounded up. (E is
///    a power of 2 and the factor a multiple of 1/4, so that this is exact in any order.) Choices
///    are placed one after another: choice 0 of token 0, of token 1, ... of token T - 1; then
///    choice 1 of all tokens in the same order, and so on. A choice gets the first free slot of its
///    expert, from 0 on. If all C slots are taken, the choice is dropped; the token's other choices
///    remain.
/// 3. The load-balancing loss is E Σ f_i P_i (Fedus 2021). f_i is the share of expert i in all
///    choices of all ranks, dropped or not: the f_i add up to 1. P_i is the mean of the
///    probabilities of expert i over all tokens of all ranks. Every rank returns the same loss.
///
/// All N ranks together send at most (2 E + 1) N (N - 1) numbers.
Routing route(World& world, std::span<const float> probabilities, int E, int k,
              float capacity_factor);

}  // namespace lockstep::exercises
