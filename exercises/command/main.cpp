// The verb `check` of ./lockstep: shows an exercise, has the learner's answer built (by ./lockstep)
// and judged (by exercises/supervise), and records the progress. Writes only exercises/progress,
// exercises/*/answer.cpp, BUILD/answers/ and, with --view, runs/.
//
//   check_command ROOT BUILD COMMAND WORD...
//
// ROOT is the source tree, BUILD the build folder, and COMMAND is how the user calls ./lockstep;
// `./lockstep check --help` explains the words. Exit codes: 0 if the answer is right, 1 if not, 2
// for an impossible request, 130 after Ctrl-C.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "core/base/program.h"
#include "exercises/command/exercises.h"
#include "exercises/command/processes.h"
#include "exercises/command/progress_report.h"
#include "exercises/command/trial.h"
#include "exercises/frame/report.h"

using namespace lockstep::exercises;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print(stderr, "{}\n", fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// The user's request.
struct Request {
  std::string action;  ///< "check", or list, hint, watch, reset, all
  std::string name;    ///< an exercise, or words to search for; may be ""
  Words flags;         ///< for the check
  int hint = 0;        ///< 1, 2 or 3; 0 for the next one
  int seconds = 0;     ///< the check's limit is at least this
  bool on_gpu = false, views = false, reports = false;
};

constexpr int seconds_of_processes = 60;  // mpirun and GPUs take long to start

Request parse(const Words& given, const std::string& command) {
  Request request;
  Words words;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& flag = given[i];
    const auto value = [&] { return i + 1 < given.size() ? given[++i] : std::string{}; };
    const auto one_of = [&](const std::string& usual, const std::string& other) {
      const std::string word = value();
      if (word != usual && word != other)
        throw Refusal(fmt::format("{} needs {} or {}, not '{}'", flag, usual, other, word));
      if (word == usual) return false;
      request.flags.insert(request.flags.end(), {flag, word});
      request.seconds = seconds_of_processes;
      return true;
    };
    if (flag == "--seed") {
      const std::string seed = value();
      if (seed.empty() || seed.find_first_not_of("0123456789") != std::string::npos)
        throw Refusal(fmt::format("--seed needs a number, not '{}'", seed));
      request.flags.insert(request.flags.end(), {flag, seed});
    } else if (flag == "--launch") {
      one_of("threads", "mpi");
    } else if (flag == "--device") {
      request.on_gpu = one_of("cpu", "cuda");
    } else if (flag == "--view") {
      request.views = true;
    } else if (flag == "--report") {
      request.reports = true;
    } else if (flag.starts_with("-")) {
      throw Refusal(
          fmt::format("check has no flag '{}'; '{} check --help' lists them", flag, command));
    } else {
      words.push_back(flag);
    }
  }
  const auto is_any_of = [](const std::string& word, const Words& all) {
    return std::ranges::count(all, word) > 0;
  };
  if (words.size() > 1 && is_any_of(words[1], {"hint", "watch", "reset"}))  // either order
    std::swap(words[0], words[1]);
  request.action = "check";
  if (!words.empty() && is_any_of(words[0], {"list", "hint", "watch", "reset", "all"})) {
    request.action = words.front();
    words.erase(words.begin());
  }
  if (request.action == "hint" && words.size() == 2) {
    if (!is_any_of(words[1], {"1", "2", "3"}))
      throw Refusal(fmt::format("there are the hints 1, 2 and 3, not '{}'", words[1]));
    request.hint = words[1].front() - '0';
    words.pop_back();
  }
  if (words.size() > (request.action == "all" ? 0 : 1))
    throw Refusal(
        fmt::format("check takes one exercise at a time: '{} check {}'", command, words.front()));
  if (!words.empty()) request.name = words.front();
  const bool names_one =
      !request.name.empty() || is_any_of(request.action, {"hint", "watch", "reset"});
  if (request.reports && names_one)
    throw Refusal(
        fmt::format("--report covers all exercises: '{0} check --report' tells the progress, "
                    "'{0} check all --report' also checks the answers",
                    command));
  if (request.action == "reset" && request.name.empty())
    throw Refusal(fmt::format("reset needs an exercise; '{} check list' shows them", command));
  return request;
}

class Command {
 public:
  Command(Place place, Request request)
      : place_{std::move(place)}, request_{std::move(request)}, exercises_{place_.root} {}
  int run();

 private:
  int list() const;
  int hint(const Exercise& exercise) const;
  int reset(const Exercise& exercise) const;
  std::string word_for(const Exercise& exercise) const;
  void create_answers() const;
  /// Returns the code of the verdict (frame/report.h), or another one if there is no verdict: the
  /// answer is not written, or does not compile.
  int check(const Exercise& exercise) const;
  int check_and_announce(const Exercise& exercise) const;
  int check_all() const;
  int report() const;
  int watch(const Exercise& exercise) const;
  void announce_next() const;
  int show_run(const Exercise& exercise) const;

