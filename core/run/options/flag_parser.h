#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/run/options/lesson_info.h"
#include "core/run/options/options.h"

namespace lockstep {

/// Parses a lesson's own flags and the shared flags.
class FlagParser {
 public:
  explicit FlagParser(const LessonInfo& info);
  ~FlagParser();

  /// Adds a lesson-specific flag; `value` holds the default, and is overwritten with the user's
  /// value.
  void add(const std::string& name, int& value, const std::string& help);
  void add(const std::string& name, std::int64_t& value, const std::string& help);
  void add(const std::string& name, double& value, const std::string& help);
  void add(const std::string& name, std::string& value, const std::string& help);
  /// A flag that takes no value: it is present or absent.
  void add(const std::string& name, bool& value, const std::string& help);
  /// A flag that takes a list of whole numbers of at least 0, such as 0,1,2.
  void add(const std::string& name, std::vector<int>& value, const std::string& help);
  /// A flag that takes one of several words.
  void add(const std::string& name, std::string& value, const std::vector<std::string>& words,
           const std::string& help);

  /// Throws UsageError for invalid or impossible values. For --help, prints the flags that matter
  /// most, for --help all every flag, and returns null; with --needs, it prints "help". For
  /// --declare, prints declared_flags() and returns null.
  std::unique_ptr<Options> parse(int argc, const char* const* argv);
  /// CommandLine::with_origins()
  std::string with_origins(const std::string& refusal) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
