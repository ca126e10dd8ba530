#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::viz {

enum class Theme { dark, light };

/// The settings that the viewer remembers from one start to the next.
struct Settings {
  Theme theme = Theme::dark;
  double scale = 0;  ///< of text and everything else; 0: as the screen asks
  int width = 1600, height = 900;
  bool critical_path = false, predicted = false;  ///< whether they are shown
  std::vector<std::string> recent{};              ///< traces and run folders, the latest first

  bool operator==(const Settings&) const = default;
};

constexpr double least_scale = 0.5, most_scale = 4;
/// Returns the scale to use unless the user has chosen one: the scale that the screen asks for, but
/// at least 1.5 for windows taller than 1,800 pixels, and 2 for those taller than 2,700. Otherwise
/// a 4K screen that asks for no scale would have unreadably small text.
double scale_of_window(double of_screen, int height);
/// Returns the size of a window that opens on a screen whose work area (without bars and docks) has
/// a size in pixels: the wanted size times `scale`, or as much of it as fits with its frame. If the
/// work area is unknown (0), returns the wanted size times `scale`.
std::pair<int, int> first_window(std::pair<int, int> wanted, std::pair<int, int> work_area,
                                 double scale);
constexpr int smallest_window = 320, largest_window = 8192;  ///< pixels
constexpr std::size_t most_recent = 8;

/// Returns $XDG_CONFIG_HOME/lockstep/viewer.json, by default in ~/.config (XDG Base Directory
/// Specification). Empty if neither variable is set.
std::filesystem::path settings_file();
/// Reads settings. Missing or malformed settings get their defaults.
Settings load_settings(const std::filesystem::path& file);
/// Writes a text and a newline through a temporary file, so that the file is never incomplete.
/// Returns whether this succeeded.
bool replace_file(const std::filesystem::path& file, const std::string& text);
/// Writes settings. Returns whether this succeeded.
bool save_settings(const Settings& settings, const std::filesystem::path& file);
/// Puts a path at the front of the recent ones.
void remember(Settings& settings, const std::filesystem::path& path);

}  // namespace lockstep::viz
