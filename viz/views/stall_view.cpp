#include "viz/views/stall_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "viz/views/curved_arrow.h"
#include "viz/views/paragraph.h"
#include "viz/views/tip.h"

namespace lockstep::viz {
namespace {

constexpr float wide = 700;  // units; a narrower view shows no table beside the picture
constexpr float picture_share = 0.58f;
constexpr float gap = 20;
constexpr float most_box_width = 92, most_box_height = 46;
constexpr float box_share = 0.42f;  // of a cell, so that arrows and labels have room
constexpr float names_width = 70;   // of the names of rows
constexpr float bend = 0.14f,
                far_bend = 0.32f;  // shares of an arrow's length; far: around other boxes
constexpr std::array label_places{0.5f, 0.38f, 0.62f, 0.28f, 0.72f, 0.2f, 0.8f};  // along an arrow
constexpr float legend_height = 22;
constexpr std::size_t most_labelled = 40;  // arrows
constexpr float column_gap = 14;

ImU32 colour_of(StallNode::Role role) {
  switch (role) {
    case StallNode::Role::awaited:
    case StallNode::Role::cycle:
      return palette.trouble;
    case StallNode::Role::waiting:
      return palette.wait;
    case StallNode::Role::inside:
      return palette.communication;
    case StallNode::Role::silent:
      return palette.button_active;
    case StallNode::Role::unknown:
      break;
  }
  return palette.lane;
}

const char* name_of(StallNode::Role role) {
  switch (role) {
    case StallNode::Role::awaited:
      return "awaited";
    case StallNode::Role::cycle:
      return "in a cycle";
    case StallNode::Role::waiting:
      return "waits";
    case StallNode::Role::inside:
      return "in an operation that all have called";
    case StallNode::Role::silent:
      return "no operation pending";
    case StallNode::Role::unknown:
      break;
  }
  return "unknown";
}

/// Returns the colour of text on a box: dark on a bright box, and bright on a dark one.
ImU32 text_on(ImU32 box) {
  constexpr unsigned middle = 380;  // of the three channels' sum, 765
  const unsigned sum = (box >> IM_COL32_R_SHIFT & 0xff) + (box >> IM_COL32_G_SHIFT & 0xff) +
                       (box >> IM_COL32_B_SHIFT & 0xff);
  const bool dark_theme = (palette.panel & 0xff) < 0x80;
  return sum < middle && !dark_theme ? palette.panel : palette.text_on_box;
}

/// Returns "0-2 and 4" for "ranks 0-2 and 4", because the header of the column names ranks.
std::string_view without_word(std::string_view ranks) {
  for (const std::string_view word : {"ranks ", "rank "})
    if (ranks.starts_with(word)) return ranks.substr(word.size());
  return ranks;
}

bool overlap(const Rect& a, const Rect& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

}  // namespace

Rect StallView::box_of(std::size_t node) const {
  const ImVec2 centre = centres_[node];
  return {centre.x - box_.x / 2, centre.y - box_.y / 2, centre.x + box_.x / 2,
          centre.y + box_.y / 2};
}

void StallView::draw(const Painter& painter, const Rect& rect, const StallPicture& picture) {
  labels_.clear();
  const bool beside = rect.width() > painter.px(wide);
  const float split = rect.left + rect.width() * (beside ? picture_share : 0.5f);
  draw_picture(painter, {rect.left, rect.top, split, rect.bottom}, picture);
  Rect text{split + painter.px(gap), rect.top, rect.right, rect.bottom};
  ImFont* body = beside ? painter.look().body : painter.look().small;
  for (std::size_t i = 0; i < picture.sentences.size(); ++i)
    text.top =
        paragraph(painter, text, picture.sentences[i], i == 0 ? palette.text : palette.text_dim,
                  i == 0 ? body : painter.look().small) +
        painter.px(6);
  text.top += painter.px(gap) / 2;
  if (beside) draw_table(painter, text, picture);
}

void StallView::place_nodes(const Painter& painter, const Rect& rect, const StallPicture& picture) {
  const float names = picture.row_names.size() > 1 ? painter.px(names_width) : 0;
  const float titles =
      picture.column_names.empty() ? 0 : size_of(painter.look().small) + painter.px(4);
  grid_ = {rect.left + names, rect.top + titles, rect.right, rect.bottom};
  const ImVec2 cell{grid_.width() / static_cast<float>(std::max(picture.columns, 1)),
                    grid_.height() / static_cast<float>(std::max(picture.rows, 1))};
  box_ = {std::min(cell.x * box_share, painter.px(most_box_width)),
          std::min(cell.y * box_share, painter.px(most_box_height))};
  centres_.clear();
  for (const StallNode& node : picture.nodes)
    centres_.push_back({grid_.left + cell.x * (static_cast<float>(node.column) + 0.5f),
                        grid_.top + cell.y * (static_cast<float>(node.row) + 0.5f)});
}

std::optional<std::size_t> StallView::hovered() const {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  for (std::size_t i = 0; i < centres_.size(); ++i)
    if (box_of(i).contains(mouse)) return i;
  return std::nullopt;
}

void StallView::draw_picture(const Painter& painter, const Rect& rect,
                             const StallPicture& picture) {
  Rect inside = rect;
  inside.bottom -= painter.px(legend_height);
  place_nodes(painter, inside, picture);
  draw_names(painter, picture);
  const auto chosen = hovered();
  const auto touches = [&](const StallArrow& arrow) {
    return !chosen || arrow.from == *chosen || arrow.to == *chosen;
  };
  std::vector<bool> near(picture.nodes.size(), !chosen);
  for (const StallArrow& arrow : picture.arrows)
    if (chosen && touches(arrow)) near[arrow.from] = near[arrow.to] = true;
  if (chosen) near[*chosen] = true;
  for (std::size_t i = 0; i < picture.nodes.size(); ++i) labels_.push_back(box_of(i));
  const std::size_t boxes = labels_.size();
  for (const StallArrow& arrow : picture.arrows)
    if (touches(arrow)) draw_arrow(painter, picture, arrow, chosen.has_value());
  for (std::size_t i = 0; i < picture.nodes.size(); ++i) draw_node(painter, picture, i, !near[i]);
  labels_.erase(labels_.begin(), labels_.begin() + static_cast<std::ptrdiff_t>(boxes));
  draw_legend(painter, {rect.left, inside.bottom, rect.right, rect.bottom}, picture);
  if (chosen) {
    const Rect box = box_of(*chosen);
    draw_tip(Painter{ImGui::GetForegroundDrawList(), painter.look()}, box.top, box.bottom,
             picture.nodes[*chosen].lines, colour_of(picture.nodes[*chosen].role));
  }
}

void StallView::draw_names(const Painter& painter, const StallPicture& picture) const {
  ImFont* font = painter.look().small;
  const float width = grid_.width() / static_cast<float>(std::max(picture.columns, 1));
  for (std::size_t i = 0; i < picture.column_names.size(); ++i)
    painter.text(grid_.left + width * (static_cast<float>(i) + 0.5f),
                 grid_.top - size_of(font) - painter.px(2),
                 painter.fitted(picture.column_names[i], font, width), palette.text_dim, font,
                 Align::centre);
  if (picture.row_names.size() < 2) return;
  const float height = grid_.height() / static_cast<float>(picture.rows);
  if (height < size_of(font)) return;
  for (std::size_t i = 0; i < picture.row_names.size(); ++i)
    painter.text(grid_.left - painter.px(names_width),
                 grid_.top + height * (static_cast<float>(i) + 0.5f) - size_of(font) / 2,
                 painter.fitted(picture.row_names[i], font, painter.px(names_width)),
                 palette.text_dim, font);
}

void StallView::draw_arrow(const Painter& painter, const StallPicture& picture,
                           const StallArrow& arrow, bool strong) {
  const StallNode &a = picture.nodes[arrow.from], &b = picture.nodes[arrow.to];
  const bool far = std::max(std::abs(a.column - b.column), std::abs(a.row - b.row)) > 1;
  const CurvedArrow curve{box_of(arrow.from), box_of(arrow.to), far ? far_bend : bend};
  if (!curve.visible()) return;
  curve.draw(painter, faded(arrow.to_awaited ? palette.trouble : palette.text_dim,
                            strong || arrow.to_awaited ? 1.0f : 0.75f));
  if (!strong && picture.arrows.size() > most_labelled) return;
  for (const float place : label_places)
    if (draw_label(painter, curve.at(place), arrow.label)) return;
}

bool StallView::draw_label(const Painter& painter, ImVec2 at, const std::string& label) {
  ImFont* font = painter.look().small;
  const std::string words = painter.fitted(label, font, painter.px(190));
  const float width = painter.text_width(words, font) + painter.px(6);
  const float height = size_of(font) + painter.px(2);
  Rect box{at.x - width / 2, at.y - height / 2, at.x + width / 2, at.y + height / 2};
  if (box.left < grid_.left) box = {grid_.left, box.top, grid_.left + width, box.bottom};
  if (box.right > grid_.right) box = {grid_.right - width, box.top, grid_.right, box.bottom};
  for (const Rect& taken : labels_)
    if (overlap(box, taken)) return false;
  painter.fill(box, faded(palette.panel, 0.9f), painter.px(3));
  painter.text(box.left + painter.px(3), box.top + painter.px(1), words, palette.text, font);
  labels_.push_back(box);
  return true;
}

void StallView::draw_node(const Painter& painter, const StallPicture& picture, std::size_t node,
                          bool faint) const {
  const StallNode& each = picture.nodes[node];
  const Rect box = box_of(node);
  const bool awaited = each.role == StallNode::Role::awaited || each.role == StallNode::Role::cycle;
  const float share = faint ? 0.35f : 1.0f, round = painter.px(4);
  painter.fill(box, each.known ? faded(colour_of(each.role), share) : palette.panel, round);
  if (awaited || !each.known)
    painter.frame(box, faded(awaited ? palette.trouble : palette.text_faint, share), round,
                  painter.px(2));
  const bool on_box = each.known && each.role != StallNode::Role::silent;
  ImFont* font = painter.look().bold;
  const ImU32 colour = on_box ? text_on(colour_of(each.role)) : palette.text;
  const std::string number = std::to_string(each.rank);
  if (!painter.text_in(box, "rank " + number, colour, font))
    painter.text_in(box, number, colour, painter.look().small);
}

void StallView::draw_legend(const Painter& painter, const Rect& rect,
                            const StallPicture& picture) const {
  ImFont* font = painter.look().small;
  const float size = size_of(font) * 0.8f, top = rect.bottom - size_of(font);
  float x = rect.left;
  using Role = StallNode::Role;
  for (const Role role :
       {Role::awaited, Role::cycle, Role::waiting, Role::inside, Role::silent, Role::unknown}) {
    if (std::ranges::count(picture.nodes, role, &StallNode::role) == 0) continue;
    const float width = size + painter.text_width(name_of(role), font) + painter.px(18);
    if (x + width > rect.right) break;
    const Rect box{x, top + (size_of(font) - size) / 2, x + size, top + (size_of(font) + size) / 2};
    painter.fill(box, colour_of(role), painter.px(2));
    if (role == Role::unknown) painter.frame(box, palette.text_faint, painter.px(2));
    painter.text(x + size + painter.px(5), top, name_of(role), palette.text_dim, font);
    x += width;
  }
  if (picture.left_out == 0) return;
  const std::string rest = fmt::format("{} more waits are not drawn", picture.left_out);
  if (x + painter.text_width(rest, font) < rect.right)
    painter.text(x, top, rest, palette.text_faint, font);
}

void StallView::draw_table(const Painter& painter, const Rect& rect,
                           const StallPicture& picture) const {
  if (picture.groups.empty()) return;
  // The columns of group_table() that fit: group, operation, waiting, not called.
  constexpr std::size_t columns = 4;
  constexpr std::array<float, columns> shares{0.34f, 0.24f, 0.21f, 0.21f};
  ImFont* font = painter.look().small;
  const float line = size_of(font) + painter.px(5);
  float y = rect.top;
  for (std::size_t i = 0; i < picture.groups.size(); ++i) {
    const bool last = y + 2 * line > rect.bottom && i + 1 < picture.groups.size();
    if (y + line > rect.bottom) return;
    if (last) {
      painter.text(rect.left, y,
                   fmt::format("{} more: ./lockstep view --summary", picture.groups.size() - i),
                   palette.text_faint, font);
      return;
    }
    float x = rect.left;
    for (std::size_t column = 0; column < columns; ++column) {
      const float width = rect.width() * shares[column];
      painter.text(x, y,
                   painter.fitted(without_word(picture.groups[i][column]), font,
                                  width - painter.px(column_gap)),
                   i == 0 ? palette.text_faint : palette.text, font);
      x += width;
    }
    y += line;
  }
}

}  // namespace lockstep::viz
