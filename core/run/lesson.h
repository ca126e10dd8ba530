#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/gpt.h"
#include "core/run/bare_lesson.h"

namespace lockstep {

/// What Lesson gives to its run. Tests of the flags need it, too.
extern const Training model_training;

/// The framework of a lesson that trains: besides the BareLesson's parts, checkpoints, and at the
/// end the comparison with one device and a line that the trained model generates.
///
///   int main(int argc, char** argv) {
///     Lesson lesson{{.name = "09 1F1B", .question = "..."}, argc, argv};
///     return lesson.run([&](Rank& rank) { ... });   // once per rank
///   }
class Lesson : public BareLesson {
 public:
  Lesson(LessonInfo info, int argc, char** argv);

  // For use in the body.

  const AdamWOptions& optimizer() const { return options_->plan.optimizer; }

  /// Every rank must call this once before it trains. With --load, replaces the values of
  /// `parameters` (or slices of them) with the checkpoint's. If the checkpoint has optimizer state,
  /// restores that too, so that training resumes on any number of ranks.
  void load(Rank& rank, const std::vector<Parameter*>& parameters, AdamW& optimizer);
  /// Records the step's loss; a rank that does not know the loss passes nothing. If there are
  /// several replicas, each passes its share; the shares add up to the batch's mean.
  void record_loss(const Rank& rank, std::optional<double> loss);
  /// Every rank must call this once, with the parameters (or slices) that it trained and their
  /// optimizer. Saves and exports them, as --save and --export specify, and collects them for the
  /// comparison with a single-device run.
  void finish(Rank& rank, const std::vector<Parameter*>& parameters, const AdamW& optimizer);
};

}  // namespace lockstep
