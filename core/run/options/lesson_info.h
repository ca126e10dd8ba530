#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/plan/mesh.h"
#include "kernels/view.h"

namespace lockstep {

struct Training;

/// How far a run may deviate from a single-device run (core/run/README.md, "Parity"); by default,
/// not at all.
struct Tolerance {
  double loss = 0;       ///< relative; the largest over all steps
  double parameter = 0;  ///< parity norm; the largest over all tensors
  /// Relative deviation of the mean loss over the last tenth of the steps. Set it for a run that
  /// should train equally well but not identically; the other two tolerances are then ignored.
  double final_loss = 0;
  bool bitwise() const { return loss == 0 && parameter == 0 && final_loss == 0; }
};

/// A lesson's name, its question, and its defaults for the shared flags. The help lists only the
/// flags that the lesson takes.
struct LessonInfo {
  std::string name;      ///< "09 1F1B"
  std::string question;  ///< one line, for --help
  int ranks = 4;
  int steps = 30;
  int batch = 16;  ///< sequences per step
  std::string cluster = "classroom";
  std::vector<int> microbatches{8};
  bool sweeps = false;           ///< --microbatches takes several values, one after another
  bool freezes = false;          ///< takes --freeze
  bool narrow = false;           ///< takes --precision, so that bf16 and f16 can be selected
  DType precision = DType::f32;  ///< the default of --precision
  bool clips = true;             ///< takes --clip
  std::string why_no_time{};     ///< why the lesson does not take --time, or empty if it does
  bool f32_reference = false;    ///< the single-device run always uses f32, to compare precisions
  /// Whether other clusters can time what a step does. Not if it depends on when ranks die.
  bool replays = true;
  /// Set by Lesson: there are batches, losses, and parameters to save and to compare.
  const Training* training = nullptr;
  bool model = true;  ///< there is a model, with flags for its shape
  /// The mesh axes that the lesson uses. The first axis takes the ranks that the flags do not
  /// assign.
  std::vector<Axis> axes{Axis::pp};
  /// The sizes of the other axes if the flags give none to any axis; an axis not listed has size 1.
  std::map<Axis, int> sizes{};
  /// Without --ep, all ranks of dp × cp divide the experts, even with tensor parallelism.
  bool experts_over_all = false;
  Tolerance tolerance{};
  /// The tolerance for runs in 16 bits, in which the order of additions matters more.
  Tolerance narrow_tolerance{};
};

}  // namespace lockstep
