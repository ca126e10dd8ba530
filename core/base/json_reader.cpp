#include "core/base/json_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "core/base/number.h"
#include "core/base/printable.h"

namespace lockstep {

namespace {

constexpr std::size_t longest_key = 60;  // in messages
constexpr std::size_t longest_value = 40;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::string JsonReader::where() const {
  std::vector<std::string> keys;
  for (const std::string& key : path_) keys.push_back(excerpt(key, longest_key));
  return fmt::format("{}", fmt::join(keys, "."));
}

void JsonReader::malformed(const std::string& expected) const {
  const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(at_), '\n');
  std::string_view rest = text_.substr(at_, longest_value);
  rest = rest.substr(0, rest.find('\n'));
  throw JsonError{fmt::format("line {}: expected {}, found {}", line, expected,
                              at_ == text_.size() ? "the end"
                              : rest.empty()      ? "the end of the line"
                                                  : excerpt(rest))};
}

void JsonReader::unfit(std::string_view text, const std::string& wanted) const {
  const std::string value = text.starts_with('[')   ? "a list"
                            : text.starts_with('{') ? "an object"
                                                    : excerpt(text, longest_value);
  throw JsonError{fmt::format("{}{} is not {}", path_.empty() ? "" : fmt::format("'{}': ", where()),
                              value, wanted)};
}

void JsonReader::fail(const std::string& what) const {
  throw JsonError{fmt::format("{} {}", path_.empty() ? "it" : fmt::format("'{}'", where()), what)};
}

void JsonReader::blanks() {
  at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
}

bool JsonReader::accept(char c) {
  const bool found = at_ < text_.size() && text_[at_] == c;
  at_ += found ? 1 : 0;
  return found;
}

void JsonReader::expect(char c) {
  if (!accept(c)) malformed(fmt::format("{}", c));
}

void JsonReader::expect(std::string_view word) {
  if (!text_.substr(at_).starts_with(word)) malformed(std::string{word});
  at_ += word.size();
}

JsonReader::Kind JsonReader::kind() {
  blanks();
  switch (at_ < text_.size() ? text_[at_] : '\0') {
    case '{':
      return Kind::object;
    case '[':
      return Kind::list;
    case '"':
      return Kind::string;
    case 't':
    case 'f':
      return Kind::boolean;
    case 'n':
      return Kind::null;
    default:
      break;
  }
  if (at_ == text_.size() || (text_[at_] != '-' && !is_digit(text_[at_]))) malformed("a value");
  return Kind::number;
}

/// Calls `read` for each of the parts that commas separate.
void JsonReader::each(char open, char close, const std::function<void()>& read) {
  expect(open);
  if (++depth_ > deepest) malformed(fmt::format("at most {} lists and objects", deepest));
  blanks();
  for (bool more = !accept(close); more;) {
    read();
    blanks();
    more = !accept(close);
    if (more) expect(',');
    if (more) blanks();
  }
  --depth_;
}

void JsonReader::members(const std::function<void(const std::string& key)>& read) {
  if (kind() != Kind::object) unfit(skip(), "an object");
  each('{', '}', [&] {
    const std::string key = string();
    path_.push_back(key);
    blanks();
    expect(':');
    read(key);
    path_.pop_back();
  });
}

void JsonReader::elements(const std::function<void()>& read) {
  if (kind() != Kind::list) unfit(skip(), "a list");
  each('[', ']', read);
}

void JsonReader::object(std::initializer_list<Field> fields) {
  std::vector<bool> seen(fields.size());
  members([&](const std::string& key) {
    const auto* const field = std::ranges::find(fields, key, &Field::key);
    if (field == fields.end()) {
      skip();
      return;
    }
    const auto i = static_cast<std::size_t>(field - fields.begin());
    if (seen[i]) {
      path_.pop_back();
      fail(fmt::format("has '{}' twice", field->key));
    }
    seen[i] = true;
    field->read();
  });
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (const Field& field = fields.begin()[i]; !seen[i] && field.use == Field::Use::required)
      fail(fmt::format("has no '{}'", field.key));
}

void JsonReader::digits() {
  if (at_ == text_.size() || !is_digit(text_[at_])) malformed("a digit");
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
}

std::string_view JsonReader::number_text() {
  const std::size_t begin = at_;
  accept('-');
  if (!accept('0')) digits();
  if (accept('.')) digits();
  if (accept('e') || accept('E')) {
    if (!accept('-')) accept('+');
    digits();
  }
  return text_.substr(begin, at_ - begin);
}

std::int64_t JsonReader::whole(std::int64_t least, std::int64_t most) {
  const std::string_view text = skip();
  const auto value = number_from<std::int64_t>(text);
  if (!value || *value < least || *value > most)
    unfit(text, fmt::format("a whole number from {} to {}", least, most));
  return *value;
}

double JsonReader::number() {
  const std::string_view text = skip();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) unfit(text, "a number that a double can hold");
  if (error != std::errc{} || end != text.data() + text.size()) unfit(text, "a number");
  return value;
}

bool JsonReader::boolean() {
  const std::string_view text = skip();
  if (text != "true" && text != "false") unfit(text, "true or false");
  return text == "true";
}

std::string_view JsonReader::skip() {
  const Kind next = kind();  // skips whitespace
  const std::size_t begin = at_;
  switch (next) {
    case Kind::object:
      each('{', '}', [&] {
        string_text();
        blanks();
        expect(':');
        skip();
      });
      break;
    case Kind::list:
      each('[', ']', [&] { skip(); });
      break;
    case Kind::string:
      string_text();
      break;
    case Kind::number:
      number_text();
      break;
    case Kind::boolean:
      expect(text_[at_] == 't' ? std::string_view{"true"} : "false");
      break;
    case Kind::null:
      expect("null");
      break;
  }
  return text_.substr(begin, at_ - begin);
}

std::size_t JsonReader::count() const {
  JsonReader ahead = *this;
  std::size_t count = 0;
  const auto one = [&] {
    ahead.skip();
    ++count;
  };
  if (ahead.kind() == Kind::object)
    ahead.members([&](const std::string&) { one(); });
  else
    ahead.elements(one);
  return count;
}

void JsonReader::end() {
  blanks();
  if (at_ < text_.size()) malformed("the end");
}

}  // namespace lockstep
