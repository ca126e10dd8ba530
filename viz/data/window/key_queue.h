#pragma once

#include <deque>
#include <vector>

namespace lockstep::viz {

/// The events of the keyboard that no frame has taken yet. A frame sees only which keys are down,
/// so a key that is pressed and released between two frames would be lost, and of two keys pressed
/// between them, the order.
class KeyQueue {
 public:
  /// A press or a release of a key, or a character that was typed.
  struct Event {
    enum class Kind { press, release, character };
    Kind kind = Kind::press;
    int key = 0;        ///< the window system's number; of a character: its code point
    int scancode = 0;   ///< of a key
    int modifiers = 0;  ///< of a key: bits that the window system defines
    bool operator==(const Event&) const = default;
  };

  void add(const Event& event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }
  /// Removes the events that belong in the next frame, and returns them: at most one press, and no
  /// release of the key that it pressed.
  std::vector<Event> take();

 private:
  std::deque<Event> events_;
};

}  // namespace lockstep::viz
