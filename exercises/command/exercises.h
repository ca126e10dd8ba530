#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "exercises/command/progress.h"

namespace lockstep::exercises {

/// Thrown when the user requests something impossible; the program exits with code 2.
using Refusal = UsageError;

/// An exercise: the folder exercises/NN_name of the source tree.
struct Exercise {
  std::filesystem::path folder;
  std::string lesson{};  ///< the lesson that it belongs to, such as 00_ranks; "" if none

  std::string name() const { return folder.filename(); }  ///< 02_token_ring
  std::string number() const { return name().substr(0, 2); }
  std::string title() const;  ///< the heading of its page
  std::filesystem::path answer() const { return folder / "answer.cpp"; }
  /// answer() as messages name it: exercises/02_token_ring/answer.cpp.
  std::string file(const std::string& name) const;
  bool is_untouched() const;       ///< whether the answer is still the stub
  bool is_program() const;         ///< whether the stub is a program with a bug to find
  std::string hint(int n) const;   ///< 1, 2 or 3
  std::string in_pytorch() const;  ///< its page's line on PyTorch; "" if it has none
  /// The time limit of its check: 10 s, unless check.cpp begins with a line such as "// This check
  /// may take 300 seconds."
  int seconds() const;
  /// Replaces the answer with the stub.
  void reset() const;
};

/// All exercises of a source tree in the order of the course (lessons/course.txt), then all others;
/// and the learner's progress.
class Exercises {
 public:
  explicit Exercises(const std::filesystem::path& root);

  const std::vector<Exercise>& all() const { return all_; }
  /// The exercise called 2, 02, token_ring or 02_token_ring. Throws Refusal.
  const Exercise& named(const std::string& name, const std::string& command) const;
  /// The first unsolved exercise; null if all are solved.
  const Exercise* next() const;
  std::size_t solved() const;  ///< the number of solved exercises

  Record record(const Exercise& exercise) const { return progress_.of(exercise.name()); }
  bool is_solved(const Exercise& exercise) const { return record(exercise).is_solved(); }
  /// What has happened to the answer since it was right: "changed since", "reset since" or "".
  std::string since(const Exercise& exercise) const;
  void set_record(const Exercise& exercise, const Record& record) const {
    progress_.set(exercise.name(), record);
  }

 private:
  Progress progress_;
  std::vector<Exercise> all_;
};

/// Whether an exercise or a lesson, such as 08_gpipe, is called 8, 08, gpipe or 08_gpipe.
bool is_called(const std::string& word, const std::string& full_name);
/// A file's content; "" if it can't be read.
std::string content_of(const std::filesystem::path& file);
/// `text` with ASCII letters in lower case.
std::string lower(std::string text);

}  // namespace lockstep::exercises
