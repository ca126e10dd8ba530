#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::fuzz {

/// A text that is costly for a careless parser: `unit`, repeated, between `before` and `after`.
/// Each `%` in the unit stands for the repetition's number.
struct Costly {
  std::string before, unit, after;
  std::string of(std::size_t bytes) const;
};

/// A parser of files or messages that another program may have written.
struct Parser {
  std::string name;
  std::vector<std::string> seeds;  ///< valid inputs, from which mutations are made
  std::vector<std::string> words;  ///< texts to insert, besides those for all parsers
  std::vector<Costly> costly;
  std::size_t longest = std::size_t{1} << 30;  ///< longer inputs are refused at once
  /// Parses an input and uses the result. Throws UsageError or ScheduleError if it is malformed.
  std::function<void(const std::string& input)> parse;
};

/// Returns all parsers. Parsers that read files write each input to a file in `folder`.
std::vector<Parser> all_parsers(const std::string& folder);

}  // namespace lockstep::fuzz
