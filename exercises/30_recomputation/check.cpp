#include "exercises/30_recomputation/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Of k blocks' activations, one input is enough: the rest can be computed again when the "
    "gradient comes, for one more forward pass in all. The second forward must be the same as the "
    "first, down to its random numbers, and no later step may draw them again.";

namespace {

using Numbers = std::vector<float>;
constexpr int steps = 2;

struct Case {
  int L, k;
  std::size_t w, a;
  int segments() const { return (L + k - 1) / k; }
  std::string text() const {
    return fmt::format("{}, k = {}, w = {}, a = {}", count_of(L, "block"), k, w, a);
  }
};

/// The blocks. With a mask m of 0 and 2, drawn anew for each input,
///   h[j] = own[j] x[j] + next[j] x[j + 1],   y[j] = x[j] / 2 + m[j] g(h[j]),  g(h) = h / (1 + |h|)
/// The activations are h, m, and copies of x.
struct Blocks {
  Blocks(Check& check, const Case& sizes_) : sizes(sizes_) {
    const auto numbers = [&] {
      Numbers all(sizes.w);
      for (float& each : all)
        each =
            static_cast<float>(check.number_from(10, 99) * (check.number_from(0, 1) ? 1 : -1)) / 50;
      return all;
    };
    for (int i = 0; i < sizes.L; ++i) {
      own.push_back(numbers());
      next.push_back(numbers());
    }
  }

  void forward(int i, std::span<float> x, std::span<float> activations, Random& random) const {
    const auto& [L, k, w, a] = sizes;
    for (std::size_t j = 0; j < w; ++j) {
      activations[j] = own[at(i)][j] * x[j] + next[at(i)][j] * x[(j + 1) % w];
      // The random-number generator of D. Knuth's MMIX.
      random.state = random.state * 6364136223846793005U + 1442695040888963407U;
      activations[w + j] = random.state >> 63U != 0 ? 2.0F : 0.0F;
    }
    for (std::size_t j = 2 * w; j < a; ++j) activations[j] = x[j % w] + static_cast<float>(j);
    for (std::size_t j = 0; j < w; ++j)
      x[j] = x[j] / 2 + activations[w + j] * activations[j] / (1 + std::abs(activations[j]));
  }
  void backward(int i, std::span<const float> activations, std::span<float> dy) const {
    const std::size_t w = sizes.w;
    Numbers dx(w);
    for (std::size_t j = 0; j < w; ++j) {
      const float root = 1 + std::abs(activations[j]);
      const float dh = activations[w + j] * dy[j] / (root * root);
      dx[j] += dy[j] / 2 + own[at(i)][j] * dh;
      dx[(j + 1) % w] += next[at(i)][j] * dh;
    }
    std::ranges::copy(dx, dy.begin());
  }
  static void loss(std::span<float> y) {
    for (std::size_t j = 0; j < y.size(); ++j) y[j] = 2 * y[j] + static_cast<float>(j + 1);
  }

  Case sizes;
  std::vector<Numbers> own, next;
};

/// A step without recomputation: the numbers that the answer must reproduce exactly.
struct Reference {
  Reference(const Blocks& blocks, Numbers x, Random random) {
    const Case& sizes = blocks.sizes;
    for (int i = 0; i < sizes.L; ++i) {
      inputs.push_back(x);
      before.push_back(random);
      activations.emplace_back(sizes.a);
      blocks.forward(i, x, activations.back(), random);
    }
    inputs.push_back(x);
    before.push_back(random);
    Blocks::loss(x);
    gradients.resize(inputs.size());
    gradients.back() = x;
    for (int i = sizes.L; i-- > 0;) {
      blocks.backward(i, activations[at(i)], x);
      gradients[at(i)] = x;
    }
  }
  std::vector<Numbers> inputs;       ///< by block; the last is the output
  std::vector<Random> before;        ///< the generator before each block, and after the last one
  std::vector<Numbers> activations;  ///< by block
  std::vector<Numbers> gradients;    ///< of `inputs`
};

/// The index in `among` of the same numbers, or -1.
int find(const std::vector<Numbers>& among, std::span<const float> numbers) {
  for (std::size_t i = 0; i < among.size(); ++i)
    if (std::ranges::equal(among[i], numbers)) return static_cast<int>(i);
  return -1;
}

/// Checks one call of train_step(): inspects every argument that it passes to the chain's
/// functions.
class Step {
 public:
  Step(const Blocks& blocks, const Reference& right, World& world)
      : blocks_(blocks), right_(right), world_(world), calls_(at(blocks.sizes.L)) {}

