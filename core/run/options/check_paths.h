#pragma once

#include <filesystem>
#include <string>

#include "core/run/options/options.h"

namespace lockstep {

/// Throws UsageError if --report cannot be written to the given path, or if --view is not an
/// address. --trace is checked when the run's folder is created, --save by check_saving().
void check_paths(const Output& output);

/// Throws errors that say what is wrong with a path.
struct Refusal {
  std::string flag, file;
  [[noreturn]] void operator()(const std::string& why) const;
};

void check_parent(const Refusal& refuse, const std::filesystem::path& folder);

}  // namespace lockstep
