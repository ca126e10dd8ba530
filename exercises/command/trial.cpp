#include "exercises/command/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "exercises/command/processes.h"

namespace lockstep::exercises {

namespace fs = std::filesystem;

namespace {

constexpr int does_not_compile_code = 3;  // of ./lockstep build-answer

/// Deletes object files that were compiled from older content: Ninja misses a change that was saved
/// while the file was being compiled.
void forget_outdated(const Place& place, const Exercise& exercise) {
  const fs::path built = place.answers() / exercise.name();
  const std::string content = content_of(exercise.answer());
  if (fs::exists(built) && content_of(built) == content) return;
  const fs::path objects =
      place.build / "exercises" / "CMakeFiles" / fmt::format("exercise_{}.dir", exercise.name());
  if (fs::exists(objects))
    for (const auto& entry : fs::recursive_directory_iterator{objects})
      if (entry.path().filename() == "answer.cpp.o") fs::remove(entry.path());
  fs::create_directories(place.answers());
  std::ofstream{built, std::ios::binary} << content;
}

/// Shows the first two errors in the answer, each with its lines. Returns "" if there are none.
std::string own_errors(const std::string& log, const std::string& file) {
  std::istringstream lines{log};
  std::string shown;
  int errors = 0, more = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(file + ":")) {
      const auto after = line.find_first_not_of("0123456789:", file.size() + 1);
      if (line.compare(std::min(after, line.size()), 6, " error") == 0)
        more = ++errors <= 2 ? 3 : 0;
    }
    if (more-- > 0) shown += line + "\n";
  }
  return shown;
}

void show_errors(const Place& place, const Exercise& exercise) {
  const fs::path path = place.build / "build.log";
  std::string log = content_of(path);
  const std::string root = place.root.string() + "/";
  for (auto at = log.find(root); at != std::string::npos; at = log.find(root, at))
    log.erase(at, root.size());
  if (const std::string errors = own_errors(log, exercise.file("answer.cpp")); !errors.empty())
    fmt::print(stderr, "Your answer does not compile:\n{}", errors);
  else if (log.find("undefined reference") != std::string::npos)
    fmt::print(stderr,
               "Your answer compiles, but a function is missing: {} declares it, in the namespace\n"
               "lockstep::exercises, and the name and the types must be the same.\n",
               exercise.file("task.h"));
  else
    fmt::print(stderr, "Building failed; all of it is in {}\n",
               path.lexically_relative(place.root).string());
}

}  // namespace

bool Place::has_built_a_check() const {
  if (!fs::exists(build / "exercises")) return false;
  return std::ranges::any_of(fs::directory_iterator{build / "exercises"}, [](const auto& entry) {
    return entry.path().filename().string().starts_with("exercise_");
  });
}

bool build_answer(const Place& place, const Exercise& exercise, bool on_gpu) {
  forget_outdated(place, exercise);
  std::vector<std::string> words{place.lockstep(), "build-answer", exercise.name()};
  if (on_gpu) words.emplace_back("lockstep_cuda");
  const int code = run(words);
  if (code == does_not_compile_code)
    show_errors(place, exercise);
  else if (code != 0)
    std::exit(code);
  return code == 0;
}

int judge(const Place& place, const Exercise& exercise, int seconds,
          const std::vector<std::string>& flags) {
  const fs::path programs = place.build / "exercises";
  std::vector<std::string> words{
      programs / "supervise",      "--source",
      exercise.file("answer.cpp"), "--limit",
      std::to_string(seconds),     programs / ("exercise_" + exercise.name())};
  words.insert(words.end(), flags.begin(), flags.end());
  return run(words, /*to_stderr=*/true);
}

}  // namespace lockstep::exercises
