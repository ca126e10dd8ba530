#include "exercises/09_zero2/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "With ZeRO-2 a rank holds its shards and one whole layer of gradients. The price: one "
    "reduce-scatter per microbatch instead of one per step, and, without a second whole layer, no "
    "overlap.";

namespace {

constexpr int microbatches = 2;
constexpr double microseconds_per_layer = 2;

using Numbers = std::vector<float>;

Numbers chunk_of(const Numbers& all, int i, int N) {
  const std::span<const float> part = chunk(std::span{all}, i, N);
  return {part.begin(), part.end()};
}

void add(Numbers& sum, const Numbers& each, float factor = 1) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * each[i];
}

struct Case {
  int N;
  std::vector<int> sizes;
  std::string what;
  /// By microbatch, rank and layer.
  std::vector<std::vector<std::vector<Numbers>>> gradients;

  Case(Check& check, int N_, std::vector<int> sizes_) : N(N_), sizes(std::move(sizes_)) {
    what = fmt::format("{}, {} of ", count_of(N, "rank"),
                       count_of(static_cast<int>(sizes.size()), "layer"));
    for (std::size_t i = 0; i < sizes.size(); ++i)
      what += fmt::format("{}{}", i == 0 ? "" : ", ", sizes[i]);
    what += sizes == std::vector{1} ? " number" : " numbers";
    gradients.resize(microbatches);
    for (auto& ranks : gradients) {
      ranks.resize(at(N));
      for (auto& layers : ranks)
        for (const int size : sizes) layers.push_back(check.numbers(at(size)));
    }
  }
  const Numbers& gradient(int microbatch, int rank, int layer) const {
    return gradients[at(microbatch)][at(rank)][at(layer)];
  }
  /// Returns chunk i of the layer's gradient, summed over `ranks` ranks, starting at rank `first`,
  /// modulo N.
  Numbers sum(int microbatch, int layer, int i, int first, int ranks) const {
    Numbers all(chunk_of(gradient(microbatch, 0, layer), i, N).size());
    for (int k = 0; k < ranks; ++k)
      add(all, chunk_of(gradient(microbatch, (first + k) % N, layer), i, N));
    return all;
  }
  Numbers sum(int microbatch, int layer, int i) const { return sum(microbatch, layer, i, 0, N); }
  int layers() const { return static_cast<int>(sizes.size()); }
  std::int64_t numbers() const { return std::accumulate(sizes.begin(), sizes.end(), 0); }
};

/// One microbatch on one rank. Throws Wrong if the answer does not call `backward` correctly.
void run_microbatch(World& world, const Case& each, int microbatch, std::vector<Buffer>& shards) {
  int next = each.layers() - 1;
  backward_pass(
      world, each.sizes,
      [&](int layer, std::span<float> gradient) {
        if (layer != next)
          throw Wrong{
              fmt::format("the backward pass of layer {} is next, and that of layer {} was run",
                          next, layer),
              "The backward pass runs from the last layer to layer 0, each once: a layer needs the "
              "gradient of the layer above it."};
        const Numbers& right = each.gradient(microbatch, world.rank(), layer);
        if (gradient.size() != right.size())
          throw Wrong{fmt::format("layer {} has {}, and was given room for {}", layer,
                                  count_of(static_cast<std::int64_t>(right.size()), "number"),
                                  gradient.size()),
                      "The backward pass computes the whole gradient of a layer, sizes[i] numbers. "
                      "It is cut into shards afterwards."};
        const std::string user = fmt::format("the backward pass of layer {}", layer);
        expect_free(world, user, gradient);
        if (!is_in_buffer(world, gradient))
          throw Wrong{
              fmt::format("{} is given memory that is not counted", user),
              "Whole gradients are in memory from world.allocate(), so that it is known how "
              "much of it there is."};
        world.compute(fmt::format("B{}", layer), microseconds_per_layer);
        std::ranges::copy(right, gradient.begin());
        --next;
      },
      shards);
  if (next >= 0)
    throw Wrong{fmt::format("the backward pass of layer {} was not run", next),
                "The backward pass runs from the last layer to layer 0, each once."};
}

