// The decision tree's figures, compared with values worked out by hand.

#include <doctest/doctest.h>

#include <utility>

#include "lessons/17_choosing/plan/roofline.h"
#include "lessons/17_choosing/plan/walk.h"

using namespace lockstep;

namespace {

/// GPUs of 1 TFLOP/s, four per node; a GPU sends 100 GB/s within its node and 10 GB/s to other
/// nodes.
Cluster round_numbers() {
  return {.name = "round",
          .nodes = 8,
          .ranks_per_node = 4,
          .flops = 1e12,
          .memory_bandwidth = 1e12,
          .memory = 1'000'000,
          .within = {0, 1e11},
          .between = {0, 1e10}};
}

/// A block has 64·192 + 64·64 + 2·64·256 = 49,152 elements of matrices.
TrainingTask small_gpt() {
  TrainingTask task;
  task.model = {.layers = 2, .hidden = 64, .heads = 4, .sequence = 64, .vocabulary = 256};
  task.model.dtype = DType::bf16;
  task.cluster = round_numbers();
  task.ranks = 32;
  task.batch = 32;
  return task;
}

bool near(double number, double expected) {
  return number == doctest::Approx(expected).epsilon(1e-12);
}

}  // namespace

TEST_CASE("A GPU sends what its own link, its port and its share of the cards allow") {
  Cluster cluster = round_numbers();
  CHECK(bandwidth_per_gpu(cluster, true) == 1e11);
  CHECK(bandwidth_per_gpu(cluster, false) == 1e10);
  cluster.shared = SharedLinks{.port = 5e10, .uplink = 2e10};
  CHECK(bandwidth_per_gpu(cluster, true) == 5e10);
  CHECK(bandwidth_per_gpu(cluster, false) == 5e9);
  cluster.shared->cards = SharedLinks::Cards{2, 4e9, {0, 0, 1, 1}};
  CHECK(bandwidth_per_gpu(cluster, false) == 2e9);
}

TEST_CASE("Where each axis hides its communication") {
  const TrainingTask task = small_gpt();
  // The ratio is 8·64·2 bytes per token to 6·49,152 FLOPs; t - 1 is 3, or 7 between nodes.
  CHECK(near(tensor_share(task, 4), 1024.0 * 3 * 1e12 / (294'912 * 1e11)));
  CHECK(near(tensor_share(task, 8), 1024.0 * 7 * 1e12 / (294'912 * 1e10)));
  // 3/4 of 2 bytes at 100 GB/s while a token takes 2 FLOPs per parameter: 7.5 tokens.
  CHECK(near(data_tokens(task, 4, 4), 7.5));
  // 31/32 of 2 bytes; the four GPUs of a node send 40 GB/s together, or one sends 10.
  CHECK(near(data_tokens(task, 32, 4), 31.0 / 32 * 25));
  CHECK(near(data_tokens(task, 8, 1), 7.0 / 8 * 100));
  // 64·2 bytes per token against 2·49,152 FLOPs per block.
  CHECK(near(pipeline_blocks(task, true), 128 * 1e12 / (98'304 * 1e11)));
  // A key and a value take 2·64·2 bytes; a query's scores and sums with them take 4·64 FLOPs.
  CHECK(near(context_tokens(task, false), 256 * 1e12 / (128 * 1e10)));
}

TEST_CASE("Fewer heads of keys and values travel, and more experts compute") {
  TrainingTask task = small_gpt();
  task.model.llama = LlamaConfig{.kv_heads = 1, .mlp_width = 128};
  CHECK(near(context_tokens(task, false), 256 * 1e12 / (128 * 1e10) / 4));
  // Queries and outputs 2·64·64, keys and values 2·64·16, the MLP 3·64·128.
  constexpr double block = 8192 + 2048 + 24'576;
  CHECK(near(pipeline_blocks(task, true), 128 * 1e12 / (2 * block * 1e11)));
  task.moe.experts = 4;
  task.moe.top_k = 2;
  CHECK(near(pipeline_blocks(task, true), 128 * 1e12 / (2 * (block + 24'576) * 1e11)));
}

TEST_CASE("The rules of thumb: tp within a node, then as many stages as the states need") {
  TrainingTask task = small_gpt();
  // A block has 49,152 elements of matrices, 576 of their biases and 256 of two norms; the
  // embeddings 256·64 + 64·64, the last norm 128 and the head 64·256.
  CHECK(state_bytes(task) == 16.0 * (2 * 49'984 + 20'480 + 128 + 16'384));
  const auto sizes = [&] {
    const SearchSpace rules = rules_of_thumb(task);
    return std::pair{*rules.tp, *rules.pp};
  };
  // 2,191,360 bytes: more than one GPU's memory, but a quarter is less.
  CHECK(sizes() == std::pair{4, 1});
  task.cluster.memory = 2'191'360;
  CHECK(sizes() == std::pair{1, 1});
  task.cluster.memory = 500'000;
  CHECK(sizes() == std::pair{4, 2});
  // Two heads allow no more than TP 2, and two blocks no more than two stages.
  task.model.heads = 2;
  CHECK(sizes() == std::pair{2, 2});
}

TEST_CASE("The tree says what fits") {
  TrainingTask task = small_gpt();
  const auto says = [&](const char* words) {
    return decision_tree(task).find(words) != std::string::npos;
  };
  CHECK(says("one GPU    2.2 MB of 1.0 MB: no\n"));
  CHECK(says("one node   2.2 MB of 4 × 1.0 MB: yes\n"));
  CHECK_FALSE(says("  all "));
  CHECK(says("at least 3 GPUs must share one copy"));
  CHECK(says("TP 4, PP 1, DP 8\n"));
  task.cluster.memory = 60'000;
  CHECK(says("all        2.2 MB of 32 × 60.0 kB: no\n"));
  CHECK(says("it needs at least 37, before any activation"));
  task.cluster.memory = std::nullopt;
  CHECK(says("has no limit, so everything fits"));
  CHECK(says("bandwidth is 100 GB/s within a node and 10.0 GB/s between nodes)"));
  task.cluster.within = {};
  CHECK(says("bandwidth is unlimited within a node and"));
}
