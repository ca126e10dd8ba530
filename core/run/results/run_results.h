#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/operations/run_operations.h"
#include "core/plan/split_proposal.h"
#include "core/run/results/deviation.h"
#include "core/run/results/rank_results.h"

namespace lockstep {

/// The operations of a run that a lesson offers for comparison (Hooks::alternatives).
struct Alternative {
  std::string what;  ///< "equally many tokens for every expert"
  RunOperations operations;
};

/// Everything that a run knows about itself at its end, except what its trace and its operations
/// say. The run writes it to results.json in its folder; from this file, the trace and the
/// operations, the reader (viz/read) makes the report.
struct RunResults {
  std::string run;     ///< its name, as in the trace
  std::string lesson;  ///< "09 1F1B"
  /// How the run was carried out: an object of the keys of report.json from `ranks` to `config`, as
  /// JSON.
  std::string facts;
  int steps = 0;
  bool modelled = false;       ///< its times are of the modelled clock
  bool uncomputed = false;     ///< a training run on the meta device: it has no losses
  std::int64_t step_tokens{};  ///< in all sequences of a step; 0 on the meta device
  int stages = 1;  ///< of the pipeline; more than `pipeline` has ranks if they hold several
  std::vector<int> pipeline;  ///< the ranks of the first pipeline, in the order of its stages
  std::vector<int> first_microbatches;  ///< by phase: those of the first replica
  /// By phase: Predicted::propose_split's, if the simulator knows the stages' times.
  std::vector<std::optional<SplitProposal>> proposals;
  std::vector<RankResults> ranks;  ///< by rank; the file omits their parameters

  std::vector<double> losses;            ///< by step
  std::vector<double> reference_losses;  ///< those of the run that this one is compared with
  std::optional<Parity> parity;
  Tolerance tolerance;                       ///< for `parity`
  std::string compared_with = "one device";  ///< the reference's name
  /// Set if the deviation exceeds `tolerance`: whether a single-device run that adds in this
  /// run's order is bitwise identical to this run.
  std::optional<bool> same_in_order{};
  std::string difference;              ///< what the lesson's own comparison found (Hooks::compare)
  std::string dtype, reference_dtype;  ///< "f32": of this run, and of the single-device run
  std::string sample;                  ///< text that the trained model generated
  bool sample_follows_the = true;      ///< after "The "

  std::map<std::string, std::string> own;  ///< the lesson's additions to report.json: JSON by name
  std::vector<Alternative> alternatives;

  std::vector<Phase> phases() const;
  /// Wall time per step, in seconds.
  double step_seconds() const;
  /// The duration of the phase's last step on the run's clock, on the slowest rank.
  Picoseconds step_time(std::size_t phase) const;
};

/// Returns the text of results.json: {"lockstep_results":1, ...}, with times in picoseconds.
std::string text_of(const RunResults& results);
/// Reads results.json, even if Lockstep did not write it. Throws UsageError if it is missing or
/// invalid; the one-line message begins with the file. In valid results, ranks are numbered from 0
/// and have the same phases, and `pipeline` lists existing ranks.
RunResults read_results(const std::string& file);

/// Returns report.json as far as it is known without a trace: figures from the trace are null or 0.
std::string report_json(const RunResults& results);

}  // namespace lockstep