std::string diagnose_shard(const Case& each, int microbatch, int r, int layer,
                           const Numbers& before, const Numbers& found) {
  const int N = each.N;
  const auto is = [&](const Numbers& contribution) {
    Numbers sum = before;
    if (contribution.size() != sum.size()) return false;
    add(sum, contribution);
    return found == sum;
  };
  if (found == before) return "Nothing was added to this shard.";
  if (microbatch > 0 && found == each.sum(microbatch, layer, r))
    return "This is the gradient of the last microbatch alone. The shards accumulate: add to what "
           "is there.";
  if (N > 1 && is(each.sum(microbatch, layer, r, r, 1)))
    return "This is only the rank's own gradient. The ranks must add up theirs by a "
           "reduce-scatter, which is done when its Work's wait() returns.";
  Numbers mean = before;
  add(mean, each.sum(microbatch, layer, r), 1 / static_cast<float>(N));
  if (N > 1 && found == mean) return "These are averages, and the task asks for the sum.";
  for (int i = 0; i < N; ++i)
    for (int first = 0; first < N; ++first)
      for (int ranks = 1; ranks <= N; ++ranks)
        if (i != r && is(each.sum(microbatch, layer, i, first, ranks)))
          return fmt::format(
              "This comes from chunk {} of the layer. The shard of rank {} is chunk {}, the only "
              "one that is a complete sum on this rank.",
              i, r, r);
  return "Add chunk(gradient, rank, N) of the reduce-scattered gradient to the shard, once.";
}

void check_shards(const Case& each, const Outcome& outcome) {
  for (int r = 0; r < each.N; ++r) {
    auto next = outcome.results[at(r)].begin();
    std::vector<Numbers> before(each.sizes.size());
    for (int microbatch = 0; microbatch < microbatches; ++microbatch)
      for (int layer = 0; layer < each.layers(); ++layer) {
        Numbers& sum = before[at(layer)];
        const Numbers contribution = each.sum(microbatch, layer, r);
        sum.resize(contribution.size());
        const Numbers old = sum;
        add(sum, contribution);
        const auto size = static_cast<std::ptrdiff_t>(sum.size());
        const Numbers found{next, next + size};
        next += size;
        if (found == sum) continue;
        throw Wrong{fmt::format("{}: after microbatch {}, the shard of layer {} on rank {} should "
                                "be [{}], and is [{}]",
                                each.what, microbatch, layer, r, list(sum), list(found)),
                    diagnose_shard(each, microbatch, r, layer, old, found)};
      }
  }
}

