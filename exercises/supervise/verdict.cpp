#include "exercises/supervise/verdict.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <vector>

namespace lockstep::exercises {

namespace {

std::string text_of(std::span<const char> text) {
  return {text.data(), ::strnlen(text.data(), text.size())};
}

/// How a process has ended: "ended the program with exit code 0".
std::string end_of(int status) {
  if (WIFEXITED(status))
    return fmt::format("ended the program with exit code {}", WEXITSTATUS(status));
  if (WIFSTOPPED(status))
    return fmt::format("was stopped by signal {} ({})", WSTOPSIG(status),
                       ::strsignal(WSTOPSIG(status)));
  return fmt::format("was ended by signal {} ({})", WTERMSIG(status),
                     ::strsignal(WTERMSIG(status)));
}

/// The causes of such an end: ": it calls exit() ..."; "" if the signal's name is enough.
std::string cause_of(int status) {
  if (WIFEXITED(status)) return ": it calls exit(), _exit(), quick_exit() or exec()";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
    return ": it calls abort() or std::terminate(), or nothing catches an exception, or a "
           "std::thread is destroyed before it is joined";
  return "";
}

}  // namespace

Verdict verdict_of_reports(std::span<const Report> reports, std::span<const std::uint64_t> keys,
                           Ended why, const Output& output, int seconds, std::uint64_t seed,
                           const std::string& source) {
  const Report *rejecting = nullptr, *unexpected = nullptr;
  bool has_begun = false, all_right = true, all_ended = true;
  bool after_verdict = false;  // whether the unexpected end came after this rank's verdict
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const Report& report = reports[i];
    const bool judged = report.seal == keys[i];
    if (judged && report.code != right_code &&
        (rejecting == nullptr || report.verdict_time < rejecting->verdict_time))
      rejecting = &report;
    if (report.has_ended != 0 && (!judged || report.status != 0) &&
        (unexpected == nullptr || report.end_time < unexpected->end_time)) {
      unexpected = &report;
      after_verdict = judged;
    }
    has_begun = has_begun || report.key == 0;
    all_right = all_right && judged && report.code == right_code;
    all_ended = all_ended && report.has_ended != 0;
  }
  if (rejecting != nullptr) {
    if (rejecting->code == not_written_code)
      return {not_written_code, source + " still calls not_written()."};
    return {rejecting->code, text_of(rejecting->text)};
  }

  const auto wrong = [&](const std::string& text) {
    std::string trial;
    for (const Report& report : reports)
      if (&report == unexpected || (unexpected == nullptr && trial.empty()))
        trial = text_of(report.trial);
    if (!all_right && !trial.empty())
      trial = fmt::format("\n\nIn this case: {} (the same numbers again: --seed {})", trial, seed);
    return Verdict{wrong_code, text + (all_right ? "" : trial)};
  };
  switch (why) {
    case Ended::too_late:
      return wrong(
          all_right
              ? fmt::format("All cases are right, but the program has not ended within {} seconds: "
                            "the destructor of a static object, or a function given to atexit(), "
                            "does not return.",
                            seconds)
              : fmt::format("Your answer has not returned within {} seconds: is there a loop that "
                            "never ends, or a wait for what never comes?",
                            seconds));
    case Ended::too_much_output:
      return wrong(
          fmt::format("Your answer prints more than {} MB: is there a loop that never "
                      "ends?",
                      most_output >> 20));
    case Ended::too_many_processes:
      return wrong(
          fmt::format("Your answer runs more than {} processes at a time: does a loop call "
                      "fork()?",
                      most_processes));
    case Ended::by_itself:
      break;
  }
  if (unexpected == nullptr) {
    if (all_right && all_ended) return {right_code, text_of(reports.front().text)};
    if (!has_begun) return {refused_code, "the processes of the check could not be started"};
    return wrong(
        "The processes of the check were ended from outside: does your answer kill others?");
  }
  const std::string fault = output.fault();
  // The ranks give their verdicts once all have agreed; mpirun may end some before they do.
  all_right = all_right || after_verdict;
  if (all_right)
    return wrong(fmt::format(
        "All cases are right, but then it {}{}: look at the destructors of static objects and at "
        "functions given to atexit().",
        end_of(unexpected->status), fault.empty() ? "" : " (" + fault + ")"));
  if (!fault.empty()) return wrong(fault);
  const std::string who =
      reports.size() == 1 ? "Your answer"
                          : fmt::format("Your answer, on rank {},", unexpected - reports.data());
  return wrong(fmt::format("{} {} before the check {}{}.", who, end_of(unexpected->status),
                           unexpected->key != 0 ? "began" : "was over",
                           cause_of(unexpected->status)));
}

}  // namespace lockstep::exercises