  Chain chain() {
    const Case& sizes = blocks_.sizes;
    return {.blocks = sizes.L,
            .width = sizes.w,
            .activations = sizes.a,
            .forward = [this](int block, std::span<float> x, std::span<float> activations,
                              Random& random) { forward(block, x, activations, random); },
            .loss = [this](std::span<float> y) { loss(y); },
            .backward = [this](int block, std::span<const float> activations,
                               std::span<float> dy) { backward(block, activations, dy); }};
  }
  void finish(std::span<const float> dx, const Random& random) const {
    const int L = blocks_.sizes.L;
    if (next_backward_ >= 0)
      throw Wrong{fmt::format("the backward pass of block {} is missing", next_backward_),
                  "It runs from the last block to block 0, each once."};
    if (!std::ranges::equal(dx, right_.gradients[0]))
      throw Wrong{fmt::format("the gradient of x should be [{}], and [{}] is returned",
                              list(right_.gradients[0]), list(dx)),
                  "It is what the backward pass of block 0 leaves in dy."};
    if (random.state == right_.before[at(L)].state) return;
    if (random.state == right_.before[0].state)
      throw Wrong{
          "on return, `random` is as it was before the step",
          "Either it was set back, or all masks were drawn from a copy: the next step would "
          "draw the same masks. The first forward pass draws from `random` itself, and a "
          "recomputation from a copy."};
    for (int i = 1; i < L; ++i)
      if (random.state == right_.before[at(i)].state)
        throw Wrong{
            fmt::format("on return, `random` is as it was before block {} drew its mask", i),
            "The generator was set back for the recomputation, and has stayed there: the next step "
            "would draw masks that this step has drawn. Recompute with a copy."};
    throw Wrong{"on return, `random` is not as the forward pass has left it",
                "A recomputation draws numbers that have been drawn before, from a copy of the "
                "generator: it must not move `random` on."};
  }
  int recomputed() const { return recomputed_; }

 private:
  void check_size(const char* what, std::size_t found, std::size_t right) const {
    if (found != right)
      throw Wrong{fmt::format("{} is called with {}, and should be with {}", what,
                              count_of(static_cast<std::int64_t>(found), "number"), right),
                  "Inputs, outputs and gradients are w numbers each, and a block's activations a."};
  }

  void forward(int i, std::span<float> x, std::span<float> activations, Random& random) {
    const auto& [L, k, w, a] = blocks_.sizes;
    if (i < 0 || i >= L)
      throw Wrong{
          fmt::format("there is no block {}", i),
          fmt::format("Blocks are numbered 0 to {}. The last segment may be shorter than k.",
                      L - 1)};
    check_size("forward", x.size(), w);
    check_size("forward", activations.size(), a);
    const bool again = calls_[at(i)] > 0;
    if (++calls_[at(i)] > 2)
      throw Wrong{fmt::format("forward is called a third time for block {}", i),
                  "One recomputation of a segment gives the activations of all of its blocks: keep "
                  "them until their backward passes. So each block runs forward at most twice."};
    if (!again) {
      if (i != next_forward_)
        throw Wrong{fmt::format("block {} is next, and block {} runs forward", next_forward_, i),
                    "The forward pass runs from block 0 to the last block."};
      ++next_forward_;
      again_ = -1;
    } else {
      ++recomputed_;
      // Only these inputs are kept.
      if (again_ != i - 1 && i % k != 0)
        throw Wrong{
            fmt::format("recomputation begins at block {}, and not at a multiple of k = {}", i, k),
            "Only the inputs of the blocks 0, k, 2 k, ... are kept. A segment is recomputed from "
            "its first block on, and segments are counted from block 0: the last one may be "
            "shorter."};
      if (again_ == i - 1 && i > 0 && i % k == 0)
        throw Wrong{
            fmt::format("recomputation goes on from block {} to block {}, with k = {}", i - 1, i,
                        k),
            "A segment has k blocks. With the input of every k-th block, only one segment is "
            "recomputed at a time: its backward passes come before the next recomputation."};
      again_ = i;
    }
    if (!std::ranges::equal(x, right_.inputs[at(i)])) throw why_not_input(i, x, again);
    if (random.state != right_.before[at(i)].state) throw why_not_random(i, random, again);
    blocks_.forward(i, x, activations, random);
    world_.compute(fmt::format("{}{}", again ? 'R' : 'F', i), 1);
  }

