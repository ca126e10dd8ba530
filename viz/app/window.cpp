#include "viz/app/window.h"

#include <GL/gl.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>
#include <stb_image_write.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "viz/app/fonts.h"
#include "viz/data/window/key_queue.h"
#include "viz/views/imgui_shim.h"

namespace lockstep::viz {
namespace {

constexpr int hatch_lines_width = 2;  // in pixels, of every hatch_pixels

bool input_seen = false;  // set by GLFW callbacks
KeyQueue typed_keys;      // likewise
std::vector<std::string> dropped_paths;
constexpr std::size_t most_dropped = 1024;

void note_input(GLFWwindow*) {
  input_seen = true;
}

/// Dear ImGui forwards events to callbacks that were installed before its own, so these must be
/// installed first.
void watch_input(GLFWwindow* window) {
  glfwSetMouseButtonCallback(window, [](GLFWwindow* w, int, int, int) { note_input(w); });
  glfwSetScrollCallback(window, [](GLFWwindow* w, double, double) { note_input(w); });
  glfwSetCursorPosCallback(window, [](GLFWwindow* w, double, double) { note_input(w); });
  glfwSetCursorEnterCallback(window, [](GLFWwindow* w, int) { note_input(w); });
  glfwSetFramebufferSizeCallback(window, [](GLFWwindow* w, int, int) { note_input(w); });
  glfwSetWindowRefreshCallback(window, note_input);
  glfwSetDropCallback(window, [](GLFWwindow* w, int count, const char** paths) {
    note_input(w);
    for (int i = 0; i < count && dropped_paths.size() < most_dropped; ++i)
      dropped_paths.emplace_back(paths[i]);
  });
}

/// Queues the keyboard's events, instead of passing them on to Dear ImGui at once; so this must be
/// called after Dear ImGui has installed its own callbacks. Dear ImGui repeats a key that is held
/// down by itself.
void queue_keys(GLFWwindow* window) {
  using Kind = KeyQueue::Event::Kind;
  glfwSetKeyCallback(window, [](GLFWwindow* w, int key, int scancode, int action, int modifiers) {
    note_input(w);
    if (action == GLFW_REPEAT) return;
    typed_keys.add({action == GLFW_PRESS ? Kind::press : Kind::release, key, scancode, modifiers});
  });
  glfwSetCharCallback(window, [](GLFWwindow* w, unsigned character) {
    note_input(w);
    typed_keys.add({Kind::character, static_cast<int>(character)});
  });
}

/// Passes the events of the keyboard that belong in the next frame on to Dear ImGui.
void pass_keys(GLFWwindow* window) {
  for (const KeyQueue::Event& event : typed_keys.take()) {
    if (event.kind == KeyQueue::Event::Kind::character) {
      ImGui_ImplGlfw_CharCallback(window, static_cast<unsigned>(event.key));
      continue;
    }
    const bool press = event.kind == KeyQueue::Event::Kind::press;
    ImGui_ImplGlfw_KeyCallback(window, event.key, event.scancode, press ? GLFW_PRESS : GLFW_RELEASE,
                               event.modifiers);
  }
}

/// Returns the size with which a window opens on the primary screen.
std::pair<int, int> size_on_screen(std::pair<int, int> wanted, bool scales) {
  GLFWmonitor* screen = glfwGetPrimaryMonitor();
  if (!screen) return wanted;
  int x = 0, y = 0, width = 0, height = 0;
  glfwGetMonitorWorkarea(screen, &x, &y, &width, &height);
  float x_scale = 1, y_scale = 1;
  glfwGetMonitorContentScale(screen, &x_scale, &y_scale);
#ifdef GLFW_PLATFORM
  // Elsewhere, the system itself multiplies the sizes of windows.
  if (glfwGetPlatform() != GLFW_PLATFORM_X11) x_scale = 1;
#endif
  return first_window(wanted, {width, height}, scales ? static_cast<double>(x_scale) : 1);
}

const char* without_display =
    "Without one: a picture, with --screenshot FILE (needs the packages xvfb and xauth); the "
    "timeline in the terminal, which every lesson draws when it ends; or the trace in a browser, "
    "at "
    "https://ui.perfetto.dev";

}  // namespace

Window::Window(const std::string& title, int width, int height, bool visible, Appearance appearance,
               bool scales)
    : appearance_(std::move(appearance)), visible_(visible), title_(title) {
#ifdef GLFW_PLATFORM
  // GLFW 3.4 tries Wayland first. Without a compositor, Wayland's library would print a line of its
  // own.
  if (std::getenv("WAYLAND_DISPLAY") == nullptr) glfwInitHint(GLFW_PLATFORM, GLFW_PLATFORM_X11);
#endif
  if (!glfwInit())
    throw UsageError(std::string{"there is no display to open a window on. "} + without_display);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 2);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
  glfwWindowHint(GLFW_VISIBLE, visible ? GLFW_TRUE : GLFW_FALSE);
  if (visible) std::tie(width, height) = size_on_screen({width, height}, scales);
  window_ = glfwCreateWindow(width, height, title.c_str(), nullptr, nullptr);
  if (!window_) {
    const char* why = nullptr;
    glfwGetError(&why);
    const std::string reason = why ? why : "unknown";
    glfwTerminate();
    throw UsageError("can't open a window, which needs OpenGL 3.2 or later (" + reason + "). " +
                     without_display);
  }
  glfwMakeContextCurrent(window_);
  glfwSwapInterval(1);

  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  ImGui::GetIO().IniFilename = nullptr;
  watch_input(window_);
  ImGui_ImplGlfw_InitForOpenGL(window_, true);
  queue_keys(window_);
  ImGui_ImplOpenGL3_Init("#version 150");
  make_hatch();
  use_appearance();
  ImGui_ImplOpenGL3_CreateDeviceObjects();
  sharpen_fonts();
}

