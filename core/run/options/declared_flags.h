#pragma once

#include <string>

#include "core/run/options/command_line.h"

namespace lockstep {

/// Lists the flags that a program's help lists, as JSON, in the order of the help. The viewer makes
/// its controls from this list. Each flag has
///
///   flag, group, help    as in the help
///   kind                 "switch", "number" (whole), "real", "choice" or "text"
///   default              as text; "" if the program has another default, which the help explains
///   words                of a choice
///   least                the smallest value of a number, if it has one
std::string declared_flags(const CommandLine& line);

}  // namespace lockstep
