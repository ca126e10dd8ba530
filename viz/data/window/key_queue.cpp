#include "viz/data/window/key_queue.h"

#include <optional>

namespace lockstep::viz {

std::vector<KeyQueue::Event> KeyQueue::take() {
  std::vector<Event> taken;
  std::optional<int> pressed;
  while (!events_.empty()) {
    const Event& next = events_.front();
    if (pressed && next.kind == Event::Kind::press) break;
    if (pressed == next.key && next.kind == Event::Kind::release) break;
    if (next.kind == Event::Kind::press) pressed = next.key;
    taken.push_back(next);
    events_.pop_front();
  }
  return taken;
}

}  // namespace lockstep::viz
