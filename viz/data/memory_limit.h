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
  static constexpr std::size_t standard = std::size_t{2} << 30;
  static constexpr std::size_t least = std::size_t{256} << 20;  ///< the window itself needs some

  explicit MemoryLimit(std::size_t bytes = standard) : bytes_(bytes) {}
  std::size_t bytes() const { return bytes_; }
  bool reached() const { return resident_bytes() >= bytes_; }

 private:
  std::size_t bytes_;
};

/// Parses "2GB", "1.5GB" or "512MB" (powers of 1024). Throws UsageError if the text is malformed or
/// the size is below MemoryLimit::least.
MemoryLimit parse_memory(const std::string& text);

}  // namespace lockstep::viz
