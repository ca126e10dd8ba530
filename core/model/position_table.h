#pragma once

#include <vector>

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// The position table of an embedding, and the rows of it that the rank's tokens use. Every rank
/// that embeds tokens holds the whole table. A Llama has no position table: its attention applies
/// the positions (rotary.h).
class PositionTable {
 public:
  /// `own` are the positions of the rank's tokens in each sequence; empty means all.
  PositionTable(const LayerSite& site, std::vector<Positions> own);

  /// Calls use(rows) with the values of the rank's rows, (c, h), or an empty view without a table.
  template <class Use>
  void with_values(const Use& use) const {
    if (own_.empty() || !exists()) return use(parameter_.value);
    const Tensor rows = gathered(parameter_.value);
    use(rows);
  }
  /// Calls add(rows), which adds to the gradients of the rank's rows, (c, h), or an empty view.
  template <class Add>
  void with_gradients(const Add& add) {
    if (own_.empty() || !exists()) return add(parameter_.gradient);
    const Tensor rows = gathered(parameter_.gradient);
    add(rows);
    for_rows(parameter_.gradient, rows, [&](View table, View own) { ops_.copy(own, table); });
  }

  void collect(std::vector<Parameter*>& parameters) {
    if (exists()) parameters.push_back(&parameter_);
  }

 private:
  bool exists() const { return parameter_.shape.rank() > 0; }
  Tensor gathered(View table) const;
  /// Calls visit(rows of the table, own rows) for each range of positions.
  template <class Visit>
  void for_rows(View table, View own, const Visit& visit) const {
    const std::int64_t h = table.shape.last();
    const auto rows = [&](View view, std::int64_t first, std::int64_t count) {
      return view.reshaped({view.elements()}).columns(first * h, count * h);
    };
    std::int64_t first = 0;
    for (const auto& [begin, end] : own_) {
      visit(rows(table, begin, end - begin), rows(own, first, end - begin));
      first += end - begin;
    }
  }

  Ops ops_;
  std::vector<Positions> own_;
  Parameter parameter_;
};

}  // namespace lockstep
