#include <map>

#include "core/model/layer_hooks.h"
#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

GptConfig two_blocks(bool tied) {
  return {.layers = 2, .hidden = 24, .heads = 3, .sequence = 10, .vocabulary = 40, .tied = tied};
}

}  // namespace

TEST_CASE("hooks run around every unit, in order") {
  using Log = std::vector<std::pair<char, int>>;
  struct Recording : LayerHooks {
    void before_forward(const Unit& unit) override { log.emplace_back('F', unit.index); }
    void after_forward(const Unit& unit) override { log.emplace_back('f', unit.index); }
    void before_backward(const Unit& unit) override { log.emplace_back('B', unit.index); }
    void after_backward_input(const Unit& unit) override { log.emplace_back('i', unit.index); }
    void after_backward(const Unit& unit) override { log.emplace_back('b', unit.index); }
    Log log;
  } hooks;
  const GptConfig config = two_blocks(true);
  OneDevice one;
  Gpt model{config, one.device(), StageLayers::whole(config), 3};
  const HookScope scope{model, hooks};
  const Batch batch = random_batch(config, 1, 1);
  accumulate_gradients(model, batch);
  const auto then = [](Log first, const Log& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const Log forward{{'F', 0}, {'f', 0}, {'F', 1}, {'f', 1}, {'F', 2}, {'f', 2}, {'F', 3}, {'f', 3}};
  CHECK(hooks.log == then(forward, {{'B', 3},
                                    {'i', 3},
                                    {'b', 3},
                                    {'B', 2},
                                    {'i', 2},
                                    {'b', 2},
                                    {'B', 1},
                                    {'i', 1},
                                    {'b', 1},
                                    {'B', 0},
                                    {'i', 0},
                                    {'b', 0}}));

  hooks.log.clear();
  Stash stash;
  model.forward(batch.microbatches[0], {}, stash);
  model.backward_input({}, stash);
  model.backward_weight(stash);
  CHECK(hooks.log == then(forward, {{'B', 3},
                                    {'i', 3},
                                    {'B', 2},
                                    {'i', 2},
                                    {'B', 1},
                                    {'i', 1},
                                    {'B', 0},
                                    {'i', 0},
                                    {'b', 3},
                                    {'b', 2},
                                    {'b', 1},
                                    {'b', 0}}));

  // Each parameter belongs to exactly one unit, except a tied head's token table, which belongs to
  // two.
  std::size_t count = 0;
  for (const Unit& unit : model.units()) count += unit.parameters.size();
  CHECK(count == model.parameters().size() + 1);
  CHECK(model.units().back().parameters.back() == model.parameters().front());
}

TEST_CASE("hooks nest: the one added later is the inner one, and each can be removed separately") {
  struct Recording : LayerHooks {
    Recording(std::string& log_, char name_) : log(log_), name(name_) {}
    void before_forward(const Unit&) override { log += {name, 'F', ' '}; }
    void after_forward(const Unit&) override { log += {name, 'f', ' '}; }
    void before_backward(const Unit&) override { log += {name, 'B', ' '}; }
    void after_backward_input(const Unit&) override { log += {name, 'i', ' '}; }
    void after_backward(const Unit&) override { log += {name, 'b', ' '}; }
    void gradients_ready(const Unit&) override { log += {name, 'r', ' '}; }
    std::string& log;
    char name;
  };
  GptConfig config = two_blocks(false);
  config.layers = 1;
  OneDevice one;
  Gpt model{config, one.device(), {.first = 0, .last = 1}, 3};
  const Tensor x{one.memory, {1, config.sequence, config.hidden}, MemoryCategory::activations};
  fill_with_zeros(one.device(), x);
  std::string log;
  const auto pass = [&] {
    log.clear();
    Stash stash;
    Tensor y = model.forward({.last = true}, x.share(), stash);
    model.backward(std::move(y), stash);
    return log;
  };
  Recording first{log, '1'}, second{log, '2'};
  {
    HookScope outer{model, first};
    {
      const HookScope inner{model, second};
      CHECK(pass() == "1F 2F 2f 1f 1B 2B 2i 1i 2b 1b 2r 1r ");
    }
    CHECK(pass() == "1F 1f 1B 1i 1b 1r ");
    HookScope inner{model, second};
    outer = HookScope{};  // the outer hooks may be removed first
    CHECK(pass() == "2F 2f 2B 2i 2b 2r ");
    HookScope moved = std::move(inner);
    CHECK(pass() == "2F 2f 2B 2i 2b 2r ");
  }
  CHECK(pass().empty());
}

TEST_CASE("gradients are ready once per step, after the last microbatch, and then stay unchanged") {
  struct Readiness : LayerHooks {
    void after_backward(const Unit& unit) override { ++done[unit.index]; }
    void gradients_ready(const Unit& unit) override {
      units.push_back(unit.index);
      CHECK(done[unit.index] == microbatches);
      if (unit.index == 3) return;  // the tied table belongs to the embedding
      for (const Parameter* parameter : unit.parameters)
        seen.push_back({parameter->name, floats(parameter->gradient)});
    }
    int microbatches = 0;
    std::map<int, int> done;
    std::vector<int> units;
    std::vector<Named> seen;
  };
  const GptConfig config = two_blocks(true);
  for (const int microbatches : {1, 3}) {
    for (const bool halves : {false, true}) {
      CAPTURE(microbatches);
      CAPTURE(halves);
      OneDevice one;
      Gpt model{config, one.device(), StageLayers::whole(config), 3};
      Readiness hooks;
      hooks.microbatches = microbatches;
      const HookScope scope{model, hooks};
      for (const Microbatch& microbatch : random_batch(config, microbatches, 1).microbatches) {
        Stash stash;
        model.forward(microbatch, {}, stash);
        if (!halves) model.backward({}, stash);
        if (halves) model.backward_input({}, stash);
        if (halves) model.backward_weight(stash);
      }
      CHECK(hooks.units == std::vector{3, 2, 1, 0});
      const auto last = gradients(model);
      for (const Named& each : hooks.seen) CHECK(std::ranges::count(last, each) == 1);
      model.finish_gradients();  // has already run
      CHECK(gradients(model) == last);
    }
  }
}
