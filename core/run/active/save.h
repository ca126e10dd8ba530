#pragma once

#include <vector>

#include "core/model/adamw.h"
#include "core/model/parameter.h"

namespace lockstep {

struct ActiveRun;
struct Output;
struct Rank;

/// Throws UsageError, naming the flag and the path, if --save or --export can't write to its path,
/// or if two outputs would.
void check_saving(const Output& output);

/// Collective: saves and exports the model that the ranks have trained, as --save and --export
/// specify. A run that ends early exports nothing. If the state is unsound (a loss or a value is
/// not a finite number), saves nothing and sets Collected::not_saved on rank 0.
void save(ActiveRun& run, Rank& rank, const std::vector<Parameter*>& parameters,
          const AdamW& optimizer);

}  // namespace lockstep
