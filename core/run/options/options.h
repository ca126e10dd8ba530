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

/// What every lesson can be asked for: the shared flags, checked against one another.
struct Options {
  int ranks = 4;
  int dp = 1, pp = 1, cp = 1, tp = 1, ep = 1;
  std::string order = "tp,cp,dp,pp";
  Launch launch = Launch::threads;
  std::string device = "cpu";  ///< or "cuda", "meta"
  Collectives comm = Collectives::ring;
  bool comm_is_open = false;   ///< --comm auto on GPUs: see settle_on_gpus
  bool clock_is_open = false;  ///< --clock auto there
  Clock clock = Clock::wall();
  std::string why_this_clock;
  std::string cluster = "classroom";
  double pace = 0;
  HostChoice hosts;              ///< where mpirun is to start ranks
  double patience_seconds = 60;  ///< how long a rank waits while none of the others computes

  GptConfig model;
  int steps = 30;
  int batch = 16;                    ///< sequences a step, over all ranks and microbatches
  std::vector<int> microbatches{8};  ///< m; several are a sweep, the steps divided among them
  AdamWOptions optimizer;
  std::uint64_t seed = 1;
  std::string data;        ///< a file; empty: the default corpus
  std::string load, save;  ///< checkpoints
  int trained_steps = 0;   ///< that the loaded one has behind it: the data go on from there

  std::string trace;  ///< the run's directory; "none" for no trace
  /// Nobody asked for a trace, and it would be huge: see most_traced_meta_ranks.
  bool trace_left_out = false;
  bool kernels = false;  ///< trace every kernel
  std::string view;      ///< HOST:PORT of a viewer, empty for none
  std::string view_token;
  std::string report;  ///< a file for the report as JSON
  bool parity = true;
  bool tf32 = false;  ///< on GPUs: products of f32 with inputs rounded to TF32
  bool quiet = false;
  bool verbose = false;  ///< say where every rank runs

  /// Makes the model on every rank and wherever else it is needed; null for GPT-2's own.
  std::shared_ptr<const ModelBuilder> builder;

  bool on_gpus() const { return device == "cuda"; }
  bool on_meta() const { return device == "meta"; }
  Mesh mesh() const { return Mesh{ranks, {tp, cp, dp, pp}, order}.with_experts(ep); }
  /// The Plan of these options.
  Plan plan() const;
  /// The same on a mesh of one rank: what the run is compared with.
  Plan plan_of_one_device() const;
};

/// How far from one device a run may be (core/README.md, "Parity"): not at all, unless said
/// otherwise.
struct Tolerance {
  double loss = 0;       ///< relative, the largest over steps
  double parameter = 0;  ///< parity norm, the largest over tensors
  /// For a run that is not to be the same but as good; then this alone counts. Relative, of the
  /// mean loss over the last tenth of the steps.
  double final_loss = 0;
  bool bitwise() const { return loss == 0 && parameter == 0 && final_loss == 0; }
};

/// What a lesson is called, and where its own defaults differ from the shared ones.
struct LessonInfo {
  std::string name;      ///< "09 1F1B"
  std::string question;  ///< one line, for --help
  int ranks = 4;
  int steps = 30;
  int batch = 16;  ///< sequences a step
  std::string cluster = "classroom";
  std::vector<int> microbatches{8};
  bool sweeps = false;            ///< --microbatches takes several values, one after another
  bool freezes = false;           ///< takes --freeze
  bool narrow = false;            ///< takes --precision, so that bf16 and f16 can be asked for
  std::string precision = "f32";  ///< the default of --precision
  bool f32_reference = false;  ///< one device trains in f32 all the same: precision is the lesson
  bool trains = true;          ///< there are batches, losses and parameters to compare
  bool model = true;           ///< there is a model, whose shape can be asked for
  /// The axes on which the lesson's ranks can lie. The first takes what the flags leave open.
  std::vector<Axis> axes{Axis::pp};
  Tolerance tolerance{};
  /// The same in 16 bits, where the order of additions matters sooner.
  Tolerance narrow_tolerance{};
};

/// A lesson's own flags, parsed with the shared ones.
class FlagParser {
 public:
  explicit FlagParser(const LessonInfo& info);
  ~FlagParser();

  /// A flag of the lesson's own; `value` holds the default and receives what was given.
  void add(const std::string& name, int& value, const std::string& help);
  void add(const std::string& name, double& value, const std::string& help);
  void add(const std::string& name, std::string& value, const std::string& help);
  /// One without a value: it is there, or not.
  void add(const std::string& name, bool& value, const std::string& help);
  /// Whole numbers of at least 0, such as 0,1,2.
  void add(const std::string& name, std::vector<int>& value, const std::string& help);
  /// One of several words.
  void add(const std::string& name, std::string& value, const std::vector<std::string>& words,
           const std::string& help);

  /// Throws UsageError for what can't be done. For --help prints the help and returns nothing.
  std::unique_ptr<Options> parse(int argc, const char* const* argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The meta device models more ranks than a trace is good for: that of a ring grows with the square
/// of their number. Above this number a run writes one only if it is asked to.
constexpr int most_traced_meta_ranks = 64;

/// Cores that this process may use.
int available_cores();

/// The cluster of that name or file, for that many ranks. Throws UsageError where it has fewer.
Cluster cluster_for(const std::string& name, int ranks);

}  // namespace lockstep
