#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace lockstep {

/// Writes a file whole or not at all: `fill` writes under a name beside it, which takes the place
/// of `path` when complete. Throws UsageError, naming --save and the file, where that is not
/// possible.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& fill);

}  // namespace lockstep
