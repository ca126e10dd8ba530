#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "viz/data/window/comparison.h"
#include "viz/data/window/comparison_words.h"
#include "viz/data/window/model.h"

namespace lockstep::viz {

/// A is the first run on the command line, B the second.
enum class Side : std::size_t { a, b };
inline constexpr std::array both_sides{Side::a, Side::b};
constexpr Side other_side(Side side) {
  return side == Side::a ? Side::b : Side::a;
}

/// Two runs side by side: a step of each, aligned so that both start at the same x, and the
/// differences between the runs. The runs share the zoom, the marks, the selected range and the
/// controls: the run that the user works with leads, and the other follows. If their clocks differ,
/// both steps are equally wide.
class ComparedRuns {
 public:
  /// Both models must have been read. Compares and shows the steps that steps_to_compare() chooses.
  /// `a` must outlive this object.
  ComparedRuns(Model& a, std::unique_ptr<Model> b);

  Model& model(Side side) { return side == Side::a ? a_ : *b_; }
  const Model& model(Side side) const { return side == Side::a ? a_ : *b_; }
  Model& leader() { return model(leads_); }
  const Model& leader() const { return model(leads_); }
  Side leads() const { return leads_; }
  /// Makes this run the one that the user works with.
  void lead(Side side) { leads_ = side; }

  /// Returns whether only one run is shown at a time, rather than both with A above B.
  bool alternates() const { return alternates_; }
  bool shows(Side side) const { return !alternates_ || side == shown_; }
  void toggle_layout() { alternates_ = !alternates_; }
  /// Shows one run at a time: the one that is not shown, or B if both are.
  void exchange();

  /// The index of the compared step in the timeline's steps().
  std::size_t step(Side side) const { return steps_[index(side)]; }
  /// Moves one run, or both, to a later or earlier step, and compares and shows it.
  void go_by_steps(Side side, int by);
  void go_by_steps(int by);
  /// Compares a step, by its number.
  void choose(Side side, int step);
  /// Compares the step at `time`.
  void choose_at(Side side, double time);

  /// Advances the playback and the windows by `seconds`; the other run follows the leading one.
  void advance(double seconds, bool at_once = false);

  const Configurations& configurations() const { return configurations_; }
  const StepMetrics& metrics(Side side) const { return metrics_[index(side)]; }
  const std::vector<ComparedValue>& values() const { return values_; }
  const std::vector<ComparedRank>& ranks() const { return ranks_; }
  const std::vector<Sentence>& sentences() const { return sentences_; }
  /// A sentence that warns if times cannot be compared; otherwise "".
  const std::string& warning() const { return warning_; }
  /// Returns the time that both runs show at the same x: the start of the compared step.
  Picoseconds origin(Side side) const { return metrics(side).window.start; }

 private:
  static std::size_t index(Side side) { return static_cast<std::size_t>(side); }
  bool move(Side side, int by);
  void compare();
  void show_steps();
  void follow();

  Model& a_;
  std::unique_ptr<Model> b_;
  Side leads_ = Side::a, shown_ = Side::a;
  bool alternates_ = false;
  std::array<std::size_t, 2> steps_{};
  Configurations configurations_;
  std::array<StepMetrics, 2> metrics_;
  std::vector<ComparedValue> values_;
  std::vector<ComparedRank> ranks_;
  std::vector<Sentence> sentences_;
  std::string warning_;
};

}  // namespace lockstep::viz
