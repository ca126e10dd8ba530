#include "exercises/command/exercises.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace lockstep::exercises {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string Exercise::title() const {
  std::string line;
  std::ifstream page{folder / "README.md"};
  std::getline(page, line);
  return line.starts_with("# ") ? line.substr(2) : "";
}

std::string Exercise::file(const std::string& file_name) const {
  return fmt::format("exercises/{}/{}", name(), file_name);
}

bool Exercise::is_untouched() const {
  return content_of(answer()) == content_of(folder / "stub.cpp");
}

bool Exercise::is_program() const {
  return ("\n" + content_of(folder / "stub.cpp")).find("\n// find the bug") != std::string::npos;
}

std::string Exercise::hint(int n) const {
  std::string line, hint;
  std::ifstream hints{folder / "hints.md"};
  for (int at = 1; std::getline(hints, line);)
    if (line == "---")
      ++at;
    else if (at == n && !(hint.empty() && line.empty()))
      hint += line + "\n";
  while (hint.ends_with("\n")) hint.pop_back();
  return hint;
}

int Exercise::seconds() const {
  constexpr const char* line = "// This check may take ";
  const std::string check = content_of(folder / "check.cpp");
  constexpr int usual = 10;
  return check.starts_with(line) ? std::atoi(check.c_str() + std::strlen(line)) : usual;
}

void Exercise::reset() const {
  fs::copy_file(folder / "stub.cpp", answer(), fs::copy_options::overwrite_existing);
}

std::string Exercise::in_pytorch() const {
  constexpr const char* line_begins = "In PyTorch: ";
  std::string line;
  for (std::ifstream page{folder / "README.md"}; std::getline(page, line);)
    if (line.starts_with(line_begins)) return line.substr(std::strlen(line_begins));
  return "";
}

Exercises::Exercises(const fs::path& root) : progress_{root / "exercises" / "progress"} {
  for (const auto& entry : fs::directory_iterator{root / "exercises"})
    if (fs::exists(entry.path() / "task.h")) all_.push_back({entry.path()});
  std::ranges::sort(all_, {}, &Exercise::folder);
  // Each line of the course: a lesson, what it stands on, and its exercises.
  auto next = all_.begin();
  std::string line;
  for (std::ifstream course{root / "lessons" / "course.txt"}; std::getline(course, line);) {
    std::istringstream words{line};
    std::string lesson, stands_on, name;
    if (!(words >> lesson >> stands_on) || lesson.starts_with("#")) continue;
    while (words >> name) {
      const auto at = std::ranges::find(next, all_.end(), name, &Exercise::name);
      if (at == all_.end()) continue;
      at->lesson = lesson;
      std::rotate(next, at, at + 1);
      ++next;
    }
  }
}

bool is_called(const std::string& word, const std::string& full_name) {
  std::string wanted = lower(word);
  std::ranges::replace_if(
      wanted, [](char c) { return c == '-' || c == ' '; }, '_');
  const bool is_number =
      !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
  if (is_number) {
    wanted.erase(0, std::min(wanted.find_first_not_of('0'), wanted.size()));
    wanted.insert(0, 2 - std::min<std::size_t>(wanted.size(), 2), '0');
  }
  return full_name.size() > 3 &&
         (wanted == full_name || wanted == full_name.substr(0, 2) || wanted == full_name.substr(3));
}

const Exercise& Exercises::named(const std::string& name, const std::string& command) const {
  for (const Exercise& each : all_)
    if (is_called(name, each.name())) return each;
  throw Refusal(
      fmt::format("there is no exercise '{}'; '{} check list' shows them", name, command));
}

std::string Exercises::since(const Exercise& exercise) const {
  const Record past = record(exercise);
  if (!past.is_solved() || !fs::exists(exercise.answer())) return "";
  if (exercise.is_untouched()) return "reset since";
  const bool differs = past.right != fingerprint(content_of(exercise.answer()));
  return !past.right.empty() && differs ? "changed since" : "";
}

const Exercise* Exercises::next() const {
  for (const Exercise& each : all_)
    if (!is_solved(each)) return &each;
  return nullptr;
}

std::size_t Exercises::solved() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(all_, [this](const Exercise& each) { return is_solved(each); }));
}

}  // namespace lockstep::exercises
