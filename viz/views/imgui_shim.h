#pragma once

#include <imgui.h>

#ifndef GLFW_INCLUDE_NONE
#define GLFW_INCLUDE_NONE
#endif
#include <GLFW/glfw3.h>

namespace lockstep::viz {

/// The keys that the viewer uses, for the installed version of Dear ImGui. Before 1.87, a key was
/// the window system's key code.
#if IMGUI_VERSION_NUM < 18700
inline void set_cursor(ImVec2 at) {
  ImGui::GetIO().MousePos = at;
}
inline void set_button(int button, bool down) {
  ImGui::GetIO().MouseDown[button] = down;
}
inline void set_wheel(float notches) {
  ImGui::GetIO().MouseWheel = notches;
}
/// Lets Dear ImGui's own widgets find their keys; with a window, its backend does this.
inline void map_keys() {
  ImGui::GetIO().KeyMap[ImGuiKey_Escape] = GLFW_KEY_ESCAPE;
  ImGui::GetIO().KeyMap[ImGuiKey_Enter] = GLFW_KEY_ENTER;
}
inline void set_key(int key, bool down) {
  ImGui::GetIO().KeysDown[key] = down;
}
inline void set_modifiers(bool ctrl, bool shift) {
  ImGui::GetIO().KeyCtrl = ctrl;
  ImGui::GetIO().KeyShift = shift;
}
namespace keys {
constexpr int a = GLFW_KEY_A, b = GLFW_KEY_B, c = GLFW_KEY_C, d = GLFW_KEY_D, e = GLFW_KEY_E,
              f = GLFW_KEY_F, g = GLFW_KEY_G, h = GLFW_KEY_H, l = GLFW_KEY_L, m = GLFW_KEY_M,
              i = GLFW_KEY_I, j = GLFW_KEY_J, n = GLFW_KEY_N, o = GLFW_KEY_O, p = GLFW_KEY_P,
              q = GLFW_KEY_Q, r = GLFW_KEY_R, s = GLFW_KEY_S, t = GLFW_KEY_T, u = GLFW_KEY_U,
              v = GLFW_KEY_V, w = GLFW_KEY_W, x = GLFW_KEY_X, y = GLFW_KEY_Y, z = GLFW_KEY_Z,
              left = GLFW_KEY_LEFT, right = GLFW_KEY_RIGHT, up = GLFW_KEY_UP, down = GLFW_KEY_DOWN,
              page_up = GLFW_KEY_PAGE_UP, page_down = GLFW_KEY_PAGE_DOWN, home = GLFW_KEY_HOME,
              space = GLFW_KEY_SPACE, escape = GLFW_KEY_ESCAPE, backspace = GLFW_KEY_BACKSPACE,
              enter = GLFW_KEY_ENTER;
}
/// Returns the key of a digit above the letters.
inline int digit_key(int digit) {
  return GLFW_KEY_0 + digit;
}
inline bool key_down(int key) {
  return ImGui::IsKeyDown(key);
}
inline bool key_pressed(int key, bool repeat = true) {
  return ImGui::IsKeyPressed(key, repeat);
}
#else
inline void set_cursor(ImVec2 at) {
  ImGui::GetIO().AddMousePosEvent(at.x, at.y);
}
inline void set_button(int button, bool down) {
  ImGui::GetIO().AddMouseButtonEvent(button, down);
}
inline void set_wheel(float notches) {
  ImGui::GetIO().AddMouseWheelEvent(0, notches);
}
inline void map_keys() {}
inline void set_key(ImGuiKey key, bool down) {
  ImGui::GetIO().AddKeyEvent(key, down);
}
inline void set_modifiers(bool ctrl, bool shift) {
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Ctrl, ctrl);
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Shift, shift);
}
namespace keys {
constexpr ImGuiKey a = ImGuiKey_A, b = ImGuiKey_B, c = ImGuiKey_C, d = ImGuiKey_D, e = ImGuiKey_E,
                   f = ImGuiKey_F, g = ImGuiKey_G, h = ImGuiKey_H, i = ImGuiKey_I, j = ImGuiKey_J,
                   l = ImGuiKey_L, m = ImGuiKey_M, n = ImGuiKey_N, o = ImGuiKey_O, p = ImGuiKey_P,
                   q = ImGuiKey_Q, r = ImGuiKey_R, s = ImGuiKey_S, t = ImGuiKey_T, u = ImGuiKey_U,
                   v = ImGuiKey_V, w = ImGuiKey_W, x = ImGuiKey_X, y = ImGuiKey_Y, z = ImGuiKey_Z,
                   left = ImGuiKey_LeftArrow, right = ImGuiKey_RightArrow, up = ImGuiKey_UpArrow,
                   down = ImGuiKey_DownArrow, page_up = ImGuiKey_PageUp,
                   page_down = ImGuiKey_PageDown, home = ImGuiKey_Home, space = ImGuiKey_Space,
                   escape = ImGuiKey_Escape, backspace = ImGuiKey_Backspace, enter = ImGuiKey_Enter;
}
inline ImGuiKey digit_key(int digit) {
  return static_cast<ImGuiKey>(static_cast<int>(ImGuiKey_0) + digit);
}
inline bool key_down(ImGuiKey key) {
  return ImGui::IsKeyDown(key);
}
inline bool key_pressed(ImGuiKey key, bool repeat = true) {
  return ImGui::IsKeyPressed(key, repeat);
}
#endif

/// Returns whether a character was typed in this frame. Unlike a key, it does not depend on the
/// keyboard's layout.
inline bool typed(char character) {
  for (const ImWchar each : ImGui::GetIO().InputQueueCharacters)
    if (each == static_cast<ImWchar>(character)) return true;
  return false;
}

/// Converts an OpenGL texture name to Dear ImGui's handle, which was a plain pointer before 1.91.4.
inline ImTextureID texture_id(unsigned number) {
#if IMGUI_VERSION_NUM < 19140
  return reinterpret_cast<ImTextureID>(static_cast<intptr_t>(number));
#else
  return static_cast<ImTextureID>(number);
#endif
}

inline unsigned texture_number(ImTextureID id) {
#if IMGUI_VERSION_NUM < 19140
  return static_cast<unsigned>(reinterpret_cast<intptr_t>(id));
#else
  return static_cast<unsigned>(id);
#endif
}

}  // namespace lockstep::viz
