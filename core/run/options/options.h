#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/transport/native.h"
#include "core/plan/plan.h"
#include "core/run/options/hosts.h"
#include "core/time/clock.h"

namespace lockstep {

enum class Launch { threads, mpi };

/// The data that a run trains on, its number of steps, and its starting point. The model, the batch
/// and the optimizer are in its Plan.
struct RunConfig {
  int steps = 30;
  /// All values of m, if --microbatches gives several: the steps are divided among them, and the
  /// plan uses the first. Otherwise empty.
  std::vector<int> sweep{};
  std::string data;          ///< a text, or empty for the default corpus
  std::string tokens;        ///< a file of 16-bit tokens, instead of a text
  std::string load;          ///< the checkpoint to start from
  int trained_steps = 0;     ///< steps of the loaded checkpoint; the data continues after them
  std::string loaded_state;  ///< identifies the checkpoint's state, for check_unchanged()
  /// Flags whose effect depended on the modelled times (Hooks::chosen_by_time).
  std::vector<std::string> chosen_by_time{};
  /// The flags that only this lesson has, such as "--overlap", and their values.
  std::vector<std::pair<std::string, std::string>> lesson_flags{};
};

/// How a run is carried out: where its ranks and tensors are, and how its clock runs.
struct Platform {
  Launch launch = Launch::threads;
  bool launch_is_open = false;   ///< --launch auto on GPUs: see settle_launch
  HostChoice hosts;              ///< where mpirun starts ranks
  std::string device = "cpu";    ///< or "cuda", "meta"
  bool tf32 = false;             ///< on GPUs: f32 matrix products round their inputs to TF32
  bool comm_is_open = false;     ///< --comm auto on GPUs: see settle_on_gpus
  double patience_seconds = 60;  ///< a rank's time-out while no other rank is computing

  bool clock_is_open = false;  ///< --clock auto on GPUs: see settle_on_gpus
  std::string why_this_clock;
  std::string cluster = "classroom";   ///< a preset's name or a file
  double pace = 0;                     ///< of the modelled clock; 0: as fast as possible
  std::int64_t start_nanoseconds = 0;  ///< the steady clock's reading at the run's start

  bool on_gpus() const { return device == "cuda"; }
  bool on_meta() const { return device == "meta"; }
};

/// The files and the text that a run writes.
struct Output {
  std::string trace;            ///< the run's directory; "none" for neither trace nor operations
  bool trace_left_out = false;  ///< no --trace was given, and the trace would be huge: see
                                ///< most_traced_meta_ranks
  bool kernels = false;         ///< trace every kernel
  std::string view;             ///< HOST:PORT of a viewer, empty for none
  std::string view_token;       ///< the token that the viewer requires, or empty
  bool parity = true;           ///< compare the run with a single-device run
  std::string report;           ///< a file for the report as JSON
  std::string save;             ///< where to write a checkpoint
  std::string export_to;        ///< where to write the trained model for transformers
  bool quiet = false;
  std::string detail = "summary";  ///< of the report: "brief", "summary" or "full"
  bool verbose = false;            ///< print where every rank runs, too
  bool needs_only = false;         ///< print needs_of() instead of running

  bool traced() const { return trace != "none" && !trace_left_out; }
};

/// The flags that all lessons share, checked against one another.
struct Options {
  Plan plan;
  RunConfig run;
  Platform platform;
  Output output;

  /// Returns the values of m that the run uses in turn, usually one.
  std::vector<int> microbatches() const {
    return run.sweep.empty() ? std::vector{plan.batch.microbatches} : run.sweep;
  }
  /// Returns a rank's clock, with the run's pace and start.
  Clock clock(int rank = 0) const;
};

/// The meta device models more ranks than a trace can usefully show: a ring's trace grows with the
/// square of their number. Above this number, a run writes a trace only if --trace is given.
constexpr int most_traced_meta_ranks = 64;

/// The number of cores that this process may use.
int available_cores();

/// Loads a cluster by its preset's name or from a file. Throws UsageError if it has fewer than
/// `ranks` ranks.
Cluster cluster_for(const std::string& name, int ranks);
/// Throws UsageError if the cluster has fewer than `ranks` ranks.
void check_size(const Cluster& cluster, int ranks);

/// Throws UsageError for a cluster whose ranks share links (Cluster::shared), unless all ranks are
/// threads on the CPU or the meta device: a send copies its data, because the time at which it ends
/// is not known when it is posted.
void check_shared_links(const Options& options);

}  // namespace lockstep
