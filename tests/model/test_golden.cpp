#include "core/model/checkpoint/safetensors.h"
#include "tests/model/fixture.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

const std::string golden_folder = LOCKSTEP_SOURCE_DIR "/tests/golden/";

Floats read(SafetensorsFile& file, const std::string& name, const Shape& shape) {
  Floats values(static_cast<std::size_t>(shape.elements()));
  file.read(name, {values.data(), shape});
  return values;
}

struct Distance {
  double parity = 0;  ///< ‖a − b‖₂ / max(‖b‖₂, √n · 0.02), core/README.md, "Parity"
  double relative = 0;  ///< ‖a − b‖₂ / ‖b‖₂; stricter for small gradients
};

Distance distance(const Floats& a, const Floats& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  const double floor = std::sqrt(static_cast<double>(b.size())) * 0.02;
  return {std::sqrt(difference) / std::max(std::sqrt(size), floor), std::sqrt(difference / size)};
}

}  // namespace

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
        distance(floats(logits), read(golden, kind + "logits", logits_shape));
    CHECK(of_logits.parity < 1e-5);

    Stash stash;
    model.forward(microbatch, {}, stash);
    const double loss = model.loss(stash);
    const double wanted = static_cast<double>(read(golden, kind + "loss", {1})[0]);
    const double of_loss = std::abs(loss - wanted) / wanted;
    CHECK(of_loss < 1e-6);

    model.backward({}, stash);
    model.finish_gradients();
    Distance most;
    for (const Parameter* parameter : model.parameters()) {
      CAPTURE(parameter->name);
      const Distance d =
          distance(floats(parameter->gradient),
                   read(golden, kind + "gradient." + parameter->name, parameter->shape));
      CHECK(d.parity < 1e-5);
      CHECK(d.relative < 1e-5);
      most = {std::max(most.parity, d.parity), std::max(most.relative, d.relative)};
    }
    MESSAGE(kind << " largest differences: logits " << of_logits.parity << ", loss " << of_loss
                 << ", gradients " << most.parity << " (parity), " << most.relative
                 << " (relative)");
  }
}
