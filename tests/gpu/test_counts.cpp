#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "core/model/adamw.h"
#include "core/model/data.h"
#include "core/model/gpt.h"
#include "tests/gpu/emulator/counts.h"
#include "tests/gpu/gpu_under_test.h"

// Counts the requests of a training step on one GPU to CUDA. Each launch, allocation and copy takes
// the host some time, and while the host waits for the GPU it launches nothing. The counts depend
// on the number of layers, not on their widths, so these models have GPT-2's 12 layers and are
// narrow.

using namespace lockstep;

namespace {

emulator::Counts counts() {
  void* const library = dlopen(std::getenv("LOCKSTEP_GPU_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  auto* const read =
      reinterpret_cast<emulator::ReadCounts*>(dlsym(library, emulator::counts_symbol));
  REQUIRE((read != nullptr));
  emulator::Counts counts;
  read(&counts);
  return counts;
}

struct Case {
  DType dtype = DType::f32;
  int vocabulary = 64;
  int microbatches = 1;
};

Batch random_batch(const GptConfig& config, int microbatches) {
  std::mt19937 random{1};
  Batch batch;
  const auto count = static_cast<std::size_t>(microbatches * config.sequence);
  for (auto* each : {&batch.tokens, &batch.targets})
    for (std::size_t i = 0; i < count; ++i)
      each->push_back(
          static_cast<std::int32_t>(random() % static_cast<unsigned>(config.vocabulary)));
  const Shape shape{1, config.sequence};
  for (int i = 0; i < microbatches; ++i) {
    const auto first = static_cast<std::ptrdiff_t>(i) * config.sequence;
    batch.microbatches.push_back({.tokens = {batch.tokens.data() + first, shape, DType::i32},
                                  .targets = {batch.targets.data() + first, shape, DType::i32},
                                  .token_weight = 1.0F / static_cast<float>(count),
                                  .last = i == microbatches - 1});
  }
  return batch;
}

/// The counts of one step: forward, backward, gradient norm and update of GPT-2's 148 tensors.
emulator::Counts counts_of_step(const Case& of, const Clock& clock) {
  const GptConfig config{.layers = 12,
                         .hidden = 8,
                         .heads = 1,
                         .sequence = 8,
                         .vocabulary = of.vocabulary,
                         .tied = true,
                         .dtype = of.dtype};
  // On the modelled clock no timeline is measured, so the only events are those of waits.
  Recorder silent{false};
  const std::unique_ptr<Gpu> gpu = gpu_library().open(0);
  Stream compute{clock, silent, 0, *gpu};
  Memory memory{*gpu, compute.queue()};
  const Device device{memory, compute};
  Gpt model{config, device, StageLayers::whole(config), 1};
  AdamW optimizer{model.parameters(), device};
  CHECK(optimizer.parameters().size() == 148);
  Batch batch = random_batch(config, of.microbatches);
  move_to(device, batch);
  emulator::Counts step;
  for (int i = 0; i < 2; ++i) {  // the first step also allocates memory that later steps reuse
    compute.synchronise();
    const emulator::Counts before = counts();
    model.zero_gradients();
    accumulate_gradients(model, batch);
    optimizer.step();
    step = counts() - before;
  }
  return step;
}

std::string text(const emulator::Counts& counts) {
  return fmt::format(
      "{} kernels, {} matrix products, {} memsets, {} allocations, {} copies on the GPU, {} copies "
      "from or to the host ({} of them pageable), {} waits",
      counts.kernels, counts.products, counts.memsets, counts.allocations, counts.device_copies,
      counts.host_copies, counts.pageable_copies, counts.waits);
}

}  // namespace

TEST_CASE("launches, allocations, copies and waits of a training step of 12 layers") {
  if (!test::is_lazy()) return;
  const auto check = [](const Case& of, const emulator::Counts& want) {
    emulator::Counts seen = counts_of_step(of, Clock::wall());
    // On the modelled clock, each block launches three more kernels, which are otherwise fused: an
    // addition in the forward pass, and two in the backward pass. The GPU's timeline, which is
    // measured only on the wall clock, also waits.
    const emulator::Counts modelled = counts_of_step(of, Clock::modelled({}));
    CHECK(modelled.kernels - seen.kernels == 3 * 12 * of.microbatches);
    seen.waits = modelled.waits;
    CHECK_MESSAGE(seen == want, std::string{name_of(of.dtype)}, ", V ", of.vocabulary, ", ",
                  of.microbatches, " microbatches: ", text(seen));
  };
  // The only wait is for the gradients' norm, and the loss arrives with it.
  check({}, {.kernels = 324, .products = 147, .allocations = 488, .host_copies = 2, .waits = 1});
  check({.microbatches = 4},
        {.kernels = 1266, .products = 588, .allocations = 1943, .host_copies = 2, .waits = 1});
  check({.dtype = DType::bf16},
        {.kernels = 324, .products = 147, .allocations = 488, .host_copies = 2, .waits = 1});
  // An odd vocabulary requires no copies of the logits.
  check({.dtype = DType::bf16, .vocabulary = 61},
        {.kernels = 324, .products = 147, .allocations = 488, .host_copies = 2, .waits = 1});
}
