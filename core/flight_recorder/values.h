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
/// JSON describes it. Several lists may contain the same value, because a pickle's memo refers to
/// values again, and even a list that contains itself is possible. Readers of the document
/// therefore follow the dump's own structure only, and count what they visit.
///
/// Memory: at most `most_memory` bytes besides the texts; throws DumpError beyond that.
class Values {
 public:
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dict };

  /// Takes the text that the values refer to. A text of 4 GB or more is refused.
  explicit Values(std::string text);

  // Adding values.

  ValueId none() const { return 0; }
  ValueId boolean(bool value) const { return value ? 2 : 1; }
  ValueId integer(std::int64_t value);
  ValueId real(double value);
  /// A part of the document's own text.
  ValueId text(std::size_t begin, std::size_t length, Kind kind = Kind::text);
  /// A text that is not part of the document's own; it is copied.
  ValueId copy(std::string_view text);
  ValueId container(Kind kind);
  /// Appends to a container. Those of a dictionary alternate: key, value, key, value.
  void append(ValueId container, const ValueId* values, std::size_t count);

  // Reading them.

  Kind kind(ValueId id) const { return nodes_[id].kind; }
  /// Returns a whole number, or the one that a text spells (JSON dumps write some as texts), if the
  /// value is one.
  std::optional<std::int64_t> as_integer(ValueId id) const;
  /// Returns a number, whole or not, if the value is one.
  std::optional<double> as_real(ValueId id) const;
  std::optional<bool> as_boolean(ValueId id) const;
  std::optional<std::string_view> as_text(ValueId id) const;
  bool is_list(ValueId id) const { return kind(id) == Kind::list || kind(id) == Kind::tuple; }
  bool is_dict(ValueId id) const { return kind(id) == Kind::dict; }
  /// Returns the number of elements; a dictionary's keys and values count separately.
  std::size_t size(ValueId id) const { return nodes_[id].count; }
  /// Calls `visit` for each element of a list or a tuple, until it returns false. Throws DumpError
  /// if the document's values have been visited more often than any dump requires.
  void elements(ValueId id, const std::function<bool(ValueId)>& visit) const;
  /// Calls `visit` for each key that is a text, with its value.
  void members(ValueId id, const std::function<void(std::string_view, ValueId)>& visit) const;

  const std::string& source() const { return source_; }
  /// The bytes that the values take, without the texts.
  std::size_t memory() const { return nodes_.size() * sizeof(Node) + chunks_.size() * 4; }
  /// The limit for a document of this many bytes.
  static std::size_t most_memory(std::size_t source) {
    return (32 << 20) + source + source / 2 + source / 4;
  }
  /// Throws DumpError if the values and `more` bytes are above the limit.
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
    bool copied;
  };
  ValueId add(const Node& node);
  void visit_elements(ValueId id, const std::function<bool(ValueId)>& visit) const;

  std::string source_;
  std::string copies_;
  std::deque<Node> nodes_;
  /// A chunk is a count, the position of the next chunk (0: none), and as many values.
  std::deque<std::uint32_t> chunks_;
  mutable std::uint64_t visits_ = 0;
};

}  // namespace lockstep::flight
