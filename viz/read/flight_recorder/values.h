#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::flight {

/// Thrown for a file that is not a flight-recorder dump, or that can't be used. The message is one
/// printable line without the file's name.
struct DumpError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using ValueId = std::uint32_t;

/// The values of one dump: a document of lists, dictionaries, texts and numbers, as a pickle or
/// JSON describes it. A pickle can refer to a value again through its memo, so several lists may
/// contain the same value, and a list may contain itself. Code that reads a document therefore
/// descends only as deep as a dump does, and `elements` and `members` limit the number of visits.
///
/// Memory: at most most_memory() bytes in addition to the texts; throws DumpError beyond that.
class Values {
 public:
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dict };

  /// `source_bytes` is the size of the file. Throws DumpError if it has 4 GB or more.
  explicit Values(std::size_t source_bytes);

  // Adding values.

  ValueId none() const { return 0; }
  ValueId boolean(bool value) const { return value ? 2 : 1; }
  ValueId integer(std::int64_t value);
  ValueId real(double value);
  /// Adds a copy of the text.
  ValueId text(std::string_view text, Kind kind = Kind::text);
  ValueId container(Kind kind);
  /// Appends to a container; to a dictionary, in the order key, value, key, value.
  void append(ValueId container, const ValueId* values, std::size_t count);

  // Reading them. A value that is not of the requested kind gives std::nullopt.

  Kind kind(ValueId id) const { return nodes_[id].kind; }
  /// Returns an integer, a real without a fraction, or the integer that a text spells: JSON dumps
  /// write some integers as texts.
  std::optional<std::int64_t> as_integer(ValueId id) const;
  std::optional<bool> as_boolean(ValueId id) const;
  std::optional<std::string_view> as_text(ValueId id) const;
  bool is_list(ValueId id) const { return kind(id) == Kind::list || kind(id) == Kind::tuple; }
  bool is_dict(ValueId id) const { return kind(id) == Kind::dict; }
  /// Returns the number of elements; a dictionary's keys and values count separately.
  std::size_t size(ValueId id) const { return nodes_[id].count; }
  /// Calls `visit` for each element of a list or a tuple. Throws DumpError if the values of the
  /// document have been visited more often than any dump requires.
  void elements(ValueId id, const std::function<void(ValueId)>& visit) const;
  /// Calls `visit` for each key of a dictionary that is a text or an integer, and its value. Throws
  /// as elements() does.
  void members(ValueId id, const std::function<void(std::string_view, ValueId)>& visit) const;

  std::size_t source_bytes() const { return source_bytes_; }
  /// Returns the bytes that the values take, without the texts.
  std::size_t memory() const { return nodes_.size() * sizeof(Node) + chunks_.size() * 4; }
  /// Returns the limit for a document of this many bytes.
  static std::size_t most_memory(std::size_t source) {
    return (32 << 20) + source + source / 2 + source / 4;
  }
  /// Throws DumpError if the values and `more` bytes exceed the limit.
  void check_memory(std::size_t more = 0) const;

 private:
  /// A number, a part of a text (offset and length) or a container (first and last chunk).
  struct Node {
    union {
      std::int64_t integer;
      double real;
      struct {
        std::uint32_t first, last;
      } chunks;
      std::uint64_t offset;
    };
    std::uint32_t count;
    Kind kind;
  };
  ValueId add(const Node& node);
  void visit_elements(ValueId id, const std::function<void(ValueId)>& visit) const;

  std::size_t source_bytes_;
  std::string texts_;
  std::deque<Node> nodes_;
  /// A chunk is a count, the position of the next chunk (0: none), and as many values.
  std::deque<std::uint32_t> chunks_;
  mutable std::uint64_t visits_ = 0;
};

/// A document, and which of its values is the outermost.
struct Document {
  Values values;
  ValueId root = 0;
};

}  // namespace lockstep::flight
