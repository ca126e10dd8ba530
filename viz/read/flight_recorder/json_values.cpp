#include "viz/read/flight_recorder/json_values.h"

#include <array>
#include <charconv>

#include "core/base/json_reader.h"
#include "core/base/number.h"

namespace lockstep::flight {
namespace {

class JsonValues {
 public:
  JsonValues(std::string_view content, Values& values) : json_(content), values_(values) {}

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
          const std::array pair{values_.text(key), value()};
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
        return values_.text(json_.string());
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
    if (const auto integer = number_from<std::int64_t>(text)) return values_.integer(*integer);
    double real = 0;
    std::from_chars(text.data(), text.data() + text.size(), real);
    return values_.real(real);
  }

  JsonReader json_;
  Values& values_;
};

}  // namespace

Document read_json(std::string_view content) {
  Document document{Values{content.size()}};
  try {
    document.root = JsonValues{content, document.values}.read();
  } catch (const JsonError& error) {
    throw DumpError(error.what());
  }
  return document;
}

}  // namespace lockstep::flight