  fs::path folder_of_run(const Exercise& exercise) const {
    return place_.root / "runs" / ("exercise_" + exercise.name());
  }

  Place place_;
  Request request_;
  Exercises exercises_;
};

int Command::list() const {
  const std::string& word = request_.name;
  const auto names = [&](const Exercise& each) {
    return is_called(word, each.name()) || is_called(word, each.lesson);
  };
  const auto has = [&](const Exercise& each) {
    const std::string text = fmt::format("{} {} {}", each.name(), each.title(), each.lesson);
    return lower(text).find(lower(word)) != std::string::npos;
  };
  const bool is_name = std::ranges::any_of(exercises_.all(), names);
  bool found = false;
  std::string lesson;
  for (const Exercise& each : exercises_.all()) {
    if (!(is_name ? names(each) : has(each))) continue;
    if (each.lesson != lesson) fmt::print("{}lesson {}\n", found ? "\n" : "", each.lesson);
    lesson = each.lesson;
    const std::string since = exercises_.since(each);
    fmt::print("{} {:<27} {}{}\n", exercises_.is_solved(each) ? "✓" : " ", each.name(),
               each.title(), since.empty() ? "" : " (" + since + ")");
    found = true;
  }
  if (!found)
    throw Refusal(
        fmt::format("no exercise has '{}' in its name, title or lesson; '{} check list' shows all",
                    word, place_.command));
  return 0;
}

/// " 02", or "" for the next exercise, which every verb takes if none is named.
std::string Command::word_for(const Exercise& exercise) const {
  const Exercise* next = exercises_.next();
  return next != nullptr && next->folder == exercise.folder ? "" : " " + exercise.number();
}

/// Shows the hint that was asked for, or the next one.
int Command::hint(const Exercise& exercise) const {
  Record record = exercises_.record(exercise);
  const int n = request_.hint > 0 ? request_.hint : std::min(record.hints + 1, 3);
  if (request_.hint == 0 && record.hints >= 3)
    say("There is no fourth hint; this is the third again. '{} check hint {} 1' shows the first.",
        place_.command, exercise.number());
  record.hints = std::max(record.hints, n);
  exercises_.set_record(exercise, record);
  say("Exercise {}, hint {} of 3:\n{}", exercise.number(), n, exercise.hint(n));
  if (n < 3)
    say("  more     {} check hint{}{}", place_.command,
        n < record.hints ? fmt::format(" {} {}", exercise.number(), n + 1) : word_for(exercise),
        n == 2 ? "     (the last one is nearly the answer)" : "");
  return 0;
}

int Command::reset(const Exercise& exercise) const {
  fs::create_directories(place_.answers());
  const fs::path kept = place_.answers() / (exercise.name() + ".cpp");
  if (fs::exists(exercise.answer())) {
    fs::copy_file(exercise.answer(), kept, fs::copy_options::overwrite_existing);
    say("Your answer is kept in {} until the next reset.",
        kept.lexically_relative(place_.root).string());
  }
  exercise.reset();
  say("{} has been reset. To check it: {} check {}", exercise.file("answer.cpp"), place_.command,
      exercise.number());
  return 0;
}

/// Creates the learner's files from the stubs, all at once, so that CMake configures the build only
/// once more.
void Command::create_answers() const {
  bool created = false;
  for (const Exercise& each : exercises_.all()) {
    if (fs::exists(each.answer())) continue;
    each.reset();
    created = true;
  }
  if (created) say("Created exercises/*/answer.cpp, where your answers go. (Git ignores them.)");
}

