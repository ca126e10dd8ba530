#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "viz/data/lab/lesson_flags.h"
#include "viz/data/lab/lesson_process.h"

namespace lockstep::viz {

/// Starts and stops lessons from the viewer, which shows them live. The controls are those that the
/// chosen lesson declares. Every call returns at once.
class LessonLauncher {
 public:
  /// The lessons' output goes to `folder`, which is created when needed and deleted with this
  /// object.
  explicit LessonLauncher(std::filesystem::path folder);
  ~LessonLauncher();
  LessonLauncher(const LessonLauncher&) = delete;
  LessonLauncher& operator=(const LessonLauncher&) = delete;

  const std::vector<LessonProgram>& lessons() const { return lessons_; }
  /// Chooses a lesson and asks it for its flags.
  void choose(std::size_t lesson);
  /// Chooses the lesson with this name or, if it is not built, the first.
  void choose_named(std::string_view name);
  std::optional<std::size_t> chosen() const { return chosen_; }
  /// The controls of the chosen lesson; empty until it has declared its flags.
  std::vector<FlagControl>& controls() { return controls_; }
  /// Sets all controls to their defaults.
  void reset();

  /// Starts the chosen lesson with the controls' values, streaming to the viewer at `address`. Ends
  /// a running lesson first.
  void start(const std::string& address, const std::string& token);
  /// Does what Ctrl-C does; a second call ends a lesson that is saving.
  void stop();
  bool running() const { return process_ != nullptr; }
  /// Returns whether the chosen lesson has declared its flags, or failed to.
  bool declared() const { return declares_ == nullptr; }
  /// Checks whether processes have ended. Call it once per frame. Returns whether something has
  /// changed.
  bool poll();

  /// The chosen lesson and its changed flags, as a command line for a terminal.
  std::string command() const;
  /// Describes the lesson that runs or ran last, in one line: "lesson 9 is running", "lesson 9
  /// ended with exit code 2: ...".
  const std::string& words() const { return words_; }
  /// Returns whether the last run failed.
  bool failed() const { return failed_; }
  /// The end of the last run's output.
  std::string output() const;
  pid_t process() const { return process_ ? process_->id() : -1; }

 private:
  void ask_for_flags();

  std::filesystem::path folder_;
  std::vector<LessonProgram> lessons_;
  std::optional<std::size_t> chosen_;
  std::vector<FlagControl> controls_;
  std::unique_ptr<LessonProcess> declares_;
  std::unique_ptr<LessonProcess> process_;
  std::string running_name_;
  std::string words_, output_;
  bool failed_ = false, stopped_ = false;
};

}  // namespace lockstep::viz
