#pragma once

#include <cstdint>
#include <string>

#include "core/plan/model_description.h"

namespace lockstep {

struct ActiveRun;
struct Options;
struct Output;
struct RunResults;

/// What a run does only if its lesson trains a model. The run calls these functions, so that a
/// lesson that trains nothing does without the code of checkpoints and of the reference.
struct Training {
  ModelDescription (*described_model)(const std::string& load);
  void (*check_paths)(const Output& output);
  void (*check_memory)(const Options& options, std::int64_t available);
  void (*check_files)(Options& options);
  bool (*check_model)(ActiveRun& run, RunResults& results);
};

}  // namespace lockstep
