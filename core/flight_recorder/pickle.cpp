#include "core/flight_recorder/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <vector>

namespace lockstep::flight {
namespace {

/// The opcodes of plain data, by the names of Python's pickletools.
enum Opcode : unsigned char {
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

struct Named {
  unsigned char code;
  const char* name;
};
/// Names of other opcodes, for messages.
constexpr std::array refused = {Named{'c', "GLOBAL"},
                                Named{0x93, "STACK_GLOBAL"},
                                Named{'R', "REDUCE"},
                                Named{'b', "BUILD"},
                                Named{'i', "INST"},
                                Named{'o', "OBJ"},
                                Named{0x81, "NEWOBJ"},
                                Named{0x92, "NEWOBJ_EX"},
                                Named{0x82, "EXT1"},
                                Named{0x83, "EXT2"},
                                Named{0x84, "EXT4"},
                                Named{'P', "PERSID"},
                                Named{'Q', "BINPERSID"},
                                Named{'0', "POP"},
                                Named{'1', "POP_MARK"},
                                Named{'2', "DUP"},
                                Named{'F', "FLOAT"},
                                Named{'I', "INT"},
                                Named{'L', "LONG"},
                                Named{'S', "STRING"},
                                Named{'V', "UNICODE"},
                                Named{'d', "DICT"},
                                Named{'l', "LIST"},
                                Named{'g', "GET"},
                                Named{'p', "PUT"},
                                Named{0x8f, "EMPTY_SET"},
                                Named{0x90, "ADDITEMS"},
                                Named{0x91, "FROZENSET"},
                                Named{0x96, "BYTEARRAY8"},
                                Named{0x97, "NEXT_BUFFER"},
                                Named{0x98, "READONLY_BUFFER"}};

class Machine {
 public:
  explicit Machine(std::string content) : values_(std::move(content)), text_(values_.source()) {}

