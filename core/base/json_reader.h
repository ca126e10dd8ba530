#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Thrown for a text that is not JSON, or for a value that the caller can't use. The message is one
/// printable line that names the line of the text, or the key and its value.
struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads JSON from files that may be damaged or hostile. It makes one pass over the text and builds
/// no document: the caller reads each value directly into its own structure. The time is linear in
/// the text's length, and the caller's structures are the only memory used.
class JsonReader {
 public:
  enum class Kind { object, list, string, number, boolean, null };
  static constexpr int deepest = 32;  ///< lists and objects inside one another

  /// The text must outlive the reader.
  explicit JsonReader(std::string_view text) : text_(text) {}

  /// A key of an object, and the function that reads its value.
  struct Field {
    enum class Use { required, optional };
    std::string_view key;
    std::function<void()> read;
    Use use = Use::required;
  };

  /// Returns the kind of the next value.
  Kind kind();
  /// Reads an object with these keys, in any order, and skips other keys. Throws if a required key
  /// is missing, or if one of the keys appears twice.
  void object(std::initializer_list<Field> fields);
  /// Reads an object with any keys: calls `read` for each key, and `read` must read or skip the
  /// value. Does not compare the keys with one another.
  void members(const std::function<void(const std::string& key)>& read);
  /// Calls `read` for each element of a list; it must read or skip the element.
  void elements(const std::function<void()>& read);
  /// Reads a whole number within these bounds.
  std::int64_t whole(std::int64_t least,
                     std::int64_t most = std::numeric_limits<std::int64_t>::max());
  double number();
  std::string string();
  bool boolean();
  /// Skips a value and returns its text.
  std::string_view skip();
  /// Returns the number of members or elements of the next value, without reading it.
  std::size_t count() const;
  /// Throws unless the text ends here.
  void end();

  /// Throws JsonError for the value `text`: "'step' is -5, but must be `wanted`".
  [[noreturn]] void unfit(std::string_view text, const std::string& wanted) const;
  /// Throws JsonError for the object or list being read: "'files' has `what`".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  [[noreturn]] void malformed(const std::string& expected) const;
  std::string where() const;
  void blanks();
  bool accept(char c);
  void expect(char c);
  void expect(std::string_view word);
  void digits();
  std::string_view number_text();
  std::string_view string_text();
  unsigned code_unit();
  void each(char open, char close, const std::function<void()>& read);

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::string> path_;  ///< the keys of the values being read, outermost first
};

}  // namespace lockstep
