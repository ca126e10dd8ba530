#include "core/comm/transport/peers.h"

#include <cstddef>
#include <stdexcept>

namespace lockstep {

View slice(const View& data, std::int64_t first, std::int64_t count) {
  if (!data.contiguous()) throw std::invalid_argument("slice: the view must be contiguous");
  auto* begin = static_cast<std::byte*>(data.data);
  if (begin != nullptr) begin += static_cast<std::size_t>(first) * size_of(data.dtype);
  return View{begin, {count}, data.dtype};
}

View chunk_of(const View& data, int i, int count) {
  const std::int64_t elements = data.elements();
  const std::int64_t least = elements / count;
  const std::int64_t more = elements % count;
  return slice(data, i * least + std::min<std::int64_t>(i, more), least + (i < more ? 1 : 0));
}

}  // namespace lockstep