  Pickle run() {
    if (!is_pickle(text_)) throw DumpError("is not a pickle of protocol 2 to 5");
    while (step()) {
    }
    const ValueId root = pop();
    return {std::move(values_), root};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DumpError(fmt::format("{} at byte {}", what, opcode_at_));
  }
  /// Returns the next bytes, and passes over them.
  const char* take(std::size_t bytes) {
    if (bytes > text_.size() - at_)
      throw DumpError(fmt::format("is cut off: it ends at byte {}, inside the value at byte {}",
                                  text_.size(), opcode_at_));
    const char* begin = text_.data() + at_;
    at_ += bytes;
    return begin;
  }
  /// Reads an unsigned number, with its lowest byte first.
  std::uint64_t number(std::size_t bytes) {
    const char* begin = take(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(begin[i]);
    return value;
  }

  void push(ValueId id) {
    values_.check_memory(8 * stack_.size() + 4 * memo_.size() + 8 * marks_.size());
    stack_.push_back(id);
  }
  /// Returns the bottom of the values that may be popped: those above the last mark.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  ValueId pop() {
    if (stack_.size() <= floor()) fail("takes a value from an empty stack");
    const ValueId id = stack_.back();
    stack_.pop_back();
    return id;
  }
  ValueId top() const {
    if (stack_.size() <= floor()) fail("needs a value on the stack");
    return stack_.back();
  }
  /// Removes and returns the values above the last mark.
  std::vector<ValueId> pop_marked() {
    if (marks_.empty()) fail("needs a mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<ValueId> above(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return above;
  }

  void push_text(std::size_t length_bytes, Values::Kind kind) {
    const std::uint64_t length = number(length_bytes);
    const std::size_t begin = at_;
    take(length);
    push(values_.text(begin, length, kind));
  }
  void push_long(std::uint64_t bytes) {
    if (bytes > 8) {  // larger than any number of a dump
      take(bytes);
      push(values_.none());
      return;
    }
    std::uint64_t value = number(bytes);
    if (bytes > 0 && bytes < 8 && (value >> (8 * bytes - 1) & 1) != 0)
      value |= ~std::uint64_t{0} << (8 * bytes);
    push(values_.integer(static_cast<std::int64_t>(value)));
  }
  void push_float() {
    const char* begin = take(8);  // the highest byte first
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | static_cast<unsigned char>(begin[i]);
    push(values_.real(std::bit_cast<double>(bits)));
  }
  void push_tuple(const std::vector<ValueId>& items) {
    const ValueId made = values_.container(Values::Kind::tuple);
    values_.append(made, items.data(), items.size());
    push(made);
  }
  void push_tuple(std::size_t count) {
    std::vector<ValueId> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_tuple(items);
  }
  void extend(Values::Kind kind, const std::vector<ValueId>& items) {
    const ValueId to = top();
    if (values_.kind(to) != kind) fail("appends to a value that is no container of that kind");
    if (kind == Values::Kind::dict && items.size() % 2 != 0) fail("has a key without a value");
    values_.append(to, items.data(), items.size());
  }
  void put(std::uint64_t index) {
    if (index > memo_.size())
      fail(fmt::format("stores value {} of the memo before value {}", index, memo_.size()));
    if (index == memo_.size()) {
      memo_.push_back(top());
    } else {
      memo_[index] = top();
    }
  }
  void get(std::uint64_t index) {
    if (index >= memo_.size()) fail(fmt::format("refers to value {}, which is not stored", index));
    push(memo_[index]);
  }

  /// Executes an opcode. Returns whether the pickle continues.
  bool step() {
    opcode_at_ = at_;
    if (at_ == text_.size())
      throw DumpError(fmt::format("is cut off: it ends at byte {}, without STOP", at_));
    const auto code = static_cast<unsigned char>(text_[at_++]);
    using Kind = Values::Kind;
    switch (code) {
      case stop:
        marks_.clear();
        if (stack_.size() != 1) fail("ends with more or less than one value");
        return false;
      case proto:
        if (const std::uint64_t version = number(1); version < 2 || version > 5)
          fail(fmt::format("has protocol {}, but 2 to 5 can be read", version));
        break;
      case frame:
        take(8);
        break;
      case mark:
        values_.check_memory(8 * stack_.size() + 4 * memo_.size() + 8 * marks_.size());
        marks_.push_back(stack_.size());
        break;
      case append: {
        const ValueId item = pop();
        extend(Kind::list, {item});
        break;
      }
      case appends:
        extend(Kind::list, pop_marked());
        break;
      case set_item: {
        const ValueId value = pop(), key = pop();
        extend(Kind::dict, {key, value});
        break;
      }
      case set_items:
        extend(Kind::dict, pop_marked());
        break;
      case empty_dict:
        push(values_.container(Kind::dict));
        break;
      case empty_list:
        push(values_.container(Kind::list));
        break;
      case empty_tuple:
        push(values_.container(Kind::tuple));
        break;
      case tuple:
        push_tuple(pop_marked());
        break;
      case tuple1:
      case tuple2:
      case tuple3:
        push_tuple(static_cast<std::size_t>(code - tuple1 + 1));
        break;
      case none:
        push(values_.none());
        break;
      case new_true:
      case new_false:
        push(values_.boolean(code == new_true));
        break;
      case bin_int:
        push(values_.integer(static_cast<std::int32_t>(number(4))));
        break;
      case bin_int1:
        push(values_.integer(static_cast<std::int64_t>(number(1))));
        break;
      case bin_int2:
        push(values_.integer(static_cast<std::int64_t>(number(2))));
        break;
      case long1:
        push_long(number(1));
        break;
      case long4:
        push_long(number(4));
        break;
      case bin_float:
        push_float();
        break;
      case short_bin_unicode:
        push_text(1, Kind::text);
        break;
      case bin_unicode:
        push_text(4, Kind::text);
        break;
      case bin_unicode8:
        push_text(8, Kind::text);
        break;
      case short_bin_string:
      case short_bin_bytes:
        push_text(1, Kind::bytes);
        break;
      case bin_string:
      case bin_bytes:
        push_text(4, Kind::bytes);
        break;
      case bin_bytes8:
        push_text(8, Kind::bytes);
        break;
      case bin_put:
        put(number(1));
        break;
      case long_bin_put:
        put(number(4));
        break;
      case memoize:
        put(memo_.size());
        break;
      case bin_get:
        get(number(1));
        break;
      case long_bin_get:
        get(number(4));
        break;
      default:
        refuse(code);
    }
    return true;
  }

  [[noreturn]] void refuse(unsigned char code) const {
    const auto* found = std::ranges::find(refused, code, &Named::code);
    if (found == refused.end())
      throw DumpError(fmt::format("has the byte 0x{:02x} at {}, which is no opcode of a pickle",
                                  code, opcode_at_));
    throw DumpError(
        fmt::format("has the opcode {} at byte {}; a dump contains only plain data, so it is "
                    "refused",
                    found->name, opcode_at_));
  }

  Values values_;
  std::string_view text_;  ///< of values_
  std::size_t at_ = 0, opcode_at_ = 0;
  std::deque<ValueId> stack_;
  std::deque<std::size_t> marks_;
  std::deque<ValueId> memo_;
};

}  // namespace

bool is_pickle(std::string_view beginning) {
  return beginning.size() >= 2 && static_cast<unsigned char>(beginning[0]) == proto &&
         beginning[1] >= 2 && beginning[1] <= 5;
}

Pickle read_pickle(std::string content) {
  return Machine{std::move(content)}.run();
}

}  // namespace lockstep::flight
