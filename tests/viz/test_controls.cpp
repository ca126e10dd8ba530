// Keys, clicks and drags on the whole screen, without a window: each changes a named state.
#include <doctest/doctest.h>

#include "tests/viz/interactive.h"

using namespace lockstep;
using namespace lockstep::viz;

TEST_CASE("P and its button show the critical path") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  CHECK_FALSE(viewer.model.view.critical_path);
  viewer.press(keys::p);
  CHECK(viewer.model.view.critical_path);
  viewer.press(keys::p);
  CHECK_FALSE(viewer.model.view.critical_path);
  viewer.click(40, 50 + 17);  // the first button
  CHECK(viewer.model.view.critical_path);
}

TEST_CASE("a click on an action selects it and its chain, and Escape clears both") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  const TimelineSpan forward = viewer.action(1, 1, Category::forward, 2);
  viewer.click_on(1, forward);
  REQUIRE(viewer.model.selected.kind == Finding::Kind::span);
  CHECK(viewer.model.selected.span.start == forward.start);
  REQUIRE(viewer.model.chain.chain);
  CHECK(viewer.model.chain.chain->before.size() == 1);     // F2 on stage 0
  CHECK(viewer.model.chain.chain->after.size() == 2 + 4);  // F2 on 2 and 3, B2 on 3 to 0
  CHECK(viewer.model.chain.has(3, viewer.action(3, 1, Category::backward, 2)));
  CHECK_FALSE(viewer.model.chain.has(3, viewer.action(3, 1, Category::backward, 3)));
  viewer.press(keys::escape);
  CHECK(viewer.model.selected.kind == Finding::Kind::nothing);
  CHECK_FALSE(viewer.model.chain.chain);
}
