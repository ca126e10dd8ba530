#include "viz/app/fonts.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace lockstep::viz {
namespace {

constexpr float body_size = 15, small_size = 12.5f, large_size = 22;

/// Asks fontconfig for a TrueType font that contains the glyphs that the viewer prints.
std::filesystem::path proposed_font(bool bold) {
  const std::string command =
      std::string{"fc-match --format='%{file}' ':fontformat=TrueType:charset=3b2 2190 2026"} +
      (bold ? ":bold" : "") + "' 2>/dev/null";
  std::FILE* answer = ::popen(command.c_str(), "r");
  if (!answer) return {};
  char path[4096] = {};
  const std::size_t length = std::fread(path, 1, sizeof path - 1, answer);
  ::pclose(answer);
  const std::filesystem::path found{std::string(path, length)};
  std::error_code ignored;
  return found.extension() == ".ttf" && std::filesystem::is_regular_file(found, ignored)
             ? found
             : std::filesystem::path{};
}

/// Returns the path of a DejaVu font in the usual places or, if there is none, of the font that
/// fontconfig proposes; "" without either.
std::filesystem::path font_file(const std::string& name) {
  std::vector<std::filesystem::path> folders{
      "/usr/share/fonts/truetype/dejavu",   "/usr/share/fonts/dejavu", "/usr/share/fonts/TTF",
      "/usr/share/fonts/dejavu-sans-fonts", "/usr/local/share/fonts",  "/Library/Fonts"};
  if (const char* home = std::getenv("HOME")) {
    folders.push_back(std::filesystem::path{home} / ".local/share/fonts");
    folders.push_back(std::filesystem::path{home} / ".fonts");
  }
  std::error_code ignored;
  for (const auto& folder : folders) {
    if (std::filesystem::is_regular_file(folder / name, ignored)) return folder / name;
  }
  return proposed_font(name.find("Bold") != std::string::npos);
}

}  // namespace

bool load_fonts(Look& look, const std::filesystem::path& file) {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  // Latin, Greek, and the arrows, dots and dashes used in lane names and formulas.
  static const ImWchar glyphs[] = {0x20,   0xff,   0x370,  0x3ff,  0x2010, 0x2027,
                                   0x2190, 0x21ff, 0x2200, 0x22ff, 0};
  ImFontConfig whole_pixels;  // see Window::sharpen_fonts()
  whole_pixels.OversampleH = whole_pixels.OversampleV = 1;
  whole_pixels.PixelSnapH = true;
  bool found = true;
  const auto load = [&](const char* name, float size) {
    const auto path = file.empty() ? font_file(name) : file;
    ImFont* font = path.empty()
                       ? nullptr
                       : atlas.AddFontFromFileTTF(path.c_str(), std::round(size * look.scale),
                                                  &whole_pixels, glyphs);
    if (font) return font;
    found = false;
    ImFontConfig built_in;
    built_in.SizePixels = std::round(size * look.scale);
    return atlas.AddFontDefault(&built_in);
  };
  look.body = load("DejaVuSans.ttf", body_size);
  look.bold = load("DejaVuSans-Bold.ttf", body_size);
  look.small = load("DejaVuSans.ttf", small_size);
  look.large = load("DejaVuSans-Bold.ttf", large_size);
  return found;
}

}  // namespace lockstep::viz