float Window::wanted_scale() const {
  if (appearance_.scale > 0) return static_cast<float>(appearance_.scale);
  float x_scale = 1, y_scale = 1;
  if (visible_) glfwGetWindowContentScale(window_, &x_scale, &y_scale);
  return static_cast<float>(scale_of_window(static_cast<double>(x_scale), size().second));
}

void Window::use_appearance() {
  look_.scale = wanted_scale();
  apply_theme(look_.scale, appearance_.theme);
#if IMGUI_VERSION_NUM < 19200
  ImGui::GetStyle().AntiAliasedLinesUseTex = false;  // see sharpen_fonts()
#endif
  if (!load_fonts(look_, appearance_.font) && !std::exchange(font_reported_, true))
    std::fprintf(stderr,
                 "no TrueType font found, so Greek letters and arrows are missing; install "
                 "fonts-dejavu-core, or give one with --font\n");
}

void Window::set_appearance(Theme theme, double scale) {
  const bool same_theme = theme == appearance_.theme;
  appearance_.theme = theme;
  appearance_.scale = scale;
  // The window may also have been enlarged, or moved to another screen.
  if (same_theme && wanted_scale() == look_.scale) return;
#if IMGUI_VERSION_NUM < 19200
  ImGui_ImplOpenGL3_DestroyFontsTexture();
#endif
  ImGui::GetIO().Fonts->Clear();
  use_appearance();
#if IMGUI_VERSION_NUM < 19200
  ImGui_ImplOpenGL3_CreateFontsTexture();
  sharpen_fonts();
#endif
}

std::pair<int, int> Window::size() const {
  int width = 0, height = 0;
  glfwGetWindowSize(window_, &width, &height);
  return {width, height};
}

Window::~Window() {
  glDeleteTextures(1, &hatch_);
  ImGui_ImplOpenGL3_Shutdown();
  ImGui_ImplGlfw_Shutdown();
  ImGui::DestroyContext();
  glfwDestroyWindow(window_);
  glfwTerminate();
}

