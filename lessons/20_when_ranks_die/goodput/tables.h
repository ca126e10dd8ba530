#pragma once

#include "lessons/20_when_ranks_die/goodput/request.h"

namespace lockstep {

/// Prints the goodput at several numbers of ranks, each at three intervals. Writes the report.
void print_ranks(const GoodputRequest& request);

/// Prints the goodput at one number of ranks and several intervals, and where the time goes. Writes
/// the report.
void print_intervals(const GoodputRequest& request);

/// Prints all strategies at one number of ranks. Writes the report.
void print_strategies(const GoodputRequest& request);

}  // namespace lockstep
