#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::exercises {

/// `text` with every byte written as \xNN that could control a terminal: control characters, except
/// newlines and tabs, and bytes that are not UTF-8. Lines longer than 400 bytes are cut.
std::string printable(std::string_view text);

/// A program's output: its first lines, and a sanitizer's report if there is one.
class Output {
 public:
  /// `source` is the end of the answer's path in the sanitizers' reports.
  explicit Output(std::string source) : source_(std::move(source)) {}

  void take(std::string_view bytes);
  std::int64_t bytes() const { return bytes_; }
  /// The first lines, without a sanitizer's report, and the number of lines left out.
  std::string excerpt() const;
  /// The fault that a sanitizer found, and its line in the answer; "" if none.
  std::string fault() const;

 private:
  void end_line();
  void read_report();

  std::string source_;
  std::int64_t bytes_ = 0;
  std::string line_;  ///< the beginning of the current line
  std::vector<std::string> first_;
  std::int64_t left_out_ = 0;
  bool in_report_ = false;
  std::string found_, place_;
};

}  // namespace lockstep::exercises
