#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::viz {

/// The program of a lesson. Only find_lessons() makes one, so the viewer starts no program except
/// the lessons that were built together with it.
class LessonProgram {
 public:
  const std::string& name() const { return name_; }  ///< "09_1f1b"
  /// Returns the number, as ./lockstep takes it: "9".
  std::string number() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  friend std::vector<LessonProgram> find_lessons();
  LessonProgram(std::string name, std::filesystem::path path)
      : name_(std::move(name)), path_(std::move(path)) {}

  std::string name_;
  std::filesystem::path path_;
};

/// Returns the lessons built beside this program, in the folder `lessons` next to the program's own
/// folder, by name. Symbolic links and what-ifs are left out.
std::vector<LessonProgram> find_lessons();
/// Returns the lesson with this name, or nothing if it is not built.
std::optional<LessonProgram> find_lesson(std::string_view name);

}  // namespace lockstep::viz
