#include "exercises/supervise/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace lockstep::exercises {

namespace {

constexpr std::size_t most_lines = 20, longest_line = 400;

/// Returns the length of the UTF-8 character at the beginning of `text`, or 0 if there is none.
std::size_t character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (byte(i) < 0x80 || byte(i) >= 0xc0) return 0;
  return length;
}

/// Control characters are the first 32, DEL, and U+0080 to U+009F.
bool is_control(std::string_view character) {
  const auto last = static_cast<unsigned char>(character.back());
  if (character.size() == 1) return (last < 0x20 && last != '\n' && last != '\t') || last == 0x7f;
  return character.size() == 2 && character.front() == '\xc2' && last < 0xa0;
}

/// Returns the text from the end of `before` to the next character of `ends`; "" if `before` is
/// absent.
std::string_view between(std::string_view text, std::string_view before, std::string_view ends) {
  const auto at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find_first_of(ends));
}

/// Explains the address sanitizer's line "ERROR: AddressSanitizer: ...".
std::string meaning_of(const std::string& line) {
  const std::string kind{between(line, "AddressSanitizer: ", " ")};
  const std::string_view asked = between(line, "0x", " ");
  if (line.find("allocat") != std::string::npos && !asked.empty() &&
      !kind.starts_with("attempting"))
    return fmt::format(
        "asks for {:.1f} GB of memory at once, more than a check may take",
        static_cast<double>(std::strtoull(std::string{asked}.c_str(), nullptr, 16)) * 1e-9);
  if (kind == "stack-overflow")
    return "needs more memory on the stack than there is: does a function call itself without end, "
           "or is a local array too large?";
  if (kind.ends_with("-overflow") || kind.ends_with("-underflow"))
    return fmt::format("reads or writes outside a buffer ({})", kind);
  if (kind == "heap-use-after-free" || kind.starts_with("stack-use-after"))
    return fmt::format("uses memory that is no longer there ({})", kind);
  if (kind == "SEGV") return "uses an address where there is no memory";
  if (kind == "attempting")
    return line.find("double-free") != std::string::npos
               ? "frees the same memory twice"
               : "frees memory that it did not get from malloc() or new";
  return kind;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    const bool too_long = line.size() > longest_line;
    line = line.substr(0, longest_line);
    while (!line.empty()) {
      const std::size_t length = character_at(line);
      const std::string_view character = line.substr(0, std::max<std::size_t>(1, length));
      if (length == 0 || is_control(character))
        for (const char byte : character)
          shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      else
        shown += character;
      line.remove_prefix(character.size());
    }
    if (too_long) shown += "...";
    if (end < text.size()) shown += '\n';
    begin = end + 1;
  }
  return shown;
}

void Output::take(std::string_view bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    line_ += part.substr(0, longest_line + 1 - std::min(line_.size(), longest_line + 1));
    if (end == std::string_view::npos) return;
    end_line();
    bytes.remove_prefix(end + 1);
  }
}

void Output::end_line() {
  read_report();
  if (!in_report_ && first_.size() < most_lines)
    first_.push_back(line_);
  else if (!in_report_)
    ++left_out_;
  line_.clear();
}

void Output::read_report() {
  const auto undefined_at = line_.find(": runtime error: ");  // "FILE:LINE:COLUMN: runtime error: "
  const bool undefined = undefined_at != std::string::npos && undefined_at > 0 &&
                         std::isdigit(static_cast<unsigned char>(line_[undefined_at - 1])) != 0;
  const bool address = line_.find("ERROR: AddressSanitizer: ") != std::string::npos;
  // A report's first line may be "=====...", "AddressSanitizer:DEADLYSIGNAL" or
  // "==PROCESS==AddressSanitizer: ...".
  in_report_ = in_report_ || undefined || line_.starts_with("AddressSanitizer:") ||
               (line_.starts_with("==") && line_.find("AddressSanitizer: ") != std::string::npos) ||
               (line_.size() > 60 && line_.find_first_not_of('=') == std::string::npos);
  if (line_.find("hard rss limit exhausted") != std::string::npos)
    found_ = "Your answer takes more than 2 GB of memory: is there a loop that never ends?";
  else if (found_.empty() && address)
    found_ = meaning_of(line_);
  else if (found_.empty() && undefined)
    found_ = between(line_, ": runtime error: ", "\n");
  if (in_report_ && place_.empty())
    if (const auto number = between(line_, source_ + ":", ": )\n"); !number.empty())
      place_ = fmt::format("{}:{}", source_, number);
}

std::string Output::excerpt() const {
  std::vector<std::string> lines = first_;
  if (!line_.empty() && !in_report_ && lines.size() < most_lines) lines.push_back(line_);
  std::string text;
  for (const std::string& line : lines) text += "  " + printable(line) + '\n';
  if (left_out_ > 0) text += fmt::format("  ... and {} more lines\n", left_out_);
  return text;
}

std::string Output::fault() const {
  if (found_.empty() || found_.starts_with("Your")) return found_;
  return fmt::format("{}{}", place_.empty() ? "Your answer: " : place_ + ": ", found_);
}

}  // namespace lockstep::exercises
