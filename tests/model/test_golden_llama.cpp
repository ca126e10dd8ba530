#include <numeric>

#include "tests/model/checkpoint_files.h"
#include "tests/model/golden.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// Returns the distance of a parameter's gradient; if the parameter stacks several, the largest of
/// their distances.
Distance distance_of_gradient(SafetensorsFile& expected, const Parameter& parameter) {
  const Floats ours = floats(parameter.gradient);
  const ParameterSpec& spec = parameter;
  std::vector<StackedTensor> parts = spec.stacked;
  if (parts.empty()) parts.push_back({spec.name, spec.shape[0]});
  Distance most;
  auto begin = ours.begin();
  for (const StackedTensor& part : parts) {
    CAPTURE(part.name);
    const Shape shape = spec.shape.rank() == 1 ? spec.shape : Shape{part.rows, spec.shape[1]};
    const auto end = begin + static_cast<std::ptrdiff_t>(shape.elements());
    const Distance d =
        distance({begin, end}, read_golden(expected, "gradient." + part.name, shape));
    CHECK(d.parity < 1e-6);
    CHECK(d.relative < 2e-6);
    most.include(d);
    begin = end;
  }
  CHECK(begin == ours.end());
  return most;
}

}  // namespace

TEST_CASE("a Llama that transformers saved has its loss, its logits and every gradient") {
  for (const std::string name : {"groups_of_1_tied", "groups_of_2_scaled", "groups_of_4"}) {
    CAPTURE(name);
    const std::string folder = golden_folder + "llama/" + name;
    SafetensorsFile expected{folder + "/expected.safetensors"};
    const std::vector<std::int64_t> extents = expected.find("tokens")->shape;
    const Shape shape{extents.at(0), extents.at(1)};
    GptConfig config = config_of(folder);
    config.sequence = static_cast<int>(shape[1]);

    OneDevice one;
    Gpt model{config, one.device(), StageLayers::whole(config), 1};
    load_checkpoint(folder, config, one.device(), model.parameters());
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.elements())),
        targets = tokens, positions(static_cast<std::size_t>(shape[1]));
    expected.read("tokens", {tokens.data(), shape, DType::i32});
    expected.read("targets", {targets.data(), shape, DType::i32});
    std::iota(positions.begin(), positions.end(), 0);
    const Microbatch microbatch{.tokens = {tokens.data(), shape, DType::i32},
                                .targets = {targets.data(), shape, DType::i32},
                                .token_weight = 1 / static_cast<float>(shape.elements()),
                                .positions = {positions.data(), {shape[1]}, DType::i32}};

    const Tensor logits = model.logits(microbatch.tokens);
    const Distance of_logits =
        distance(floats(logits), read_golden(expected, "logits", logits.shape()));
    CHECK(of_logits.parity < 1e-6);

    Stash stash{microbatch};
    model.forward(microbatch, {}, stash);
    const double loss = model.loss(stash);
    const double wanted = static_cast<double>(read_golden(expected, "loss", {1})[0]);
    const double of_loss = std::abs(loss - wanted) / wanted;
    CHECK(of_loss < 1e-6);

    model.backward({}, stash);
    model.finish_gradients();
    Distance most;
    for (const Parameter* parameter : model.parameters())
      most.include(distance_of_gradient(expected, *parameter));
    MESSAGE(name << ": largest differences: logits " << of_logits.parity << ", loss " << of_loss
                 << ", gradients " << most.parity << " (parity), " << most.relative
                 << " (relative)");
  }
}
