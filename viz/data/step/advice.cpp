#include "viz/data/step/advice.h"

#include <fstream>
#include <iterator>
#include <limits>

#include "core/base/json_reader.h"
#include "core/base/printable.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_sentences = 64;
constexpr std::size_t longest_sentence = 400;
constexpr std::uintmax_t largest_report = std::uintmax_t{64} << 20;

}  // namespace

Advice parse_advice(std::string_view report) {
  using Use = JsonReader::Field::Use;
  JsonReader in{report};
  Advice advice;
  const auto sentence = [&] {
    in.object({{"text", [&] {
                  std::string text = excerpt(in.string(), longest_sentence);
                  if (advice.sentences.size() < most_sentences)
                    advice.sentences.push_back(std::move(text));
                }}});
  };
  try {
    in.object({{"run", [&] { advice.run = in.string(); }, Use::optional},
               {"counterfactuals",
                [&] {
                  in.object({{"step",
                              [&] {
                                advice.step =
                                    static_cast<int>(in.whole(0, std::numeric_limits<int>::max()));
                              }},
                             {"all", [&] { in.elements(sentence); }, Use::optional}});
                },
                Use::optional}});
    in.end();
  } catch (const JsonError&) {
    return {};
  }
  return advice;
}

Advice find_advice(const std::vector<std::filesystem::path>& traces, const std::string& run) {
  std::error_code error;
  for (const auto& path : traces) {
    const bool folder = std::filesystem::is_directory(path, error);
    const auto file = (folder ? path : path.parent_path()) / "report.json";
    if (!std::filesystem::is_regular_file(file, error)) continue;
    if (std::filesystem::file_size(file, error) > largest_report || error) continue;
    std::ifstream in{file, std::ios::binary};
    const std::string text{std::istreambuf_iterator<char>{in}, {}};
    Advice advice = parse_advice(text);
    if (advice.run == run) return advice;
  }
  return {};
}

}  // namespace lockstep::viz
