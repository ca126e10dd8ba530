#include "viz/data/window/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::viz {

std::filesystem::path settings_file() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  // The specification says to ignore relative paths.
  if (config && config[0] == '/') return std::filesystem::path{config} / "lockstep" / "viewer.json";
  if (home && home[0] == '/')
    return std::filesystem::path{home} / ".config" / "lockstep" / "viewer.json";
  return {};
}

Settings load_settings(const std::filesystem::path& file) {
  Settings settings;
  std::ifstream in{file};
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object()) return settings;
  const auto value = [&](const char* key) {
    return json.contains(key) ? json[key] : nlohmann::json{};
  };
  if (value("theme") == "light") settings.theme = Theme::light;
  const auto number = [&](const char* key, double least, double most, double otherwise) {
    const auto found = value(key);
    const double read = found.is_number() ? found.get<double>() : otherwise;
    return std::isfinite(read) && read >= least && read <= most ? read : otherwise;
  };
  settings.scale = number("scale", least_scale, most_scale, settings.scale);
  settings.width = static_cast<int>(number("width", smallest_window, largest_window, 1600));
  settings.height = static_cast<int>(number("height", smallest_window, largest_window, 900));
  settings.critical_path = value("critical_path") == true;
  settings.predicted = value("predicted") == true;
  if (const auto recent = value("recent"); recent.is_array()) {
    for (const auto& each : recent)
      if (each.is_string() && settings.recent.size() < most_recent)
        settings.recent.push_back(each.get<std::string>());
  }
  return settings;
}

bool replace_file(const std::filesystem::path& file, const std::string& text) {
  const auto temporary =
      std::filesystem::path{file.string() + "." + std::to_string(::getpid()) + ".new"};
  std::ofstream out{temporary};
  out << text << "\n";
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, file, error);
  if (out && !error) return true;
  std::filesystem::remove(temporary, error);
  return false;
}

bool save_settings(const Settings& settings, const std::filesystem::path& file) {
  const nlohmann::ordered_json json{{"theme", settings.theme == Theme::light ? "light" : "dark"},
                                    {"scale", settings.scale},
                                    {"width", settings.width},
                                    {"height", settings.height},
                                    {"critical_path", settings.critical_path},
                                    {"predicted", settings.predicted},
                                    {"recent", settings.recent}};
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  // Paths may contain any bytes.
  return replace_file(file, json.dump(2, ' ', false, decltype(json)::error_handler_t::replace));
}

void remember(Settings& settings, const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
  if (error) whole = std::filesystem::absolute(path, error);
  std::erase(settings.recent, whole.string());
  settings.recent.insert(settings.recent.begin(), whole.string());
  if (settings.recent.size() > most_recent) settings.recent.resize(most_recent);
}

std::pair<int, int> first_window(std::pair<int, int> wanted, std::pair<int, int> work_area,
                                 double scale) {
  constexpr int frame_width = 16, frame_height = 48;  // about, of a title bar and borders
  const auto fitting = [&](int size, int area, int frame) {
    const int scaled = static_cast<int>(std::lround(size * std::clamp(scale, 1.0, most_scale)));
    if (area <= 0) return scaled;
    return std::clamp(scaled, smallest_window, std::max(area - frame, smallest_window));
  };
  return {fitting(wanted.first, work_area.first, frame_width),
          fitting(wanted.second, work_area.second, frame_height)};
}

double scale_of_window(double of_screen, int height) {
  const double least = height > 2700 ? 2 : height > 1800 ? 1.5 : 1;
  return std::clamp(of_screen, least, most_scale);
}

}  // namespace lockstep::viz