void check_costs(const Case& each, const Outcome& outcome) {
  expect_counted(each.what, outcome);
  const int N = each.N;
  const std::int64_t sent = outcome.all_bytes_sent();
  const std::int64_t right = 4 * microbatches * (N - 1) * each.numbers();
  if (sent != right)
    throw Wrong{
        fmt::format("{}: the ranks have sent {} B for {} microbatches, and should send {} B",
                    each.what, sent, microbatches, right),
        sent == 2 * right
            ? "This is twice what is needed: an all-reduce brings every sum to every rank. A "
              "reduce-scatter brings it to the rank that owns it."
            : "The sums are right. Each layer needs one reduce-scatter per microbatch."};

  const std::int64_t largest = *std::ranges::max_element(each.sizes);
  for (int r = 0; r < N; ++r) {
    std::int64_t shards = 0, neighbours = 0, kept = 0;  // kept: shards that are not empty
    for (std::size_t i = 0; i < each.sizes.size(); ++i) {
      const std::int64_t shard = std::ssize(chunk_of(each.gradients[0][0][i], r, N));
      shards += shard;
      kept += shard > 0 ? 1 : 0;
      if (i > 0) neighbours = std::max<std::int64_t>(neighbours, each.sizes[i] + each.sizes[i - 1]);
    }
    const std::int64_t peak = outcome.peak_bytes[at(r)] / 4;
    if (peak == shards + largest) continue;
    std::string why = fmt::format(
        "At that time, the rank's Buffers had {}. Besides the shards, a rank needs one whole layer "
        "and nothing else: free it as soon as its sums are in the shard.",
        buffers_at_peak(outcome, r));
    if (peak < shards + largest)
      why = "The whole gradients are in memory that is not counted: use world.allocate().";
    else if (each.layers() > 2 && peak == shards + each.numbers() &&
             std::ssize(outcome.peak_sizes[at(r)]) == each.layers() + kept)
      why =
          "All layers' whole gradients are in memory at the same time, as with ZeRO-1. Allocate "
          "each when the backward pass comes to its layer, and free it after its reduce-scatter.";
    else if (peak == shards + neighbours && std::ssize(outcome.peak_sizes[at(r)]) == 2 + kept)
      why =
          "Two whole gradients are in memory at the same time. Free one before you allocate the "
          "next. (Lesson 04 keeps a second one, so that messages overlap with computation.)";
    throw Wrong{
        fmt::format("{}: rank {} has held {} B at a time. Its shards are {} B, and the "
                    "largest layer is {} B: {} B",
                    each.what, r, 4 * peak, 4 * shards, 4 * largest, 4 * (shards + largest)),
        why};
  }

  double longest = 0;
  for (const int size : each.sizes)
    longest +=
        microbatches * (microseconds_per_layer + (N - 1) * (1 + 0.004 * ((size + N - 1) / N)));
  const double time = outcome.microseconds;
  if (time > longest + 1e-6)
    throw Wrong{fmt::format("{}: the step has taken {:.3f} µs, and should take {:.3f} µs",
                            each.what, time, longest),
                "The sums are right, but a reduce-scatter takes N - 1 rounds, in each of which "
                "every rank sends one chunk and receives another at the same time. Here there are "
                "more rounds than that, or the ranks wait for each other."};
}

void check_one(Check& check, int N, std::vector<int> sizes) {
  const Case each{check, N, std::move(sizes)};
  const Outcome outcome = check.run(
      each.what, N,
      [&](World& world) {
        std::vector<Buffer> shards;
        for (int layer = 0; layer < each.layers(); ++layer)
          shards.push_back(world.allocate(
              chunk_of(each.gradient(0, 0, layer), world.rank(), world.size()).size()));
        Numbers all;  // after each microbatch
        for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
          run_microbatch(world, each, microbatch, shards);
          for (int layer = 0; layer < each.layers(); ++layer) {
            Buffer& shard = shards[at(layer)];
            const std::size_t size =
                chunk_of(each.gradient(0, 0, layer), world.rank(), world.size()).size();
            if (shard.size() != size)
              throw Wrong{
                  fmt::format("the shard of layer {} on rank {} had {}, and now has {}", layer,
                              world.rank(), count_of(static_cast<std::int64_t>(size), "number"),
                              shard.size()),
                  "Add to the numbers of a shard; don't replace its Buffer."};
            all.insert(all.end(), shard.span().begin(), shard.span().end());
          }
        }
        return all;
      },
      diagnose_collectives);
  check_shards(each, outcome);
  check_costs(each, outcome);
  if (N == 4 && each.layers() == 3)
    check.show(
        "Your two microbatches on 4 ranks: each layer's gradient is reduced before the next one is "
        "computed.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  check_one(check, 2, {2});
  check_one(check, 2, {2, 4, 2});
  check_one(check, 3, {3, 9, 6});
  check_one(check, 1, {3, 2});
  check_one(check, 4, {8, 4, 12});
  check_one(check, 4, {5, 1, 9, 2});
  check_one(check, 8, {7, 80, 33, 64, 15});
  check_one(check, 11, {9, 30, 11});
}

}  // namespace lockstep::exercises
