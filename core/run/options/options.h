#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/transport/native.h"
#include "core/plan/plan.h"
#include "core/run/options/hosts.h"
#include "core/time/clock.h"

namespace lockstep {

enum class Launch { threads, mpi };

/// The shared flags of every lesson, checked against one another.
struct Options {
  int ranks = 4;
  int dp = 1, pp = 1, cp = 1, tp = 1, ep = 1;
  std::string order = "tp,cp,dp,pp";
  Launch launch = Launch::threads;
  std::string device = "cpu";  ///< or "cuda", "meta"
  Collectives comm = Collectives::ring;
  bool comm_is_open = false;   ///< --comm auto on GPUs: see settle_on_gpus
  bool clock_is_open = false;  ///< --clock auto on GPUs: see settle_on_gpus
  Clock clock = Clock::wall();
  std::string why_this_clock;
  std::string cluster = "classroom";
  double pace = 0;
  HostChoice hosts;              ///< where mpirun starts ranks
  double patience_seconds = 60;  ///< a rank's time-out while no other rank computes

  GptConfig model;
  int steps = 30;
  int batch = 16;                    ///< sequences per step, over all ranks and microbatches
  std::vector<int> microbatches{8};  ///< m; several values are a sweep, which divides the steps
                                     ///< among them
  AdamWOptions optimizer;
  std::uint64_t seed = 1;
  std::string data;        ///< a file; empty: the default corpus
  std::string load, save;  ///< checkpoints
  int trained_steps = 0;   ///< of the loaded checkpoint; the data continue from there

  std::string trace;  ///< the run's directory; "none" for no trace
  /// No --trace was given, and the trace would be huge: see most_traced_meta_ranks.
  bool trace_left_out = false;
  bool kernels = false;  ///< trace every kernel
  std::string view;      ///< HOST:PORT of a viewer, empty for none
  std::string view_token;
  std::string report;  ///< a file for the report as JSON
  bool parity = true;
  bool tf32 = false;  ///< on GPUs: f32 matrix products round their inputs to TF32
  bool quiet = false;
  bool verbose = false;  ///< print where every rank runs

  /// Builds the model, on the ranks and elsewhere; null for plain GPT-2.
  std::shared_ptr<const ModelBuilder> builder;

  bool on_gpus() const { return device == "cuda"; }
  bool on_meta() const { return device == "meta"; }
  Mesh mesh() const { return Mesh{ranks, {tp, cp, dp, pp}, order}.with_experts(ep); }
  /// The Plan of these options.
  Plan plan() const;
  /// The same on a mesh of one rank, for the reference that the run is compared with.
  Plan plan_of_one_device() const;
};

/// How far a run may deviate from one device (core/README.md, "Parity"); by default not at all.
struct Tolerance {
  double loss = 0;       ///< relative, the largest over steps
  double parameter = 0;  ///< parity norm, the largest over tensors
  /// For a run that should train equally well, but not identically; then only this counts. Relative
  /// deviation of the mean loss over the last tenth of the steps.
  double final_loss = 0;
  bool bitwise() const { return loss == 0 && parameter == 0 && final_loss == 0; }
};

/// A lesson's name, and its own defaults for the shared flags.
struct LessonInfo {
  std::string name;      ///< "09 1F1B"
  std::string question;  ///< one line, for --help
  int ranks = 4;
  int steps = 30;
  int batch = 16;  ///< sequences per step
  std::string cluster = "classroom";
  std::vector<int> microbatches{8};
  bool sweeps = false;            ///< --microbatches takes several values, one after another
  bool freezes = false;           ///< takes --freeze
  bool narrow = false;            ///< takes --precision, so that bf16 and f16 can be selected
  std::string precision = "f32";  ///< the default of --precision
  bool f32_reference = false;     ///< one device always trains in f32: precision is the lesson
  bool trains = true;             ///< there are batches, losses and parameters to compare
  bool model = true;              ///< there is a model, with flags for its shape
  /// The mesh axes that the lesson uses. The first takes the ranks that the flags leave.
  std::vector<Axis> axes{Axis::pp};
  Tolerance tolerance{};
  /// The tolerance in 16 bits, where the order of additions matters sooner.
  Tolerance narrow_tolerance{};
};

/// Parses a lesson's own flags together with the shared ones.
class FlagParser {
 public:
  explicit FlagParser(const LessonInfo& info);
  ~FlagParser();

  /// Adds a flag of the lesson's own; `value` holds the default and receives the given value.
  void add(const std::string& name, int& value, const std::string& help);
  void add(const std::string& name, double& value, const std::string& help);
  void add(const std::string& name, std::string& value, const std::string& help);
  /// A flag without a value: present or absent.
  void add(const std::string& name, bool& value, const std::string& help);
  /// A list of whole numbers of at least 0, such as 0,1,2.
  void add(const std::string& name, std::vector<int>& value, const std::string& help);
  /// One of several words.
  void add(const std::string& name, std::string& value, const std::vector<std::string>& words,
           const std::string& help);

  /// Throws UsageError for invalid or impossible values. For --help, prints the help and returns
  /// null.
  std::unique_ptr<Options> parse(int argc, const char* const* argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The meta device models more ranks than a trace can usefully show: a ring's trace grows with the
/// square of their number. Above this number, a run writes a trace only if --trace is given.
constexpr int most_traced_meta_ranks = 64;

/// The number of cores that this process may use.
int available_cores();

/// Loads the cluster of that name or file. Throws UsageError if it has fewer than `ranks` ranks.
Cluster cluster_for(const std::string& name, int ranks);

}  // namespace lockstep
