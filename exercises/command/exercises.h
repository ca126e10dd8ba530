#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "exercises/command/progress.h"

namespace lockstep::exercises {

/// Thrown when the user requests something impossible; the program exits with code 2. (Not core's
/// UsageError: this program is built within seconds, without core.)
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An exercise: the folder exercises/NN_name of the source tree.
struct Exercise {
  std::filesystem::path folder;
  std::string lesson{};  ///< that it belongs to, such as 00_ranks; "" if the course does not say

  std::string name() const { return folder.filename(); }  ///< 02_token_ring
  std::string number() const { return name().substr(0, 2); }
  std::string title() const;  ///< the heading of its page
  std::filesystem::path answer() const { return folder / "answer.cpp"; }
  /// answer() as messages name it: exercises/02_token_ring/answer.cpp.
  std::string file(const std::string& name) const;
  bool is_untouched() const;       ///< whether the answer is still the stub
  bool is_program() const;         ///< whether the stub is a program with a bug to be found
  std::string hint(int n) const;   ///< 1, 2 or 3
  std::string in_pytorch() const;  ///< what its page says of PyTorch; "" if nothing
  /// How long its check may take. More than the usual 10 if check.cpp begins with "// This check
  /// may take 300 seconds."
  int seconds() const;
  /// Replaces the answer with the stub.
  void reset() const;
};

/// All exercises of a source tree in the order of the course (lessons/course.txt), then those that
/// the course does not name; and the learner's progress.
class Exercises {
 public:
  explicit Exercises(const std::filesystem::path& root);

  const std::vector<Exercise>& all() const { return all_; }
  /// The exercise called 2, 02, token_ring or 02_token_ring. Throws Refusal.
  const Exercise& named(const std::string& name, const std::string& command) const;
  /// The first that is not solved; null if all are.
  const Exercise* next() const;
  std::size_t solved() const;  ///< how many are

  Record record(const Exercise& exercise) const { return progress_.of(exercise.name()); }
  bool is_solved(const Exercise& exercise) const { return record(exercise).is_solved(); }
  void set_record(const Exercise& exercise, const Record& record) const {
    progress_.set(exercise.name(), record);
  }

 private:
  Progress progress_;
  std::vector<Exercise> all_;
};

/// A file's content; "" if it can't be read.
std::string content_of(const std::filesystem::path& file);
/// `text` with ASCII letters in lower case.
std::string lower(std::string text);

}  // namespace lockstep::exercises
