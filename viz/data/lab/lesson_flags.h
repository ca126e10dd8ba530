#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::viz {

/// A control for a flag that a lesson declares (core/run/options/declared_flags.h).
struct FlagControl {
  enum class Kind { on_off, number, real, choice, text };

  std::string flag;   ///< "--microbatches"
  std::string group;  ///< in the lesson's help
  std::string help;
  Kind kind = Kind::text;
  std::string standard;                ///< the default, as text; "" if the help explains it
  std::vector<std::string> choices{};  ///< of Kind::choice
  std::optional<int> least{};          ///< of Kind::number
  std::string value{};                 ///< as chosen; Kind::on_off: "true" or ""

  bool changed() const { return value != standard; }
};

/// Parses the flags that a lesson declares, with their defaults as values. Leaves out those that
/// the viewer sets itself, such as the address that the run streams to. Throws RunError if the text
/// is malformed.
std::vector<FlagControl> parse_declared_flags(const std::string& json);

/// Returns the flags whose values differ from their defaults.
std::vector<std::string> changed_flags(const std::vector<FlagControl>& controls);

/// Returns the groups of the flags, the lesson's own first and then in the order of the help.
std::vector<std::string> groups_of(const std::vector<FlagControl>& controls);

/// The name of the group of the flags that only this lesson has.
inline constexpr const char* own_group = "This lesson";

}  // namespace lockstep::viz
