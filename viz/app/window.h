#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/views/theme.h"

struct GLFWwindow;

namespace lockstep::viz {

/// The appearance of everything in the window.
struct Appearance {
  Theme theme = Theme::dark;
  double scale = 0;              ///< 0: as the screen asks; see scale_of_window()
  std::filesystem::path font{};  ///< a TrueType file for all text; empty: the system's
};

/// A window with an OpenGL context and Dear ImGui, created and destroyed together. One per process.
class Window {
 public:
  /// Throws UsageError if there is no display or no OpenGL. Use a hidden window for screenshots. A
  /// visible window is scaled with the screen if `scales`, and fits the screen; see first_window().
  Window(const std::string& title, int width, int height, bool visible, Appearance appearance = {},
         bool scales = false);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  const Look& look() const { return look_; }
  /// Changes the theme and the scale, between two frames.
  void set_appearance(Theme theme, double scale);
  std::pair<int, int> size() const;
  void set_title(const std::string& title);

  /// Waits up to `seconds` for an event. Returns immediately if an event is pending or wake() has
  /// been called.
  void wait_events(double seconds);
  /// Makes wait_events() return. May be called from any thread.
  static void wake();
  /// Returns whether the window had input since the last call, or has input for another frame.
  bool take_input();
  /// Returns the files and folders dropped on the window since the last call.
  static std::vector<std::string> take_dropped();
  bool closed() const;
  void close();

  void begin_frame();
  /// Fixes the cursor at (x, y) from the next frame on, wherever the mouse is.
  void hold_cursor(int x, int y) { held_cursor_ = {x, y}; }
  /// Holds the left button down, from the next frame on, or releases it.
  void hold_button(bool down) { held_button_ = down; }
  /// Draws the frame built since begin_frame into the back buffer.
  void render();
  /// Returns the back buffer as it will be shown: RGB, top row first.
  std::vector<std::uint8_t> pixels(int& width, int& height) const;
  void swap();

 private:
  void use_appearance();
  static void sharpen_fonts();
  void make_hatch();

  float wanted_scale() const;

  GLFWwindow* window_ = nullptr;
  Appearance appearance_;
  bool visible_ = false;
  Look look_;
  unsigned hatch_ = 0;
  bool font_reported_ = false;
  std::optional<std::pair<int, int>> held_cursor_;
  std::optional<bool> held_button_;
  std::string title_;
};

/// Writes a PNG. Throws RunError on failure.
void write_png(const std::filesystem::path& path, const std::vector<std::uint8_t>& rgb, int width,
               int height);

}  // namespace lockstep::viz
