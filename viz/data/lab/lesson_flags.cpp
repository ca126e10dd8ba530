#include "viz/data/lab/lesson_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace lockstep::viz {
namespace {

FlagControl::Kind kind_of(const std::string& word) {
  using Kind = FlagControl::Kind;
  if (word == "switch") return Kind::on_off;
  if (word == "number") return Kind::number;
  if (word == "real") return Kind::real;
  return word == "choice" ? Kind::choice : Kind::text;
}

}  // namespace

std::vector<FlagControl> parse_declared_flags(const std::string& json) {
  std::vector<FlagControl> controls;
  try {
    for (const nlohmann::json& each : nlohmann::json::parse(json)) {
      FlagControl control{.flag = each.at("flag"),
                          .group = each.at("group"),
                          .help = each.at("help"),
                          .kind = kind_of(each.at("kind")),
                          .standard = each.at("default")};
      if (control.flag.starts_with("--view")) continue;
      if (each.contains("words")) control.choices = each["words"];
      if (each.contains("least")) control.least = each["least"];
      if (control.kind == FlagControl::Kind::on_off) control.standard.clear();
      control.value = control.standard;
      controls.push_back(std::move(control));
    }
  } catch (const nlohmann::json::exception&) {
    throw RunError("the lesson's list of flags is malformed; build the lesson again");
  }
  return controls;
}

std::vector<std::string> changed_flags(const std::vector<FlagControl>& controls) {
  std::vector<std::string> flags;
  for (const FlagControl& each : controls) {
    if (!each.changed() || each.value.empty()) continue;
    flags.push_back(each.flag);
    if (each.kind != FlagControl::Kind::on_off) flags.push_back(each.value);
  }
  return flags;
}

std::vector<std::string> groups_of(const std::vector<FlagControl>& controls) {
  std::vector<std::string> groups;
  const auto add = [&](const std::string& group) {
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  };
  for (const FlagControl& each : controls)
    if (each.group == own_group) add(each.group);
  for (const FlagControl& each : controls) add(each.group);
  return groups;
}

}  // namespace lockstep::viz
