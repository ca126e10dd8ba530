#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep {

/// Computes the CRC-32 checksum of zip and zlib (ISO 3309: reversed polynomial 0xEDB88320) of data
/// that arrives in any number of pieces.
class Crc32 {
 public:
  void add(const void* data, std::size_t bytes);
  /// Returns the checksum of all bytes so far.
  std::uint32_t value() const { return ~state_; }
  /// Returns the checksum as eight hexadecimal digits.
  std::string text() const;

 private:
  std::uint32_t state_ = 0xFFFF'FFFF;
};

}  // namespace lockstep
