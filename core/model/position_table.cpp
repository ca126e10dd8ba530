#include "core/model/position_table.h"

#include <utility>

namespace lockstep {

PositionTable::PositionTable(const LayerSite& site, std::vector<Positions> own)
    : ops_(site.device, site.layer, site.config.dtype),
      own_(std::move(own)),
      parameter_(site.config.llama ? Parameter{}
                                   : site.parameter(position_table_spec(site.config))) {}

Tensor PositionTable::gathered(View table) const {
  std::int64_t count = 0;
  for (const auto& [begin, end] : own_) count += end - begin;
  Tensor own = ops_.activation({count, table.shape.last()}, "position rows");
  for_rows(table, own, [&](View from, View to) { ops_.copy(from, to); });
  return own;
}

}  // namespace lockstep
