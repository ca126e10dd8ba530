// Keys that are pressed faster than frames are drawn.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "tests/viz/interactive.h"
#include "viz/data/window/key_queue.h"

using namespace lockstep;
using namespace lockstep::viz;
using Event = KeyQueue::Event;

namespace {

Event press(char key) {
  return {.kind = Event::Kind::press, .key = key};
}
Event release(char key) {
  return {.kind = Event::Kind::release, .key = key};
}
Event character(char typed) {
  return {.kind = Event::Kind::character, .key = typed};
}

}  // namespace

TEST_CASE("a frame takes at most one press, and no release of the same key") {
  KeyQueue queue;
  CHECK(queue.empty());
  CHECK(queue.take().empty());
  for (const Event& event : {press('G'), character('g'), release('G'), press('P'), character('p'),
                             release('P'), press('G'), release('G')})
    queue.add(event);
  CHECK(queue.take() == std::vector{press('G'), character('g')});
  CHECK(queue.take() == std::vector{release('G'), press('P'), character('p')});
  CHECK(queue.take() == std::vector{release('P'), press('G')});
  CHECK_FALSE(queue.empty());
  CHECK(queue.take() == std::vector{release('G')});
  CHECK(queue.empty());
  // Ctrl stays down until C has been pressed.
  for (const Event& event : {press('^'), press('C'), release('^'), release('C')}) queue.add(event);
  CHECK(queue.take() == std::vector{press('^')});
  CHECK(queue.take() == std::vector{press('C'), release('^')});
  CHECK(queue.take() == std::vector{release('C')});
}

TEST_CASE("two keys that are pressed and released between two frames both work") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const std::map<int, decltype(keys::g)> known{{'G', keys::g}, {'P', keys::p}};
  const bool path = viewer.model.view.critical_path;
  REQUIRE_FALSE(viewer.model.view.ghost);
  KeyQueue queue;
  for (const char key : {'G', 'P'}) {
    queue.add(press(key));
    queue.add(release(key));
  }
  while (!queue.empty()) {
    for (const Event& event : queue.take())
      set_key(known.at(event.key), event.kind == Event::Kind::press);
    viewer.frame();
  }
  CHECK(viewer.model.view.ghost);
  CHECK(viewer.model.view.critical_path != path);
}
