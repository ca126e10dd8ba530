#include "viz/read/flight_recorder/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <deque>
#include <vector>

#include "viz/read/flight_recorder/pickle_opcodes.h"

namespace lockstep::flight {
namespace {

class Machine {
 public:
  explicit Machine(std::string_view content) : text_(content), values_(content.size()) {}

  Document run() {
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
  /// Returns the next bytes and advances past them.
  const char* take(std::size_t bytes) {
    if (bytes > text_.size() - at_)
      throw DumpError(fmt::format("is cut off: it ends at byte {}, inside the value at byte {}",
                                  text_.size(), opcode_at_));
    const char* begin = text_.data() + at_;
    at_ += bytes;
    return begin;
  }
  /// Reads an unsigned little-endian number.
  std::uint64_t number(std::size_t bytes) {
    const char* begin = take(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(begin[i]);
    return value;
  }

  void check_memory() const {
    values_.check_memory(8 * stack_.size() + 4 * memo_.size() + 8 * marks_.size());
  }
  void push(ValueId id) {
    check_memory();
    stack_.push_back(id);
  }
  /// Returns the size of the stack at the last mark; only values above it may be popped.
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
    push(values_.text({take(length), length}, kind));
  }
  void push_long(std::uint64_t bytes) {
    if (bytes > 8) {  // larger than any number in a dump
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
    const char* begin = take(8);  // big-endian
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
    if (values_.kind(to) != kind) fail("appends to a value that is not a container of that kind");
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
    const auto byte = static_cast<unsigned char>(text_[at_++]);
    using Kind = Values::Kind;
    using enum Opcode;
    switch (static_cast<Opcode>(byte)) {
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
        check_memory();
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
        push_tuple(byte - static_cast<std::size_t>(tuple1) + 1);
        break;
      case none:
        push(values_.none());
        break;
      case new_true:
        push(values_.boolean(true));
        break;
      case new_false:
        push(values_.boolean(false));
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
        refuse(byte);
    }
    return true;
  }

  [[noreturn]] void refuse(unsigned char code) const {
    const std::string_view name = name_of_refused(code);
    if (name.empty())
      throw DumpError(fmt::format("has the byte 0x{:02x} at {}, which is not a pickle opcode", code,
                                  opcode_at_));
    throw DumpError(
        fmt::format("has the opcode {} at byte {}; a dump contains only plain data, so it is "
                    "refused",
                    name, opcode_at_));
  }

  std::string_view text_;
  Values values_;
  std::size_t at_ = 0, opcode_at_ = 0;
  std::deque<ValueId> stack_;
  std::deque<std::size_t> marks_;
  std::deque<ValueId> memo_;
};

}  // namespace

bool is_pickle(std::string_view beginning) {
  return beginning.size() >= 2 && static_cast<Opcode>(beginning[0]) == Opcode::proto &&
         beginning[1] >= 2 && beginning[1] <= 5;
}

Document read_pickle(std::string_view content) {
  return Machine{content}.run();
}

}  // namespace lockstep::flight