/// Dear ImGui takes all colours from the fonts' texture, and by default interpolates there. Text is
/// placed at whole pixels, so nothing needs interpolation; without it, software OpenGL draws a
/// frame in four fifths of the time.
void Window::sharpen_fonts() {
#if IMGUI_VERSION_NUM < 19200
  glBindTexture(GL_TEXTURE_2D, texture_number(ImGui::GetIO().Fonts->TexID));
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
#endif
}

void Window::make_hatch() {
  constexpr auto size = static_cast<std::size_t>(hatch_pixels);
  std::array<std::uint8_t, size * size * 4> texels{};
  for (std::size_t y = 0; y < size; ++y) {
    for (std::size_t x = 0; x < size; ++x) {
      std::uint8_t* texel = &texels[4 * (y * size + x)];
      texel[0] = texel[1] = texel[2] = 255;
      texel[3] = (x + y) % size < hatch_lines_width ? 255 : 0;
    }
  }
  glGenTextures(1, &hatch_);
  glBindTexture(GL_TEXTURE_2D, hatch_);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_REPEAT);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_REPEAT);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, static_cast<GLsizei>(size), static_cast<GLsizei>(size), 0,
               GL_RGBA, GL_UNSIGNED_BYTE, texels.data());
  look_.hatch = texture_id(hatch_);
}

void Window::set_title(const std::string& title) {
  if (title == title_) return;
  title_ = title;
  glfwSetWindowTitle(window_, title.c_str());
}

void Window::wait_events(double seconds) {
  if (seconds > 0) {
    glfwWaitEventsTimeout(seconds);
  } else {
    glfwPollEvents();
  }
}

void Window::wake() {
  glfwPostEmptyEvent();
}

std::vector<std::string> Window::take_dropped() {
  return std::exchange(dropped_paths, {});
}

bool Window::take_input() {
  return std::exchange(input_seen, false) || !typed_keys.empty();
}

bool Window::closed() const {
  return glfwWindowShouldClose(window_);
}

void Window::close() {
  glfwSetWindowShouldClose(window_, GLFW_TRUE);
}

void Window::begin_frame() {
  pass_keys(window_);
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  if (held_cursor_) {
    set_cursor({static_cast<float>(held_cursor_->first), static_cast<float>(held_cursor_->second)});
  }
  if (held_button_) set_button(0, *held_button_);
  ImGui::NewFrame();
}

void Window::render() {
  ImGui::Render();
  int width = 0, height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  glViewport(0, 0, width, height);
  const ImVec4 clear = ImGui::ColorConvertU32ToFloat4(palette.background);
  glClearColor(clear.x, clear.y, clear.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

std::vector<std::uint8_t> Window::pixels(int& width, int& height) const {
  glfwGetFramebufferSize(window_, &width, &height);
  const auto stride = static_cast<std::size_t>(width) * 3;
  std::vector<std::uint8_t> rows(stride * static_cast<std::size_t>(height));
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadBuffer(GL_BACK);
  glReadPixels(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, rows.data());
  // OpenGL's first row is at the bottom, so swap the rows.
  for (std::size_t top = 0, bottom = static_cast<std::size_t>(height) - 1; top < bottom;
       ++top, --bottom) {
    std::swap_ranges(rows.begin() + static_cast<std::ptrdiff_t>(top * stride),
                     rows.begin() + static_cast<std::ptrdiff_t>((top + 1) * stride),
                     rows.begin() + static_cast<std::ptrdiff_t>(bottom * stride));
  }
  return rows;
}

void Window::swap() {
  glfwSwapBuffers(window_);
}

void write_png(const std::filesystem::path& path, const std::vector<std::uint8_t>& rgb, int width,
               int height) {
  if (!stbi_write_png(path.c_str(), width, height, 3, rgb.data(), 3 * width)) {
    throw RunError("can't write the picture " + path.string());
  }
}

}  // namespace lockstep::viz
