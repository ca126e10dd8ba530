#pragma once

#include <cstddef>
#include <string>

namespace lockstep::viz {

/// Returns this process's resident bytes (proc_pid_statm(5)), or 0 if they are unknown.
std::size_t resident_bytes();
/// Returns freed memory to the system.
void return_freed_memory();

/// The resident memory above which the viewer reads no more of a live trace.
class MemoryLimit {
 public:
  static constexpr std::size_t standard = 2'000'000'000;
  static constexpr std::size_t least = 256'000'000;  ///< the window itself needs some

  explicit MemoryLimit(std::size_t bytes = standard) : bytes_(bytes) {}
  std::size_t bytes() const { return bytes_; }
  bool reached() const { return resident_bytes() >= bytes_; }

 private:
  std::size_t bytes_;
};

/// Parses "2GB", "1.5GB" or "512MB" (powers of 1000, as everywhere in the viewer). Throws
/// UsageError if the text is malformed or the size is below MemoryLimit::least.
MemoryLimit parse_memory(const std::string& text);

}  // namespace lockstep::viz
