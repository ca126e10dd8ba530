#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Computes the CRC-32 checksum of zip and zlib (ISO 3309: reversed polynomial 0xEDB88320) of data
/// that arrives in any number of pieces.
class Crc32 {
 public:
  void add(const void* data, std::size_t bytes);
  /// Returns the checksum of all bytes so far.
  std::uint32_t value() const { return ~state_; }
  std::string text() const { return text_of(value()); }

  /// Returns a checksum as eight hexadecimal digits.
  static std::string text_of(std::uint32_t checksum);
  /// Parses eight hexadecimal digits. Returns nothing for any other text.
  static std::optional<std::uint32_t> parse(std::string_view digits);

 private:
  std::uint32_t state_ = 0xFFFF'FFFF;
};

}  // namespace lockstep
