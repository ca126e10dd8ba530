#include "viz/data/lab/lesson_program.h"

#include <unistd.h>

#include <algorithm>

namespace lockstep::viz {

std::string LessonProgram::number() const {
  return std::string{std::string_view{name_}.substr(name_.starts_with('0') ? 1 : 0,
                                                    name_.starts_with('0') ? 1 : 2)};
}

std::vector<LessonProgram> find_lessons() {
  namespace fs = std::filesystem;
  constexpr std::string_view prefix = "lesson_";
  std::vector<LessonProgram> found;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return found;
  const fs::path folder = self.parent_path().parent_path() / "lessons";
  for (fs::directory_iterator each{folder, error}, end; !error && each != end;
       each.increment(error)) {
    const std::string file = each->path().filename().string();
    if (!file.starts_with(prefix) || file.find("-what_if") != std::string::npos) continue;
    const std::string name = file.substr(prefix.size());
    const bool plain = name.size() > 3 && name[2] == '_' && std::ranges::all_of(name, [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
                       });
    std::error_code ignored;
    if (plain && each->symlink_status(ignored).type() == fs::file_type::regular &&
        ::access(each->path().c_str(), X_OK) == 0)
      found.push_back({name, each->path()});
  }
  std::ranges::sort(found, {}, &LessonProgram::name);
  return found;
}

std::optional<LessonProgram> find_lesson(std::string_view name) {
  for (LessonProgram& each : find_lessons())
    if (each.name() == name) return std::move(each);
  return std::nullopt;
}

}  // namespace lockstep::viz
