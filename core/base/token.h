#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep {

/// The environment variable in which ranks receive the token that they share with the viewer. (Any
/// user of the machine can list processes and their arguments, so an argument would not be secret.)
inline constexpr const char* token_variable = "LOCKSTEP_VIEW_TOKEN";

/// Returns the token passed to a program: `value` (of `flag`), the first line of `file`, or the
/// environment variable's value. Returns "" if there is none. Throws UsageError if both flags were
/// given, or if the file has no token or other users can read it.
std::string find_token(const std::string& flag, const std::string& value,
                       const std::string& file_flag, const std::string& file);

/// Overwrites the value of `flag` in a program's arguments, so that tools such as ps do not show
/// it.
void hide_value(const std::string& flag, int argc, char** argv);

/// Returns the arguments after the program's name, except `flags` and their values.
std::vector<std::string> arguments_without(std::initializer_list<const char*> flags, int argc,
                                           const char* const* argv);

}  // namespace lockstep
