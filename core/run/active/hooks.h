#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/operations/run_operations.h"
#include "core/plan/plan.h"
#include "core/run/options/options.h"

namespace lockstep {

class ModelBuilder;
struct Reference;
struct ReferenceRun;

/// What a lesson replaces in a run, or adds to it. An empty function keeps the default.
struct Hooks {
  /// Run once the flags are parsed; they throw UsageError if the flags are invalid.
  std::vector<std::function<void(const Options&)>> checks;
  /// Returns the builder of a model other than the plain one, which the ranks, the single-device
  /// reference and sampling then use. Called after the checks.
  std::function<std::shared_ptr<const ModelBuilder>(const Options&)> build;
  /// Returns Plan::rank_of_stage for a pipeline whose ranks may hold several stages; otherwise,
  /// stage i is on rank i of the pipeline. Called after the flags are parsed.
  std::function<std::vector<int>(const Options&)> place_stages;
  /// Divides the run's work among ranks in another way: by the mesh's order, the placement and
  /// split of stages, and the replicas' shares. Called after the model is set; the result is
  /// validated.
  std::function<Plan(const Plan&)> divide_work;
  /// Flags whose effect depends on the modelled times, so that another cluster might lead to
  /// another choice: "--schedule automatic". Checks and place_stages may add to them.
  std::vector<std::string> chosen_by_time;
  /// The lesson's own comparison with the single-device run, for differences that losses and
  /// parameters may hide, such as a router's choices. Called on rank 0's process as soon as the
  /// single-device run is over (never if there is none). Returns one line, or nothing if the runs
  /// agree. A difference fails the parity check.
  std::function<std::string()> compare;
  /// Replaces the run on one device with which losses and parameters are compared, for a lesson
  /// whose ranks do not train as one device does. (Reference and ReferenceRun are in
  /// core/run/reference/parity.h.)
  struct {
    std::string name;  ///< in the report: "its workers on one device"
    /// Called on rank 0's process after the run. If it returns nothing, the comparison is with
    /// ordinary training on one device.
    std::function<std::optional<Reference>(const ReferenceRun&)> train;
  } reference;
  /// A run that differs from this one in one thing. At the end of a run on the modelled clock, the
  /// report says how long this step would take there.
  struct AlternativeRun {
    std::string what;  ///< "equally many tokens for every expert"
    /// Returns its operations up to this run's last step (record_dry_run), or none if there is no
    /// such run.
    std::function<RunOperations(const Options&)> record;
  };
  std::vector<AlternativeRun> alternatives;
  /// Adds to the line that reports a failed run: returns text that begins with "; ", or nothing.
  /// Under mpirun, it runs in the process that started the ranks.
  std::function<std::string()> advise;
};

}  // namespace lockstep
