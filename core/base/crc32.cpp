#include "core/base/crc32.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>

namespace lockstep {

namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

/// tables[0][b] is the checksum of byte b, and tables[k][b] is the checksum of b followed by k zero
/// bytes. With these tables, processing eight bytes takes eight independent look-ups ("slicing by
/// 8", Kounavis and Berry 2005).
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB8'8320U : 0U);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t shorter = tables[k - 1][byte];
      tables[k][byte] = (shorter >> 8) ^ tables[0][shorter & 0xFF];
    }
  return tables;
}

constexpr Tables tables = make_tables();
static_assert(std::endian::native == std::endian::little, "add() reads eight bytes as one number");

}  // namespace

void Crc32::add(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t crc = state_;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; bytes > 0; --bytes, ++at) crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xFF];
  state_ = crc;
}

std::string Crc32::text_of(std::uint32_t checksum) {
  return fmt::format("{:08x}", checksum);
}

std::optional<std::uint32_t> Crc32::parse(std::string_view digits) {
  std::uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 8 || error != std::errc{} || end != digits.data() + 8) return std::nullopt;
  return value;
}

}  // namespace lockstep
