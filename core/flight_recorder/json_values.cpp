#include "core/flight_recorder/json_values.h"

#include <array>
#include <charconv>
#include <vector>

#include "core/base/json_reader.h"

namespace lockstep::flight {
namespace {

class JsonValues {
 public:
  explicit JsonValues(Values& values) : values_(values), json_(values.source()) {}

  ValueId read() {
    const ValueId root = value();
    json_.end();
    return root;
  }

 private:
  ValueId value() {
    using Kind = JsonReader::Kind;
    switch (json_.kind()) {
      case Kind::object: {
        const ValueId made = values_.container(Values::Kind::dict);
        json_.members([&](const std::string& key) {
          const std::array pair{values_.copy(key), value()};
          values_.append(made, pair.data(), pair.size());
        });
        return made;
      }
      case Kind::list: {
        const ValueId made = values_.container(Values::Kind::list);
        json_.elements([&] {
          const ValueId element = value();
          values_.append(made, &element, 1);
        });
        return made;
      }
      case Kind::string:
        return values_.copy(json_.string());
      case Kind::boolean:
        return values_.boolean(json_.boolean());
      case Kind::number:
        return number(json_.skip());
      case Kind::null:
        json_.skip();
        break;
    }
    return values_.none();
  }

  ValueId number(std::string_view text) {
    std::int64_t whole = 0;
    const char* end = text.data() + text.size();
    if (const auto read = std::from_chars(text.data(), end, whole);
        read.ec == std::errc{} && read.ptr == end)
      return values_.integer(whole);
    double real = 0;
    std::from_chars(text.data(), end, real);
    return values_.real(real);
  }

  Values& values_;
  JsonReader json_;
};

}  // namespace

Pickle read_json(std::string content) {
  Pickle document{Values{std::move(content)}};
  try {
    document.root = JsonValues{document.values}.read();
  } catch (const JsonError& error) {
    throw DumpError(error.what());
  }
  return document;
}

}  // namespace lockstep::flight
