#pragma once

#include "lessons/20_when_ranks_die/goodput/request.h"

namespace lockstep {

/// Prints what Llama 3's published failures imply: the rates, and which checkpoint and restart
/// times allow 90 % of the time to be useful.
void print_llama3();

/// Prints why 3,000 steps took 405, 818 and 930 minutes with hot spares, restarts and torchft, by
/// the model: which inputs are published, which are solved for, and what follows from them.
void print_torchpass(const GoodputRequest& request);

}  // namespace lockstep
