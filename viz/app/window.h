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

/// A window with OpenGL and Dear ImGui ready: made and unmade as one. One per process.
class Window {
 public:
  /// Throws UsageError without a display or OpenGL. A hidden window is for pictures.
  Window(const std::string& title, int width, int height, bool visible);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  const Look& look() const { return look_; }
  void set_title(const std::string& title);

  /// Waits up to `seconds` for an event; returns at once if there is one, or after wake().
  void wait_events(double seconds);
  /// From any thread: ends wait_events.
  static void wake();
  /// Whether the window had input since the last call.
  bool take_input();
  bool closed() const;
  void close();

  void begin_frame();
  /// From the next frame on the cursor is there, wherever the mouse may be.
  void hold_cursor(int x, int y) { held_cursor_ = {x, y}; }
  /// Draws what was built since begin_frame into the back buffer.
  void render();
  /// The back buffer as it will be shown, RGB rows from the top.
  std::vector<std::uint8_t> pixels(int& width, int& height) const;
  void swap();

 private:
  void load_fonts();
  void make_hatch();

  GLFWwindow* window_ = nullptr;
  Look look_;
  unsigned hatch_ = 0;
  std::optional<std::pair<int, int>> held_cursor_;
  std::string title_;
};

/// Writes a PNG; throws RunError if it can't.
void write_png(const std::filesystem::path& path, const std::vector<std::uint8_t>& rgb, int width,
               int height);

}  // namespace lockstep::viz
