#include <limits>

#include "core/comm/transport/control.h"
#include "core/model/checkpoint/background_save.h"
#include "core/model/checkpoint/checkpoint.h"
#include "tests/model/sharded.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("a save in the background has the state at its begin, and the last one stays") {
  const TemporaryFolder folder;
  const std::string path = folder / "checkpoint";
  GptConfig config{.layers = 3, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 11};
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    const Layout layout{Plan{config, Mesh::along(Axis::pp, ranks)}};
    const WholeState first{layout.plan, 1}, second{layout.plan, 2};
    const std::string failure = on_ranks(ranks, [&](Transport& transport) {
      auto own = transport.worker("checkpoints");
      own->work_in_background();
      BackgroundSave saves{std::move(own), path, layout.plan};
      RankState mine{layout.plan, transport.rank(), false};
      mine.optimizer->resume(17);
      mine.set(first);
      saves.begin(mine.state(18));
      // The training goes on, and its own control messages do not disturb those of the save.
      mine.set(second);
      const auto texts = gather_to_all(transport, std::to_string(transport.rank()));
      CHECK(texts.size() == static_cast<std::size_t>(ranks));
      saves.finish();
      if (transport.rank() == 0) CHECK(trained_steps(path, layout.plan) == 18);
      gather_to_all(transport, "");
      mine.set(first);
      saves.begin(mine.state(20));
      mine.set(second);
      saves.finish();
    });
    CHECK(failure.empty());
    CHECK(loads(layout, path, first));
  }
}

TEST_CASE("a save in the background that fails says so in finish(), and keeps the one before") {
  const TemporaryFolder folder;
  const std::string path = folder / "checkpoint";
  const Layout layout{
      Plan{{.layers = 1, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 11}, Mesh{}}};
  const WholeState whole{layout.plan, 1};
  const std::string failure = on_ranks(1, [&](Transport& transport) {
    BackgroundSave saves{transport.worker("checkpoints"), path, layout.plan};
    RankState mine{layout.plan, 0, false};
    mine.optimizer->resume(17);
    mine.set(whole);
    saves.begin(mine.state(20));
    saves.finish();
    mine.pointers.front()->value.f32()[0] = std::numeric_limits<float>::infinity();
    saves.begin(mine.state(21));
    CHECK_THROWS_WITH_AS(saves.finish(), doctest::Contains("nothing was saved"), RunError);
    saves.finish();  // it says so once
  });
  CHECK(failure.empty());
  CHECK(loads(layout, path, whole));
}
