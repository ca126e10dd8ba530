#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Returns "did you mean X? " with the one of `words` closest to `word`, which is probably a
/// misspelling of it; empty if none is close.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& words);

}  // namespace lockstep
