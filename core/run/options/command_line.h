#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace lockstep {

/// Returns why it refuses a flag's value, such as "must be at least 1", or "".
using FlagCheck = std::function<std::string(const std::string&)>;
/// Accepts whole numbers of at least `least`.
FlagCheck at_least(int least);
/// Accepts numbers above 0 and, if `or_zero`, 0 itself.
FlagCheck positive(bool or_zero);
/// Accepts these words.
FlagCheck among(std::vector<std::string> words);

/// The flags of a program. An invalid flag causes a UsageError, whose one-line message names the
/// flag, its value and valid values.
struct CommandLine {
  CLI::App app;
  std::string help_all = "--help";  ///< what lists all flags

  CLI::Option* number(const std::string& flag, int& value, int least, const std::string& help);
  /// An optional number of at least 1.
  CLI::Option* number(const std::string& flag, std::optional<int>& value, const std::string& help);
  CLI::Option* word(const std::string& flag, std::string& value, const std::string& help);
  /// A flag of any type that takes only values which pass the check.
  template <class T>
  CLI::Option* checked(const std::string& flag, T& value, FlagCheck check,
                       const std::string& help) {
    return only(app.add_option(flag, value, help), std::move(check))->capture_default_str();
  }
  /// Makes the option refuse values that do not pass the check, with a UsageError.
  static CLI::Option* only(CLI::Option* option, FlagCheck check);
  /// A flag that takes one of several words.
  void choice(const std::string& flag, std::string& value, const std::vector<std::string>& words,
              const std::string& help);
  /// A flag that takes one of several words, each of which stands for a value.
  template <class T>
  requires(!std::same_as<T, std::string>) void choice(
      const std::string& flag, T& value, const std::vector<std::pair<std::string, T>>& words,
      const std::string& help) {
    std::vector<std::string> names;
    std::string otherwise;
    for (const auto& [word, meaning] : words) {
      names.push_back(word);
      if (meaning == value) otherwise = word;
    }
    const auto set = [&value, words](const std::string& given) {
      for (const auto& [word, meaning] : words)
        if (word == given) value = meaning;
    };
    one_of(names, app.add_option_function<std::string>(flag, set, help)->default_str(otherwise));
  }

  /// The words that each choice() takes, by flag.
  std::map<std::string, std::vector<std::string>> words_of{};
  /// The smallest value of each number(), by flag.
  std::map<std::string, int> least_of{};

  /// What sets flags that are not given, such as "--model llama2-70b" for --layers, by flag. Flags
  /// that are neither given nor listed here have their defaults.
  std::map<std::string, std::string> origins{};
  /// Flags that have values although the user did not give them (--defaults).
  std::set<std::string> assumed{};
  /// Returns a refusal that says which of its flags nobody gave. The flags that a refusal blames
  /// precede its first colon: "--batch 16 with --dp 3: ..." becomes "the default --batch 16 with
  /// --dp 3: ..." or, if `origins` lists a flag, "--layers 80 of --model llama2-70b: ...".
  std::string with_origins(const std::string& refusal) const;
  /// Calls `work` and returns its result. Its UsageErrors get with_origins().
  template <class Work>
  auto naming_origins(Work&& work) const {
    try {
      return work();
    } catch (const UsageError& error) {
      throw UsageError(with_origins(error.what()));
    }
  }

  /// Parses the flags, and returns false if they ask for help. Calls `then`, if given, before it
  /// refuses empty values; only the flags in `may_be_empty` accept these.
  bool parse(int argc, const char* const* argv, const std::vector<std::string>& may_be_empty = {},
             const std::function<void()>& then = {});

 private:
  void one_of(const std::vector<std::string>& words, CLI::Option* option);
};

}  // namespace lockstep
