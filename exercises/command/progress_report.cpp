#include "exercises/command/progress_report.h"

#include <fmt/format.h>

#include <filesystem>

namespace lockstep::exercises {

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

}  // namespace

std::string progress_report(const Exercises& exercises, const std::vector<std::string>& verdicts) {
  std::string text = fmt::format(
      "{{\n  \"reported_at\": {},\n  \"solved\": {},\n  \"of\": {},\n  \"exercises\": [",
      quoted(present_time()), exercises.solved(), exercises.all().size());
  for (std::size_t i = 0; i < exercises.all().size(); ++i) {
    const Exercise& each = exercises.all()[i];
    const Record record = exercises.record(each);
    const bool untouched = !std::filesystem::exists(each.answer()) || each.is_untouched();
    const char* state = record.is_solved() ? "solved" : untouched ? "not started" : "started";
    text += fmt::format(
        "{}\n    {{\"exercise\": {}, \"title\": {}, \"lesson\": {}, \"state\": \"{}\", "
        "\"attempts\": {}, \"hints\": {}, \"solved_at\": {}",
        i == 0 ? "" : ",", quoted(each.name()), quoted(each.title()), quoted(each.lesson), state,
        record.attempts, record.hints,
        record.is_solved() && record.solved_at != "before" ? quoted(record.solved_at) : "null");
    if (!verdicts.empty()) text += fmt::format(", \"verdict\": {}", quoted(verdicts[i]));
    text += "}";
  }
  return text + "\n  ]\n}\n";
}

}  // namespace lockstep::exercises
