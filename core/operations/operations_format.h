#pragma once

#include <string>

#include "core/operations/run_operations.h"

namespace lockstep {

// Declarations shared by the files of core/operations/ that write, read and check operations.json.

constexpr const char* operations_key = "lockstep_operations";  ///< the first key; its value:
constexpr int operations_version = 1;

/// Throws UsageError unless all ranks, groups and earlier operations to which the lists refer
/// exist. The message begins with `where`.
void check_operations(const RunOperations& run, const std::string& where);

}  // namespace lockstep
