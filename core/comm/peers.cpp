#include "core/comm/peers.h"

namespace lockstep {

View slice(View data, std::int64_t first, std::int64_t count) {
  return data.reshaped({data.elements()}).columns(first, count);
}

View chunk_of(View data, int i, int count) {
  const std::int64_t least = data.elements() / count;
  const std::int64_t more = data.elements() % count;
  return slice(data, i * least + std::min<std::int64_t>(i, more), least + (i < more ? 1 : 0));
}

}  // namespace lockstep
