#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lockstep::flight {

/// The opcodes of plain data, named as in Python's pickletools.
enum class Opcode : unsigned char {
  mark = '(',
  stop = '.',
  append = 'a',
  appends = 'e',
  set_item = 's',
  set_items = 'u',
  empty_dict = '}',
  empty_list = ']',
  empty_tuple = ')',
  tuple = 't',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  none = 'N',
  new_true = 0x88,
  new_false = 0x89,
  bin_int = 'J',
  bin_int1 = 'K',
  bin_int2 = 'M',
  long1 = 0x8a,
  long4 = 0x8b,
  bin_float = 'G',
  bin_string = 'T',
  short_bin_string = 'U',
  bin_unicode = 'X',
  short_bin_unicode = 0x8c,
  bin_unicode8 = 0x8d,
  bin_bytes = 'B',
  short_bin_bytes = 'C',
  bin_bytes8 = 0x8e,
  bin_put = 'q',
  long_bin_put = 'r',
  memoize = 0x94,
  bin_get = 'h',
  long_bin_get = 'j',
  proto = 0x80,
  frame = 0x95,
};

/// Returns the name of an opcode that is not one of plain data; "" if the byte is no opcode.
inline std::string_view name_of_refused(unsigned char code) {
  using Named = std::pair<unsigned char, std::string_view>;
  // clang-format off
  static constexpr std::array<Named, 31> refused{{
      {'c', "GLOBAL"}, {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"}, {'b', "BUILD"}, {'i', "INST"},
      {'o', "OBJ"}, {0x81, "NEWOBJ"}, {0x92, "NEWOBJ_EX"}, {0x82, "EXT1"}, {0x83, "EXT2"},
      {0x84, "EXT4"}, {'P', "PERSID"}, {'Q', "BINPERSID"}, {'0', "POP"}, {'1', "POP_MARK"},
      {'2', "DUP"}, {'F', "FLOAT"}, {'I', "INT"}, {'L', "LONG"}, {'S', "STRING"}, {'V', "UNICODE"},
      {'d', "DICT"}, {'l', "LIST"}, {'g', "GET"}, {'p', "PUT"}, {0x8f, "EMPTY_SET"},
      {0x90, "ADDITEMS"}, {0x91, "FROZENSET"}, {0x96, "BYTEARRAY8"}, {0x97, "NEXT_BUFFER"},
      {0x98, "READONLY_BUFFER"},
  }};
  // clang-format on
  const auto* found = std::ranges::find(refused, code, &Named::first);
  return found == refused.end() ? std::string_view{} : found->second;
}

}  // namespace lockstep::flight
