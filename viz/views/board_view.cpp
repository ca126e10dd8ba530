#include "viz/views/board_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/data/lab/board_words.h"
#include "viz/data/step/words.h"
#include "viz/views/button.h"
#include "viz/views/imgui_shim.h"
#include "viz/views/lab_controls_view.h"
#include "viz/views/lab_schedule_view.h"
#include "viz/views/tip.h"

namespace lockstep::viz {
namespace {

constexpr float buttons_height = 32;
constexpr float line_gap = 4;
constexpr float cell_size = 21, largest_cell = 34, block_gap = 16;
constexpr int most_beside = 4;
constexpr std::size_t columns_of_tip = 48;
constexpr float row_names = 30;          // the width of the names of a block's rows
constexpr float schedule_share = 0.42f;  // of the height
constexpr float axis_height = 16, most_lane = 56;
constexpr std::size_t most_continuations = 3;
constexpr Op all_ops[] = {Op::forward, Op::backward, Op::backward_input, Op::backward_weight};

/// Up to four blocks beside each other fill the width, unless their cells would become too large.
/// The cells of a block that needs more than the whole width are narrower, and without numbers.
float cell_width(const Painter& painter, float width, const Schedule& schedule) {
  const auto beside = static_cast<float>(std::min(schedule.ranks, most_beside));
  const float room = width / beside - painter.px(row_names + block_gap);
  const auto columns = static_cast<float>(schedule.microbatches);
  const float most = (width - painter.px(row_names)) / columns;
  return std::min(std::clamp(room / columns, painter.px(cell_size), painter.px(largest_cell)),
                  most);
}

float cell_height(const Painter& painter, float width) {
  return std::max(width, painter.px(cell_size));
}

/// Returns the height of all blocks.
float cells_height(const Painter& painter, float width, const LabBench& lab) {
  const Schedule& schedule = lab.board.schedule();
  const float cell = cell_width(painter, width, schedule);
  const float block =
      painter.px(row_names + block_gap) + cell * static_cast<float>(schedule.microbatches);
  const float beside = std::max(1.0f, std::floor((width + painter.px(block_gap)) / block));
  const auto rows = static_cast<float>(4 * lab.board.chunks());
  return std::ceil(static_cast<float>(schedule.ranks) / beside) *
             (cell_height(painter, cell) * rows + size_of(painter.look().small) +
              painter.px(6 + block_gap)) +
         painter.px(8);
}

}  // namespace

std::optional<Rect> BoardView::cell_of(const Action& action) const {
  for (const Block& block : blocks_)
    for (std::size_t row = 0; row < block.rows.size(); ++row)
      if (block.rows[row].op == action.op && block.rows[row].stage == action.stage) {
        const float left = block.left + cell_ * static_cast<float>(action.microbatch);
        const float top = block.top + row_ * static_cast<float>(row);
        return Rect{left, top, left + cell_, top + row_};
      }
  return std::nullopt;
}

void BoardView::draw(const Painter& painter, const Rect& rect, LabBench& lab) {
  if (!ImGui::GetIO().WantTextInput && ImGui::GetIO().KeyCtrl) {
    if (key_pressed(keys::z)) lab.board.undo();
    if (key_pressed(keys::y)) lab.board.redo();
  }
  if (version_ != lab.board.version()) {
    version_ = lab.board.version();
    legal_.assign(std::size(all_ops) * lab.board.cells(), false);
    for (int rank = 0; rank < lab.board.schedule().ranks; ++rank)
      for (const Move& move : lab.board.legal_moves(rank))
        legal_[index_of(lab.board, move.action)] = true;
    if (first_ && !lab.board.why_not(*first_).empty()) first_.reset();
    lab.board_words.clear();
  }
  float y = rect.top;
  y = draw_buttons(painter, {rect.left, y, rect.right, y + painter.px(buttons_height)}, lab);
  y = draw_words(painter, {rect.left, y, rect.right, rect.bottom}, lab) + painter.px(line_gap);
  const LabResult& result = lab.board.result();
  Picoseconds end = std::max<Picoseconds>(result.simulation.makespan, 1);
  if (const LabRow* best = best_row(lab.board_table.rows(), lab.board.chunks()))
    end = std::max(end, best->result->simulation.makespan);
  // The cells get the height that they need, as long as the lanes keep at least that share.
  const float bottom =
      std::max(rect.top + schedule_share * rect.height(),
               std::min(rect.bottom - cells_height(painter, rect.width(), lab),
                        y + painter.px(axis_height) +
                            painter.px(most_lane) * static_cast<float>(result.schedule.ranks)));
  draw_lab_axis(painter, {rect.left, y, rect.right, bottom}, end);
  y += painter.px(axis_height);
  draw_lab_schedule(painter, {rect.left, y, rect.right, bottom},
                    {.result = result,
                     .end = end,
                     .observed = ran(lab) && lab.run.outcome() ? &lab.run.outcome()->step : nullptr,
                     .memory_limit = lab.settings.memory_limit});
  draw_cells(painter, {rect.left, bottom + painter.px(8), rect.right, rect.bottom}, lab);
}

bool BoardView::ran(const LabBench& lab) {
  const RunIt& run = lab.run;
  return run.state() != RunIt::State::idle &&
         run.simulated().schedule.actions == lab.board.schedule().actions &&
         run.settings() == lab.board.settings();
}

float BoardView::draw_buttons(const Painter& painter, const Rect& rect, LabBench& lab) {
  ButtonRow row{painter, rect, rect.left};
  row.put_tips_above();
  row.break_lines(rect.height());
  Board& board = lab.board;
  if (row.button("New board", lab.board_outdated(),
                 "an empty board with the ranks, microbatches and chunks of the sliders"))
    lab.new_board();
  const bool v = lab.placement == Placement::v;
  if (row.button("V placement", v, "two stages per rank, down the ranks and up again"))
    lab.placement = v ? Placement::loop : Placement::v;
  if (board.can_undo() && row.button("Undo", false, "Ctrl+Z")) board.undo();
  if (board.can_redo() && row.button("Redo", false, "Ctrl+Y")) board.redo();
  if (board.placed() > 0 && row.button("Clear", false, "remove all actions")) board.clear();
  if (row.button("Join F with B", joins_, "click an F and then a B or I: both start together")) {
    joins_ = !joins_;
    first_.reset();
  }
  const std::vector<KnownAtSize> known = known_at(board, lab.board_table.rows());
  const Recognised recognised = recognise(board.schedule(), known);
  for (std::size_t i = 0; i < std::min(recognised.so_far.size(), most_continuations); ++i) {
    const auto each = std::ranges::find_if(
        known, [&](const KnownAtSize& one) { return one.known->name == recognised.so_far[i]; });
    if (row.button(fmt::format("Next of {}", recognised.so_far[i]), false,
                   "make the next move of this schedule; with Shift, all of them"))
      board.follow(
          each->result->schedule,
          ImGui::GetIO().KeyShift ? static_cast<int>(each->result->schedule.action_count()) : 1);
  }
  if (board.complete()) {
    if (row.button("Run it", false, lab.run_it_words(board.schedule().ranks)))
      lab.run_it(board.result(), board.settings());
    if (row.button("Export CSV", false, "in PyTorch's grammar; lesson 11 runs it"))
      lab.export_board();
  }
  return row.bottom();
}

float BoardView::draw_words(const Painter& painter, const Rect& rect, const LabBench& lab) const {
  const Look& look = painter.look();
  const Board& board = lab.board;
  const auto& rows = lab.board_table.rows();
  float y = rect.top;
  const auto line = [&](const std::string& text, ImU32 colour) {
    painter.text(rect.left, y, painter.fitted(text, look.small, rect.width()), colour, look.small);
    y += size_of(look.small) + painter.px(line_gap);
  };
  if (const std::string differs = new_board_words(board, lab.settings, lab.placement);
      !differs.empty())
    line(differs, palette.accent);
  const Aim aim = aim_of(board, rows);
  line(aim.words, aim.reached ? palette.live : palette.text);
  const std::string recognition =
      recognition_words(board, recognise(board.schedule(), known_at(board, rows)));
  line(fmt::format("{} {}", recognition, figures_words(board)),
       board.result().over_limit.empty() ? palette.text : palette.trouble);
  line(board.complete() ? comparison_words(board, rows) : progress_words(board), palette.text_dim);
  if (first_)
    line(words_of(*first_) + " starts together with ... (click a B or I of this rank)",
         palette.accent);
  else if (!lab.board_words.empty())
    line(lab.board_words, lab.board_refused ? palette.trouble : palette.text);
  else
    line(ran(lab) ? lab.run.words() : "",
         lab.run.state() == RunIt::State::failed ? palette.trouble : palette.text);
  return y;
}

void BoardView::draw_cells(const Painter& painter, const Rect& rect, LabBench& lab) {
  begin_area(painter, "##board", rect);
  const Painter inner{ImGui::GetWindowDrawList(), painter.look()};
  const ImVec2 start = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const Schedule& schedule = lab.board.schedule();
  cell_ = cell_width(inner, width, schedule);
  row_ = cell_height(inner, cell_);
  blocks_.clear();
  const float block_width =
      inner.px(row_names + block_gap) + cell_ * static_cast<float>(schedule.microbatches);
  const float title = size_of(inner.look().small) + inner.px(6);
  float x = start.x, y = start.y, bottom = y;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    Block block;
    block.rank = rank;
    for (int stage = 0; stage < schedule.stages; ++stage)
      if (schedule.rank_of_stage[static_cast<std::size_t>(stage)] == rank)
        for (const Op op : all_ops) block.rows.push_back({op, stage, 0});
    if (x > start.x && x + block_width - inner.px(block_gap) > start.x + width) {
      x = start.x;
      y = bottom;
    }
    block.title = {x, y, x + block_width, y + title};
    block.left = x + inner.px(row_names);
    block.top = y + title;
    bottom = std::max(
        bottom, block.top + row_ * static_cast<float>(block.rows.size()) + inner.px(block_gap));
    draw_block(inner, block, lab);
    blocks_.push_back(std::move(block));
    x += block_width;
  }
  ImGui::SetCursorScreenPos({start.x, bottom});
  ImGui::Dummy({1, 1});
  end_area();
}

