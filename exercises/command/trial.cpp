#include "exercises/command/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

/// Returns the line number after "FILE:" in `text`; "" if there is none.
std::string line_of(const std::string& file, const std::string& text) {
  const auto at = text.find(file + ":");
  if (at == std::string::npos) return "";
  const auto begin = at + file.size() + 1;
  return text.substr(begin, text.find_first_not_of("0123456789", begin) - begin);
}

/// Whether an "error", a "warning" or a "note" begins here: "FILE:LINE:COLUMN: error: ...".
bool begins(const std::string& kind, const std::string& line) {
  return !line.starts_with(" ") && !line_of(line.substr(0, line.find(':')), line).empty() &&
         line.find(kind + ": ") != std::string::npos;
}

/// Returns the symbol after one of these words of GNU's linker or LLVM's; "" if there is none.
std::string symbol_after(const std::string& line, std::initializer_list<std::string> words) {
  for (const std::string& word : words)
    if (const auto at = line.find(word); at != std::string::npos) {
      const std::string rest = line.substr(at + word.size());
      const bool is_quoted = rest.starts_with("`") || rest.starts_with("'");
      return is_quoted ? rest.substr(1, rest.find('\'', 1) - 1) : rest;
    }
  return "";
}

/// Whether task.h declares a function with the name of this symbol: "lockstep::exercises::f(int)".
bool is_in_task(const Exercise& exercise, const std::string& symbol) {
  const std::string head = symbol.substr(0, symbol.find('('));
  const auto before = head.find_last_of(": ");
  const std::string name = before == std::string::npos ? head : head.substr(before + 1);
  std::ifstream task{exercise.folder / "task.h"};
  for (std::string line; std::getline(task, line);)
    if (!line.starts_with("//") && (" " + line).find(" " + name + "(") != std::string::npos)
      return true;
  return false;
}

/// Explains the linker's first error, a symbol that is missing or defined twice. Returns "" if
/// there is none.
std::string linker_error(const Exercise& exercise, const std::vector<std::string>& lines) {
  const std::string file = exercise.file("answer.cpp");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string line = line_of(file, lines[i]);
    for (std::size_t j = i; line.empty() && j < std::min(i + 3, lines.size()); ++j)
      if (lines[j].starts_with(">>>")) line = line_of(file, lines[j]);  // LLVM's
    const std::string place = line.empty() ? file : file + ":" + line;
    std::string symbol = symbol_after(lines[i], {"undefined reference to ", "undefined symbol: "});
    if (!symbol.empty() && is_in_task(exercise, symbol))
      return fmt::format(
          "Your answer compiles, but it does not define a function that {} declares:\n  {}\n"
          "The namespace, the name and the types must be the same.\n",
          exercise.file("task.h"), symbol);
    if (!symbol.empty())
      return fmt::format("Your answer compiles, but it uses a name that nothing defines:\n{}: {}\n",
                         place, symbol);
    symbol = symbol_after(lines[i], {"multiple definition of ", "duplicate symbol: "});
    if (!symbol.empty())
      return fmt::format(
          "Your answer compiles, but it defines a name that Lockstep defines, too; rename yours:\n"
          "{}: {}\n",
          place, symbol);
  }
  return "";
}

/// Returns the compiler's first error with its source lines and, if it is in another file, the line
/// of the answer that led there; "" if there is none.
std::string compiler_error(const Exercise& exercise, const std::vector<std::string>& lines) {
  const std::string file = exercise.file("answer.cpp");
  const auto error =
      std::ranges::find_if(lines, [](const std::string& line) { return begins("error", line); });
  if (error == lines.end()) return "";
  const bool is_own = error->starts_with(file + ":");
  std::string text = *error + "\n";
  constexpr int most = 8;  // lines, of which the notes are only shown for an error in the answer
  for (auto next = error + 1; next != lines.end() && next - error < most; ++next) {
    if (!next->starts_with(" ") && !(is_own && begins("note", *next))) break;
    text += *next + "\n";
  }
  if (is_own) return text;

  // GCC says before the error where it comes from, and Clang after it.
  const auto is_other = [](const std::string& line) {
    return begins("error", line) || begins("warning", line);
  };
  auto first = error;
  while (first != lines.begin() && !is_other(*(first - 1))) --first;
  const auto last = std::find_if(error + 1, lines.end(), is_other);
  std::string number;
  for (const char* words : {"required from", "requested here", "from "})
    for (auto at = first; number.empty() && at != last; ++at)
      if (at->find(words) != std::string::npos) number = line_of(file, *at);
  if (number.empty()) return text;
  std::string source;
  std::ifstream answer{exercise.answer()};
  for (int i = std::atoi(number.c_str()); i > 0; --i) std::getline(answer, source);
  return text + fmt::format("This comes from {}:{}:\n{}\n", file, number, source);
}

/// Explains an error that names no line of a source. A compiler that reaches a limit of
/// ./lockstep build-answer says so, or says nothing.
std::string other_error(const std::vector<std::string>& lines) {
  const auto error = std::ranges::find_if(lines, [](const std::string& line) {
    return line.find("error: ") != std::string::npos || line.find("ERROR: ") != std::string::npos;
  });
  const bool is_limit = error == lines.end() ||
                        std::ranges::any_of(std::array{"CPU time limit", "Killed", "out of memory"},
                                            [&](const char* words) {
                                              return error->find(words) != std::string::npos;
                                            });
  if (!is_limit) return "Building your answer failed:\n" + *error + "\n";
  return "Compiling your answer takes more than 120 s of computing or 8 GB of memory: does a "
         "template\n"
         "or a constexpr function never end?\n";
}

/// Explains why the answer does not compile, from the log of its build.
void show_errors(const Place& place, const Exercise& exercise) {
  const fs::path path = place.build / "build.log";
  std::string log = content_of(path);
  const std::string root = place.root.string() + "/";
  for (auto at = log.find(root); at != std::string::npos; at = log.find(root, at))
    log.erase(at, root.size());
  std::vector<std::string> lines;
  std::istringstream stream{log};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::string text = compiler_error(exercise, lines);
  if (!text.empty()) text = "Your answer does not compile:\n" + text;
  if (text.empty()) text = linker_error(exercise, lines);
  if (text.empty()) text = other_error(lines);
  fmt::print(stderr, "{}(all messages: {})\n", text, path.lexically_relative(place.root).string());
}

}  // namespace

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
