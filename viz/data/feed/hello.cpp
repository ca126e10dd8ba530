#include "viz/data/feed/hello.h"

#include <limits>

#include "core/base/json_reader.h"

namespace lockstep::viz {

Hello parse_hello(std::string_view line) {
  while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.remove_suffix(1);
  using Use = JsonReader::Field::Use;
  JsonReader in{line};
  Hello hello;
  try {
    in.object({{"args", [&] {
                  in.object({{"rank",
                              [&] {
                                hello.rank =
                                    static_cast<int>(in.whole(0, std::numeric_limits<int>::max()));
                              }},
                             {"run", [&] { hello.run = in.string(); }, Use::optional},
                             {"token", [&] { hello.token = in.string(); }, Use::optional}});
                }}});
    in.end();
  } catch (const JsonError&) {
    return {};
  }
  return hello;
}

bool same_secret(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

}  // namespace lockstep::viz
