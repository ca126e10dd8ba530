#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::exercises {

/// The static and global variables of the answer. Ranks are threads of one process, so all ranks
/// share such a variable. An answer may define constants, including constants that are computed at
/// their first use; all other variables must keep their values.
///
/// The variables are those that the program's symbol table lists between begin_of_answer.cpp and
/// end_of_answer.cpp; the answer is linked between these two. The memory that a variable points to
/// belongs to it: the elements of a std::vector, the nodes of a std::map. thread_local variables
/// are not shared, so they are left out.
class StaticData {
 public:
  /// The variables of this program.
  static StaticData& of_answer();

  /// Remembers the values of all variables.
  void remember();
  /// Returns the name of a variable that has changed since, or nothing. A variable that has been
  /// initialized since, at its first use, must not change any more from now on.
  std::optional<std::string> changed();

 private:
  struct Variable {
    std::string name;
    std::span<const unsigned char> bytes;
    const unsigned char* guard = nullptr;  ///< tells whether it is initialized; may be null
    std::vector<unsigned char> before{};
    std::uint64_t reachable = 0;  ///< a hash of the memory that it points to
    bool was_initialized = true;
  };

  StaticData();
  static void remember(Variable& variable);

  std::mutex mutex_;
  std::vector<Variable> variables_;
};

}  // namespace lockstep::exercises
