#pragma once

#include <stdexcept>
#include <string>

namespace lockstep {

/// Thrown for a file that can't be read; the message says only why: "is a directory".
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads a whole file into memory. Throws InputError unless it is a regular file (reading a device
/// or a pipe may never end) that is not larger than the memory available.
std::string content_of(const std::string& path);

}  // namespace lockstep
