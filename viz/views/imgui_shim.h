#pragma once

#include <imgui.h>

#ifndef GLFW_INCLUDE_NONE
#define GLFW_INCLUDE_NONE
#endif
#include <GLFW/glfw3.h>

namespace lockstep::viz {

/// The keys that the viewer uses, for the Dear ImGui version that it is built with. Before 1.87, a
/// key was the window system's key code.
#if IMGUI_VERSION_NUM < 18700
inline void set_cursor(ImVec2 at) {
  ImGui::GetIO().MousePos = at;
}
namespace keys {
constexpr int a = GLFW_KEY_A, c = GLFW_KEY_C, d = GLFW_KEY_D, f = GLFW_KEY_F, l = GLFW_KEY_L,
              q = GLFW_KEY_Q, s = GLFW_KEY_S, w = GLFW_KEY_W, left = GLFW_KEY_LEFT,
              right = GLFW_KEY_RIGHT, escape = GLFW_KEY_ESCAPE;
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
namespace keys {
constexpr ImGuiKey a = ImGuiKey_A, c = ImGuiKey_C, d = ImGuiKey_D, f = ImGuiKey_F, l = ImGuiKey_L,
                   q = ImGuiKey_Q, s = ImGuiKey_S, w = ImGuiKey_W, left = ImGuiKey_LeftArrow,
                   right = ImGuiKey_RightArrow, escape = ImGuiKey_Escape;
}
inline bool key_down(ImGuiKey key) {
  return ImGui::IsKeyDown(key);
}
inline bool key_pressed(ImGuiKey key, bool repeat = true) {
  return ImGui::IsKeyPressed(key, repeat);
}
#endif

/// Converts an OpenGL texture name to Dear ImGui's handle, which was a plain pointer before 1.91.4.
inline ImTextureID texture_id(unsigned number) {
#if IMGUI_VERSION_NUM < 19140
  return reinterpret_cast<ImTextureID>(static_cast<intptr_t>(number));
#else
  return static_cast<ImTextureID>(number);
#endif
}

}  // namespace lockstep::viz
