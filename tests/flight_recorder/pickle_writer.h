#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

/// A dump's values, which keep their order. A list that begins with "tuple", as in process_group,
/// stands for a tuple of the other elements.
using DumpJson = nlohmann::ordered_json;

/// Writes a document as a pickle: with protocol 2 as torch does (each string is memoized, and its
/// repetitions refer to the memo), with protocol 4 or 5 as Python's pickle.dump does.
class PickleWriter {
 public:
  explicit PickleWriter(int protocol) : protocol_(protocol) {}

  std::string write(const DumpJson& document) {
    bytes_ = {'\x80', static_cast<char>(protocol_)};
    if (protocol_ >= 4) {  // one frame around everything
      std::string body = std::exchange(bytes_, {});
      value(document);
      bytes_ += '.';
      std::string frame{'\x95'};
      for (int i = 0; i < 8; ++i) frame += static_cast<char>(bytes_.size() >> (8 * i) & 0xff);
      return body + frame + bytes_;
    }
    value(document);
    return bytes_ + '.';
  }

 private:
  void number(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  void memoize() {
    if (protocol_ >= 4) {
      bytes_ += '\x94';
    } else if (memo_ < 256) {
      bytes_ += 'q';
      number(memo_, 1);
    } else {
      bytes_ += 'r';
      number(memo_, 4);
    }
    ++memo_;
  }
  void text(const std::string& text) {
    if (const auto found = texts_.find(text); found != texts_.end()) {
      bytes_ += found->second < 256 ? 'h' : 'j';
      number(found->second, found->second < 256 ? 1 : 4);
      return;
    }
    if (protocol_ >= 4 && text.size() < 256) {
      bytes_ += '\x8c';
      number(text.size(), 1);
    } else {
      bytes_ += 'X';
      number(text.size(), 4);
    }
    bytes_ += text;
    texts_[text] = memo_;
    memoize();
  }
  void integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      bytes_ += 'K';
      number(static_cast<std::uint64_t>(value), 1);
    } else if (value >= 0 && value < 65536) {
      bytes_ += 'M';
      number(static_cast<std::uint64_t>(value), 2);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      bytes_ += 'J';
      number(static_cast<std::uint64_t>(value), 4);
    } else {
      bytes_ += '\x8a';
      number(8, 1);
      number(static_cast<std::uint64_t>(value), 8);
    }
  }
  void real(double value) {
    bytes_ += 'G';
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int i = 7; i >= 0; --i) bytes_ += static_cast<char>(bits >> (8 * i) & 0xff);
  }
  void value(const DumpJson& document) {
    if (document.is_null()) {
      bytes_ += 'N';
    } else if (document.is_boolean()) {
      bytes_ += document.get<bool>() ? '\x88' : '\x89';
    } else if (document.is_number_integer()) {
      integer(document.get<std::int64_t>());
    } else if (document.is_number()) {
      real(document.get<double>());
    } else if (document.is_string()) {
      text(document.get<std::string>());
    } else if (document.is_array() && !document.empty() && document.front() == "tuple") {
      for (std::size_t i = 1; i < document.size(); ++i) value(document[i]);
      bytes_ += static_cast<char>(0x84 + document.size() - 1);
      memoize();
    } else if (document.is_array()) {
      bytes_ += ']';
      memoize();
      bytes_ += '(';
      for (const DumpJson& each : document) value(each);
      bytes_ += 'e';
    } else {
      bytes_ += '}';
      memoize();
      bytes_ += '(';
      for (const auto& [key, each] : document.items()) {
        text(key);
        value(each);
      }
      bytes_ += 'u';
    }
  }

  int protocol_;
  std::string bytes_;
  std::map<std::string, std::uint64_t> texts_;
  std::uint64_t memo_ = 0;
};

inline std::string pickle_of(const DumpJson& document, int protocol = 2) {
  return PickleWriter{protocol}.write(document);
}

}  // namespace lockstep
