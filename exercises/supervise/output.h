#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::exercises {

/// `text` with every byte written as \xNN that could control a terminal: control characters, except
/// newlines and tabs, and what is no UTF-8. Lines longer than 400 bytes are cut.
std::string printable(std::string_view text);

/// A program's output: its first lines, and a sanitizer's report among them.
class Output {
 public:
  /// `source` is how the path of the answer ends in the sanitizers' reports.
  explicit Output(std::string source) : source_(std::move(source)) {}

  void take(std::string_view bytes);
  std::int64_t bytes() const { return bytes_; }
  /// The first lines, without a sanitizer's report, and how many lines are left out.
  std::string excerpt() const;
  /// What a sanitizer has found, at which line of the answer; "" if nothing.
  std::string fault() const;

 private:
  void end_line();
  void read_report();

  std::string source_;
  std::int64_t bytes_ = 0;
  std::string line_;  ///< of the current line, as much as is kept
  std::vector<std::string> first_;
  std::int64_t left_out_ = 0;
  bool in_report_ = false;
  std::string found_, place_;
};

}  // namespace lockstep::exercises
