#include "core/run/options/declared_flags.h"

#include <nlohmann/json.hpp>

namespace lockstep {

std::string declared_flags(const CommandLine& line) {
  nlohmann::ordered_json flags = nlohmann::ordered_json::array();
  for (const CLI::Option* option : line.app.get_options()) {
    const std::string name = option->get_name();
    if (option->get_group().empty() || name == "--help" || !name.starts_with("--")) continue;
    const std::string type = option->get_type_name();
    const auto words = line.words_of.find(name);
    const auto least = line.least_of.find(name);
    nlohmann::ordered_json flag{{"flag", name},
                                {"group", option->get_group()},
                                {"kind", option->get_expected_max() == 0   ? "switch"
                                         : words != line.words_of.end()    ? "choice"
                                         : type == "INT" || type == "UINT" ? "number"
                                         : type == "FLOAT"                 ? "real"
                                                                           : "text"},
                                {"default", option->get_default_str()},
                                {"help", option->get_description()}};
    if (words != line.words_of.end()) flag["words"] = words->second;
    if (least != line.least_of.end()) flag["least"] = least->second;
    flags.push_back(std::move(flag));
  }
  return flags.dump(1);
}

}  // namespace lockstep
