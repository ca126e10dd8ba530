#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace lockstep {

/// Writes a file completely or not at all: `fill` writes a temporary file in the same folder, which
/// is then renamed to `path`. Throws UsageError, naming --save and the file, on failure.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& fill);

}  // namespace lockstep