  Wrong why_not_input(int i, std::span<const float> x, bool again) const {
    const int other = find(right_.inputs, x);
    const std::string what =
        fmt::format("block {} runs forward{} with the input [{}], and should with [{}]", i,
                    again ? " again" : "", list(x), list(right_.inputs[at(i)]));
    if (!again)
      return {what, "Each block gets the output of the block before it, and block 0 gets x."};
    if (other > i)
      return {what, fmt::format("This is the output of block {}. forward() overwrites its input: "
                                "keep a copy of a segment's input, made before its first block "
                                "runs.",
                                other - 1)};
    if (other >= 0) return {what, fmt::format("This is the input of block {}.", other)};
    return {what,
            "The recomputation begins with the segment's kept input, and each block gets the "
            "output of the block before it. Is the input overwritten after it was kept?"};
  }
  Wrong why_not_random(int i, const Random& random, bool again) const {
    const std::string what = fmt::format("block {} draws another dropout mask {}", i,
                                         again ? "when it is recomputed" : "than it should");
    if (!again) return {what, "In the forward pass, all blocks draw from `random`, one by one."};
    if (random.state == right_.before.back().state)
      return {what,
              "It draws from the generator as the forward pass has left it. The second forward "
              "needs the mask of the first: keep a copy of the generator with each segment's "
              "input."};
    return {what,
            "The gradients would be those of another mask. Keep a copy of the generator with each "
            "segment's input, as it was before the segment's first block ran, and let all blocks "
            "of the segment draw from this copy."};
  }

  void loss(std::span<float> y) {
    const int L = blocks_.sizes.L;
    check_size("loss", y.size(), blocks_.sizes.w);
    if (next_forward_ < L || next_backward_ != no_loss)
      throw Wrong{next_forward_ < L
                      ? fmt::format("loss is called before block {} has run forward", next_forward_)
                      : "loss is called twice",
                  "The loss is between the forward and the backward pass."};
    if (!std::ranges::equal(y, right_.inputs[at(L)]))
      throw Wrong{fmt::format("loss is called with [{}], and should be with [{}]", list(y),
                              list(right_.inputs[at(L)])),
                  "It gets the output of the last block."};
    Blocks::loss(y);
    next_backward_ = L - 1;
  }

  void backward(int i, std::span<const float> activations, std::span<float> dy) {
    check_size("backward", activations.size(), blocks_.sizes.a);
    check_size("backward", dy.size(), blocks_.sizes.w);
    if (next_backward_ == no_loss)
      throw Wrong{fmt::format("block {} runs backward before loss was called", i),
                  "The loss gives the gradient of the last block's output."};
    if (i != next_backward_)
      throw Wrong{next_backward_ < 0 ? fmt::format("block {} runs backward, after block 0", i)
                                     : fmt::format("block {} runs backward, and block {} is next",
                                                   i, next_backward_),
                  "The backward pass runs from the last block to block 0, each once."};
    if (!std::ranges::equal(activations, right_.activations[at(i)])) {
      const int other = find(right_.activations, activations);
      throw Wrong{
          fmt::format("block {} runs backward with the activations [{}], and should with [{}]", i,
                      list(activations), list(right_.activations[at(i)])),
          other >= 0
              ? fmt::format("These are the activations of block {}.", other)
              : "A block's activations are what its forward has written, without change. Has it "
                "run again, and does nothing else use their memory?"};
    }
    if (!std::ranges::equal(dy, right_.gradients[at(i) + 1])) {
      const int other = find(right_.gradients, dy);
      throw Wrong{fmt::format("block {} runs backward with dy = [{}], and should with [{}]", i,
                              list(dy), list(right_.gradients[at(i) + 1])),
                  other >= 0
                      ? fmt::format("This is the gradient of the input of block {}.", other)
                      : "The gradient of a block's output is that of the next block's input."};
    }
    --next_backward_;
    again_ = -1;
    blocks_.backward(i, activations, dy);
    world_.compute(fmt::format("B{}", i), 2);
  }

