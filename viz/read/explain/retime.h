#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// ./lockstep retime: times the operations of a recorded run on another cluster or with one thing
/// changed. `words` are the command line's, without the program and the verb. Returns the exit
/// code; throws UsageError.
int retime(const std::vector<std::string>& words);

}  // namespace lockstep