void BoardView::draw_block(const Painter& painter, const Block& block, LabBench& lab) {
  const Look& look = painter.look();
  const Board& board = lab.board;
  const auto columns = static_cast<float>(board.schedule().microbatches);
  painter.text(block.title.left, block.title.top, fmt::format("rank {}", block.rank),
               palette.text_dim, look.small);
  ImGui::SetCursorScreenPos({block.left, block.top});
  ImGui::PushID(block.rank);
  const bool clicked = ImGui::InvisibleButton(
      "##cells", {cell_ * columns, row_ * static_cast<float>(block.rows.size())});
  const bool hovered = ImGui::IsItemHovered();
  ImGui::PopID();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  for (std::size_t row = 0; row < block.rows.size(); ++row) {
    const float top = block.top + row_ * static_cast<float>(row);
    if (!ImGui::IsRectVisible({block.left, top}, {block.left + cell_ * columns, top + row_}))
      continue;
    const Action& first = block.rows[row];
    painter.text(block.left - painter.px(6), top + (row_ - size_of(look.small)) / 2,
                 fmt::format("{}{}", first.stage, letter(first.op)), palette.text_dim, look.small,
                 Align::right);
    const ImU32 colour = colour_of(category(first.op));
    for (int microbatch = 0; microbatch < board.schedule().microbatches; ++microbatch) {
      const float left = block.left + cell_ * static_cast<float>(microbatch);
      const Rect cell{left + 1, top + 1, left + cell_ - 1, top + row_ - 1};
      const Move move{block.rank, {first.op, first.stage, microbatch}, {}};
      const bool legal = legal_[index_of(board, move.action)];
      const bool placed = board.has(first.op, first.stage, microbatch);
      const bool chosen = first_ && *first_ == move;
      if (legal) painter.fill(cell, colour, painter.px(3));
      if (placed) painter.fill(cell, faded(colour, 0.25f), painter.px(3));
      if (!legal && !placed) painter.frame(cell, palette.panel_edge, painter.px(3));
      if (chosen) painter.frame(cell, palette.highlight, painter.px(3), 2);
      painter.text_in({left, top, left + cell_, top + row_}, std::to_string(microbatch),
                      legal ? palette.text_on_box : palette.text_dim, look.small);
      if (!hovered || !Rect{left, top, left + cell_, top + row_}.contains(mouse)) continue;
      painter.frame(cell, palette.highlight, painter.px(3));
      const std::string why = board.why_not(move);
      const Rect whole{block.title.left, block.title.top, block.left + cell_ * columns,
                       block.top + row_ * static_cast<float>(block.rows.size())};
      tip_outside(painter, cell, whole, false,
                  wrapped(why.empty() ? words_of(move) + ": legal now" : why, columns_of_tip));
      if (clicked) click(lab, move);
    }
  }
}

void BoardView::click(LabBench& lab, const Move& move) {
  if (!joins_) return lab.play(move);
  if (!first_) {
    lab.board_words = lab.board.why_not(move);
    if (lab.board_words.empty() && move.action.op != Op::forward)
      lab.board_words = "a joint action begins with an F";
    lab.board_refused = !lab.board_words.empty();
    if (!lab.board_refused) first_ = move;
    return;
  }
  Move joint = *first_;
  joint.joined = move.action;
  if (move.rank != joint.rank) {
    lab.board_words = "both halves of a joint action are on one rank";
    lab.board_refused = true;
  } else {
    lab.play(joint);
  }
  first_.reset();
}

}  // namespace lockstep::viz
