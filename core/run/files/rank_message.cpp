#include "core/run/files/rank_message.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <sstream>

#include "core/base/printable.h"

namespace lockstep {

namespace {

constexpr const char* mark = "\x1elockstep\t";
constexpr char line_break = '\x1f';  // stands for a newline within the message
/// Indents all lines except the first by four spaces.
std::string indented(const std::string& lines) {
  std::string text;
  for (const char c : lines) text += c == '\n' ? std::string{"\n    "} : std::string{c};
  return text;
}

constexpr const char* kinds[] = {
    "location", "usage_error",   "failure",     "last_operations", "already_reported",
    "busy",     "trace_warning", "trace_ended", "ready",           "interrupted"};

}  // namespace

const char* const messages_variable = "LOCKSTEP_REPORTS";

std::string RankMessage::to_line() const {
  std::string line = fmt::format("{}{}\t{}\t{}\t", mark, kinds[static_cast<int>(kind)], rank, host);
  std::string rest = text;
  std::replace(rest.begin(), rest.end(), '\n', line_break);
  const std::size_t room = PIPE_BUF - line.size() - 1;
  // Keep the end of a list of operations, which contains the newest one, but the beginning of an
  // error message, which contains the cause.
  if (rest.size() > room)
    rest = kind == Kind::last_operations ? rest.substr(rest.size() - room) : rest.substr(0, room);
  return line + rest + "\n";
}

std::optional<RankMessage> RankMessage::from_line(const std::string& line) {
  // The mark may come after an unfinished line of the rank's own output.
  const auto at = line.find(mark);
  if (at == std::string::npos) return {};
  std::istringstream words{line.substr(at + std::string{mark}.size())};
  std::string kind, rank;
  RankMessage message;
  if (!std::getline(words, kind, '\t') || !std::getline(words, rank, '\t') ||
      !std::getline(words, message.host, '\t'))
    return {};
  const auto* found = std::find(std::begin(kinds), std::end(kinds), kind);
  if (found == std::end(kinds)) return {};
  message.kind = static_cast<Kind>(found - std::begin(kinds));
  message.rank = std::atoi(rank.c_str());
  std::getline(words, message.text);
  std::replace(message.text.begin(), message.text.end(), line_break, '\n');
  return message;
}

std::string RankMessage::shown() const {
  // It may quote a file or an exception.
  const std::string safe = kind == Kind::usage_error ? one_line(text) : printable(text);
  switch (kind) {
    case Kind::location:
    case Kind::already_reported:
    case Kind::trace_ended:
    case Kind::ready:
      return "";
    case Kind::usage_error:
    case Kind::busy:
    case Kind::trace_warning:
    case Kind::interrupted:
      return safe + "\n";
    case Kind::failure:
      return fmt::format("the run failed: rank {} on {}: {}\n", rank, host, safe);
    case Kind::last_operations:
      return fmt::format("the last operations of rank {} on {} when the run ended:\n    {}\n", rank,
                         host, indented(safe));
  }
  return "";
}

void write_message(const RankMessage& message) {
  const std::string words = messages_are_collected() ? message.to_line() : message.shown();
  // Makes a single write that bypasses stdio, because another thread of this process may hold
  // stdio's lock.
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, words.data(), words.size());
}

void collect_messages() {
  ::setenv(messages_variable, "1", 1);
}
bool messages_are_collected() {
  return std::getenv(messages_variable) != nullptr;
}

std::string shown_operations(const std::string& who, const std::string& lines) {
  if (lines.empty()) return fmt::format("  {}: nothing yet\n", who);
  return fmt::format("  {}:\n    {}\n", who, indented(lines));
}

std::string with_epilogue(const std::string& cause, const std::string& epilogue) {
  if (cause.find('\n') == std::string::npos || !epilogue.starts_with("; ")) return cause + epilogue;
  return cause + "\n" + epilogue.substr(2);
}

std::string last_operations(const Recorder& trace) {
  return fmt::format("{}", fmt::join(trace.last_operations(operations_shown), "\n"));
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const std::string host = name;
  return host.substr(0, host.find('.'));
}

}  // namespace lockstep
