#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/base/json_reader.h"
#include "tests/support/complaints.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

using Use = JsonReader::Field::Use;

/// Returns the reason why the reader refuses a text, or "(nothing thrown)".
std::string objection(const std::string& text) {
  return complaint_of<JsonError>([&] {
    JsonReader in{text};
    in.skip();
    in.end();
  });
}

bool accepts(const std::string& text) {
  return objection(text) == "(nothing thrown)";
}

/// Returns the value that the reader's calls yield, for comparison with another parser's.
nlohmann::json value_of(JsonReader& in) {
  nlohmann::json value;
  switch (in.kind()) {
    case JsonReader::Kind::object:
      value = nlohmann::json::object();
      in.members([&](const std::string& key) {
        const std::string name = key;
        value[name] = value_of(in);
      });
      return value;
    case JsonReader::Kind::list:
      value = nlohmann::json::array();
      in.elements([&] { value.push_back(value_of(in)); });
      return value;
    case JsonReader::Kind::string:
      return in.string();
    case JsonReader::Kind::number:
      return in.number();
    case JsonReader::Kind::boolean:
      return in.boolean();
    case JsonReader::Kind::null:
      break;
  }
  in.skip();
  return value;
}

const std::string sample = R"( {"a": [1, -2.5e-3, 0, 1E+2, true, false, null, [], {}],
  "b\n": {"c": "x\"\\\/\b\f\r\t\u00e9\ud83d\ude80→", "": "" } , "d":[ ] } )";

}  // namespace

TEST_CASE("it reads what another parser reads") {
  JsonReader in{sample};
  CHECK(value_of(in) == nlohmann::json::parse(sample));
  in.end();
}

TEST_CASE("it accepts what another parser accepts, of mutated texts") {
  std::mt19937 random{11};
  const std::string bytes = "{}[]\",:\\u0123eE+-.tfn \n\x01\x80\xc3\xa9/";
  int accepted = 0;
  for (int i = 0; i < 40'000; ++i) {
    std::string text = sample;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char byte = bytes[random() % bytes.size()];
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 4);
      else if (random() % 2 == 0)
        text.insert(at, 1, byte);
      else
        text[at] = byte;
    }
    CAPTURE(text);
    accepted += accepts(text) ? 1 : 0;
    CHECK(accepts(text) == nlohmann::json::accept(text));
  }
  CHECK(accepted > 2'000);
}

TEST_CASE("what is not JSON gives one line that says where") {
  CHECK(objection("") == "line 1: expected a value, found the end");
  CHECK(objection("{\"a\": 1,\n\n \"b\" 2}") == "line 3: expected :, found 2}");
  CHECK(objection("[1, 2") == "line 1: expected ,, found the end");
  CHECK(objection("[01]") == "line 1: expected ,, found 1]");
  CHECK(objection("[nul]") == "line 1: expected null, found nul]");
  CHECK(objection("\"\x1b[2J\"") ==
        "line 1: expected a character of a string, in UTF-8, found \\x1b[2J\"");
  CHECK(objection("{} {}") == "line 1: expected the end, found {}");
  CHECK(objection("\"\\ud800\"").find("expected \\u") != std::string::npos);
}

TEST_CASE("lists and objects may be only so deep, however long the text is") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(accepts(nested(JsonReader::deepest)));
  CHECK(objection(nested(JsonReader::deepest + 1)).find("at most 32") != std::string::npos);
  CHECK(objection(std::string(10'000'000, '[')).find("at most 32") != std::string::npos);
}

TEST_CASE("a key that is missing, or there twice, is named with the keys around it") {
  const auto read = [](const std::string& text) {
    return complaint_of<JsonError>([&] {
      JsonReader in{text};
      in.members([&](const std::string&) {
        in.object(
            {{"bytes", [&] { in.whole(0, 9); }}, {"crc32", [&] { in.string(); }, Use::optional}});
      });
      in.end();
    });
  };
  CHECK(read(R"({"f": {"crc32": "", "bytes": 9, "more": [1, {}]}})") == "(nothing thrown)");
  CHECK(read(R"({"f": {"crc32": ""}})") == "'f' has no 'bytes'");
  CHECK(read(R"({"f": {"bytes": 1, "b\u0079tes": 2}})") == "'f' has 'bytes' twice");
  CHECK(read(R"({"f": [1]})") == "'f': a list is not an object");
  CHECK(read("7") == "7 is not an object");
  for (const std::string wrong : {"10", "-1", "1.0", "1e0", "9223372036854775808", "null"})
    CHECK(read("{\"f\": {\"bytes\": " + wrong + "}}") ==
          "'f.bytes': " + wrong + " is not a whole number from 0 to 9");
  CHECK(read(R"({"f": {"bytes": 1, "crc32": {"a": 1}}})") ==
        "'f.crc32': an object is not a string");
  const std::string huge = read("{\"" + std::string(1'000'000, '\t') + "\": 3}");
  CHECK(huge.size() < 500);
}

TEST_CASE("counting reads nothing") {
  const std::string text = R"([1, [2, 3], {"a": 4}])";
  JsonReader in{text};
  CHECK(in.count() == 3);
  std::vector<std::size_t> counts;
  in.elements([&] {
    if (in.kind() != JsonReader::Kind::number) counts.push_back(in.count());
    in.skip();
  });
  in.end();
  CHECK(counts == std::vector<std::size_t>{2, 1});
}