  static constexpr int no_loss = -2;
  const Blocks& blocks_;
  const Reference& right_;
  World& world_;
  std::vector<int> calls_;
  int next_forward_ = 0, next_backward_ = no_loss;
  int again_ = -1;  ///< the block that has just been recomputed
  int recomputed_ = 0;
};

void check_memory(const std::string& what, const Case& sizes, const Outcome& outcome) {
  const auto S = static_cast<std::int64_t>(sizes.segments());
  const auto w = static_cast<std::int64_t>(sizes.w), a = static_cast<std::int64_t>(sizes.a);
  const std::int64_t blocks = std::min(sizes.k, sizes.L), most = (S + 2) * w + blocks * a;
  const std::int64_t peak = outcome.peak_bytes[0] / 4;
  const auto recomputed = static_cast<int>(outcome.results[0][0]);
  if (peak > most)
    throw Wrong{
        fmt::format("{}: at the peak, {} numbers are in memory; the inputs of {}, two more, and "
                    "the activations of {} are {}",
                    what, peak, count_of(S, "segment"), count_of(blocks, "block"), most),
        recomputed == 0
            ? "The gradients are right, but nothing is recomputed: the activations of all blocks "
              "are kept from the forward pass."
            : "The gradients are right, but more is kept than needed. The first forward of a block "
              "leaves no activations. A segment's activations go when their backward passes are "
              "done, before the next segment is recomputed."};
  // When a whole segment other than the last is recomputed, memory must hold the activations of all
  // its blocks, one gradient, and the inputs of the segments before it.
  const std::int64_t least = (S - 1) * w + blocks * a;
  if (S > 1 && peak < least)
    throw Wrong{
        fmt::format("{}: at the peak, {} numbers are in memory from world.allocate(). When "
                    "segment {} has been recomputed, the activations of {}, a gradient and the "
                    "inputs of the segments before are {}",
                    what, peak, S - 2, count_of(blocks, "block"), least),
        "The gradients are right, but some of the numbers are in memory that is not "
        "counted: use world.allocate()."};
}

void check_one(Check& check, const Case& sizes) {
  const Blocks blocks{check, sizes};
  const std::string what = sizes.text();
  // The second step continues with the first one's generator.
  std::vector<Reference> right;
  std::vector<Numbers> xs;
  const Random start{static_cast<std::uint64_t>(check.number_from(1, 1'000'000'000)) *
                     2862933555777941757U};
  for (Random random = start; right.size() < steps; random = right.back().before.back()) {
    xs.push_back(check.numbers(sizes.w));
    for (float& each : xs.back()) each /= 1000;
    right.emplace_back(blocks, xs.back(), random);
  }
  const Outcome outcome = check.run(
      what, 1,
      [&](World& world) {
        Random random = start;
        float recomputed = 0;
        for (std::size_t s = 0; s < steps; ++s) {
          Buffer x = world.allocate(sizes.w);
          std::ranges::copy(xs[s], x.span().begin());
          Step step{blocks, right[s], world};
          const Buffer dx = train_step(world, step.chain(), sizes.k, std::move(x), random);
          step.finish(std::span<const float>{dx}, random);
          recomputed += static_cast<float>(step.recomputed());
        }
        return Numbers{recomputed};
      },
      [](const Failure&) { return "There is only one rank, which sends nothing."; });
  check_memory(what, sizes, outcome);
  if (sizes.L == 4 && sizes.k == 2 && check.picture().text.empty())
    check.show(
        "Your run of two steps with 4 blocks in two segments: F0 is a forward pass, R0 the "
        "recomputation of the same block, and B0 its backward pass.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  const Case cases[]{{1, 1, 2, 7},  {2, 1, 3, 10}, {2, 2, 3, 10}, {4, 2, 2, 9},   {5, 2, 2, 9},
                     {6, 3, 4, 13}, {3, 5, 3, 12}, {7, 3, 5, 16}, {16, 4, 4, 20}, {12, 5, 3, 20}};
  for (const Case& sizes : cases) check_one(check, sizes);
  for (int trial = 0; trial < 5; ++trial) {
    const auto w = static_cast<std::size_t>(check.number_from(2, 8));
    check_one(check, {check.number_from(1, 20), check.number_from(1, 7), w,
                      w * static_cast<std::size_t>(check.number_from(3, 6)) + 1});
  }
}

}  // namespace lockstep::exercises