int Command::check(const Exercise& exercise) const {
  const std::string& command = place_.command;
  const std::string answer = content_of(exercise.answer());
  say("Exercise {}: {}", exercise.number(), exercise.title());
  if (exercise.is_untouched()) {
    say("  read    {}", exercise.file("README.md"));
    say("  {}   {}", exercise.is_program() ? "fix  " : "write", exercise.file("answer.cpp"));
    say("  then    {0} check{1}          ({0} check hint{1}  gives the first of three hints)",
        command, word_for(exercise));
  }
  // What all checks share is built while the learner reads.
  if (!build_answer(place_, exercise, request_.on_gpu)) return 1;
  // For a program with a bug, the verdict on the stub is the learner's starting point.
  if (exercise.is_untouched() && !exercise.is_program()) {
    say("Everything is built. Write your answer, and check it with {} check{}", command,
        word_for(exercise));
    return 1;
  }
  Words flags = request_.flags;
  if (request_.views) flags.insert(flags.end(), {"--trace", folder_of_run(exercise)});
  const int seconds = std::max(exercise.seconds(), request_.seconds);
  if (seconds > seconds_of_processes)
    say("Checking. This takes about ten seconds on an idle machine, and at most {}.", seconds);
  const int code = judge(place_, exercise, seconds, flags);
  Record record = exercises_.record(exercise);
  if (code == right_code || code == wrong_code) ++record.attempts;
  if (code == right_code && !record.is_solved()) record.solved_at = present_time();
  if (code == right_code) record.right = fingerprint(answer);
  exercises_.set_record(exercise, record);
  if (code == right_code) {
    say("  solved   {} of {} exercises", exercises_.solved(), exercises_.all().size());
    say("  compare  {}", exercise.file("solution.cpp"));
    if (!exercise.lesson.empty()) say("  read     lessons/{}/README.md", exercise.lesson);
    if (!exercise.in_pytorch().empty()) say("  PyTorch  {}", exercise.in_pytorch());
  } else if (code != refused_code && code != not_written_code && code != wrong_code) {
    say("✗ The supervisor of the check has ended with exit code {}, so there is no verdict.", code);
  }
  return code;
}

int Command::check_and_announce(const Exercise& exercise) const {
  if (const int code = check(exercise); code != right_code) return code == refused_code ? code : 1;
  announce_next();
  return request_.views ? show_run(exercise) : 0;
}

int Command::check_all() const {
  std::vector<std::string> verdicts;
  for (const Exercise& each : exercises_.all()) {
    if (each.is_untouched()) {
      say("Exercise {}: not started", each.number());
      verdicts.emplace_back("not started");
    } else {
      const int code = check(each);
      verdicts.emplace_back(code == right_code   ? "right"
                            : code == wrong_code ? "wrong"
                                                 : "no verdict");
    }
  }
  const auto right = static_cast<std::size_t>(std::ranges::count(verdicts, "right"));
  say("{} of {} answers are right.", right, exercises_.all().size());
  if (request_.reports) fmt::print("{}", progress_report(exercises_, verdicts));
  return right == exercises_.all().size() ? 0 : 1;
}

int Command::report() const {
  fmt::print("{}", progress_report(exercises_));
  return 0;
}

int Command::watch(const Exercise& exercise) const {
  say("Checking {} whenever it is saved; Ctrl-C ends this.", exercise.file("answer.cpp"));
  std::optional<std::string> before;
  while (true) {
    // An editor may be replacing the file.
    if (std::string now = content_of(exercise.answer()); now != before && !now.empty()) {
      before = std::move(now);
      say("");
      if (check(exercise) == 0) break;
    }
    pause(0.3);
  }
  announce_next();
  return 0;
}

void Command::announce_next() const {
  if (const Exercise* next = exercises_.next())
    say("  next     {}: {} check", next->name(), place_.command);
  else
    say("All exercises are solved.");
}

int Command::show_run(const Exercise& exercise) const {
  const fs::path run = folder_of_run(exercise);
  const std::string shown = run.lexically_relative(place_.root).string();
  if (!fs::exists(run / "rank0.json")) {
    say("  This exercise has no run to show.");
  } else if (std::getenv("DISPLAY") != nullptr || std::getenv("WAYLAND_DISPLAY") != nullptr) {
    return become({place_.lockstep(), "view", run});
  } else {
    say("  view     {0}: there is no display here. '{1} view {0} --screenshot FILE' takes a\n"
        "           picture, and https://ui.perfetto.dev shows the trace in a browser.",
        shown, place_.command);
  }
  return 0;
}

int Command::run() {
  if (request_.action == "list") return list();
  if (request_.reports && request_.action == "check") return report();
  if (request_.action != "hint" && request_.action != "reset") create_answers();
  if (request_.action == "all") return check_all();
  const Exercise* exercise =
      request_.name.empty() ? exercises_.next() : &exercises_.named(request_.name, place_.command);
  if (exercise == nullptr) {
    say("All exercises are solved. '{} check N' checks one again.", place_.command);
    return 0;
  }
  if (request_.action == "hint") return hint(*exercise);
  if (request_.action == "reset") return reset(*exercise);
  if (request_.action == "watch") return watch(*exercise);
  return check_and_announce(*exercise);
}

}  // namespace

int main(int count, char** given) {
  const Words words{given, given + count};
  return lockstep::run_program(
      [&] {
        if (words.size() < 4) throw Refusal("check_command ROOT BUILD COMMAND WORD...");
        watch_signals();
        const Place place{words[1], words[2], words[3]};
        return Command{place, parse({words.begin() + 4, words.end()}, place.command)}.run();
      },
      "lockstep: ");
}
