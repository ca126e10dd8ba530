#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep {

/// The token that the viewer and the ranks of a run share. Anyone can list this machine's processes
/// and their arguments, so the token reaches ranks by this environment variable.
inline constexpr const char* token_variable = "LOCKSTEP_VIEW_TOKEN";

/// Returns the token that a program was given: `value` of `flag`, or the first line of `file`, or
/// the environment's; empty if there is none. Throws UsageError if both flags were given, or if the
/// file has no token or other users can read it.
std::string find_token(const std::string& flag, const std::string& value,
                       const std::string& file_flag, const std::string& file);

/// Overwrites the value of `flag` in a program's arguments, so that the system does not list it.
void hide_value(const std::string& flag, int argc, char** argv);

/// Returns the arguments after the program's name, without these flags and their values.
std::vector<std::string> arguments_without(std::initializer_list<const char*> flags, int argc,
                                           const char* const* argv);

}  // namespace lockstep
