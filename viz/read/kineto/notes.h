#pragma once

#include <string>
#include <vector>

#include "viz/read/kineto/import.h"

namespace lockstep::kineto {

/// Describes for the user how the ranks, clocks, matches, actions and steps of an import were
/// found, and what remains unknown: one sentence each.
std::vector<std::string> notes_of(const Import& import);

}  // namespace lockstep::kineto
