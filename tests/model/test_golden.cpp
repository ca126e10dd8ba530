#include "tests/model/golden.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("loss, logits and every gradient are PyTorch's") {
  for (bool tied : {true, false}) {
    CAPTURE(tied);
    const GptConfig config{
        .layers = 2, .hidden = 48, .heads = 3, .sequence = 24, .vocabulary = 96, .tied = tied};
    const std::string kind = tied ? "tied." : "untied.";
    SafetensorsFile golden{golden_folder + "golden.safetensors"};
    const Shape tokens_shape{2, 24}, logits_shape{2, 24, 96};

    OneDevice one;
    Gpt model{config, one.device(), StageLayers::whole(config), 1};
    for (Parameter* parameter : model.parameters()) golden.read(parameter->name, parameter->value);
    std::vector<std::int32_t> tokens(48), targets(48);
    golden.read("tokens", {tokens.data(), tokens_shape, DType::i32});
    golden.read("targets", {targets.data(), tokens_shape, DType::i32});
    const Microbatch microbatch{{tokens.data(), tokens_shape, DType::i32},
                                {targets.data(), tokens_shape, DType::i32},
                                1.0F / 48};

    const Tensor logits = model.logits(microbatch.tokens);
    const Distance of_logits =
        distance(floats(logits), read_golden(golden, kind + "logits", logits_shape));
    CHECK(of_logits.parity < 1e-5);

    Stash stash;
    model.forward(microbatch, {}, stash);
    const double loss = model.loss(stash);
    const double wanted = static_cast<double>(read_golden(golden, kind + "loss", {1})[0]);
    const double of_loss = std::abs(loss - wanted) / wanted;
    CHECK(of_loss < 1e-6);

    model.backward({}, stash);
    model.finish_gradients();
    Distance most;
    for (const Parameter* parameter : model.parameters()) {
      CAPTURE(parameter->name);
      const Distance d =
          distance(floats(parameter->gradient),
                   read_golden(golden, kind + "gradient." + parameter->name, parameter->shape));
      CHECK(d.parity < 1e-5);
      CHECK(d.relative < 1e-5);
      most.include(d);
    }
    MESSAGE(kind << " largest differences: logits " << of_logits.parity << ", loss " << of_loss
                 << ", gradients " << most.parity << " (parity), " << most.relative
                 << " (relative)");
  }
}
