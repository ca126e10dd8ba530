#include "exercises/10_zero3/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "With ZeRO-3 no rank ever holds the model: only its shards, the layer in use, and the one in "
    "flight. Prefetch hides the gathers behind the computation, all but the first.";

namespace {

constexpr double microseconds_per_layer = 4;

using Numbers = std::vector<float>;

struct Case {
  int N;
  std::vector<int> sizes;
  std::vector<Numbers> parameters;  ///< by layer
  std::string what;

  Case(Check& check, int N_, std::vector<int> sizes_) : N(N_), sizes(std::move(sizes_)) {
    what = fmt::format("{}, {} of ", count_of(N, "rank"),
                       count_of(static_cast<int>(sizes.size()), "layer"));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      what += fmt::format("{}{}", i == 0 ? "" : ", ", sizes[i]);
      parameters.push_back(check.numbers(static_cast<std::size_t>(sizes[i])));
    }
    what += sizes == std::vector{1} ? " parameter" : " parameters";
  }
  int layers() const { return static_cast<int>(sizes.size()); }
  std::int64_t numbers() const { return std::accumulate(sizes.begin(), sizes.end(), 0); }
  Numbers shard(int layer, int rank) const {
    const std::span<const float> part = chunk(std::span{parameters[at(layer)]}, rank, N);
    return {part.begin(), part.end()};
  }
  /// The time of a layer's gather. If N does not divide the layer, this is an upper bound.
  double gather(int layer) const {
    const int size = sizes[at(layer)];
    return (N - 1) * (1 + 0.004 * ((size + N - 1) / N));
  }
  /// The largest number of parameters that `count` adjacent layers have together.
  std::int64_t adjacent(int count) const {
    std::int64_t most = 0;
    for (int layer = 0; layer < layers(); ++layer) {
      std::int64_t sum = 0;
      for (int i = layer; i < std::min(layers(), layer + count); ++i) sum += sizes[at(i)];
      most = std::max(most, sum);
    }
    return most;
  }
};

/// Explains why some rank has computed a layer with wrong parameters. `found` contains the
/// parameters that each rank used.
std::string diagnose_parameters(const Case& each, int layer, const std::vector<Numbers>& found) {
  const auto has = [&](int rank, int i) {
    return std::ranges::equal(chunk(std::span{found[at(rank)]}, i, each.N), each.shard(layer, i));
  };
  bool own_are_right = true, others_are_missing = true;
  for (int rank = 0; rank < each.N; ++rank)
    for (int i = 0; i < each.N; ++i) {
      if (i == rank) own_are_right = own_are_right && has(rank, i);
      if (i != rank && !each.shard(layer, i).empty())
        others_are_missing = others_are_missing && !has(rank, i);
    }
  if (!own_are_right)
    return "Some rank's own chunk is not right. Before the all-gather, the rank's shard must be in "
           "its chunk of the Buffer, chunk(parameters, rank, N): not always at the beginning.";
  if (others_are_missing)
    return "Only each rank's own chunk is right. The others come with an all-gather, which is done "
           "when its Work's wait() returns.";
  return "Every rank's shard must reach every rank, by an all-gather.";
}

void check_parameters(const Case& each, const Outcome& outcome) {
  std::ptrdiff_t first = 0;
  for (int layer = 0; layer < each.layers(); ++layer) {
    const Numbers& right = each.parameters[at(layer)];
    std::vector<Numbers> found;
    for (const Numbers& all : outcome.results) {
      const auto begin = all.begin() + first;
      found.emplace_back(begin, begin + std::ssize(right));
    }
    first += std::ssize(right);
    for (int rank = 0; rank < each.N; ++rank)
      if (const Numbers& mine = found[at(rank)]; mine != right)
        throw Wrong{fmt::format("{}: on rank {}, layer {} computes with the parameters [{}], and "
                                "should with [{}]",
                                each.what, rank, layer, list(mine), list(right)),
                    diagnose_parameters(each, layer, found)};
  }
}

/// Runs the answer on one rank, and returns the parameters that it passed to `forward`. Throws
/// Wrong if it does not call `forward` correctly.
Numbers run_forward(World& world, const Case& each) {
  int idle = -1;  // the first layer during which nothing is in flight
  std::vector<Buffer> shards;
  for (int layer = 0; layer < each.layers(); ++layer) {
    const Numbers shard = each.shard(layer, world.rank());
    shards.push_back(world.allocate(shard.size()));
    std::ranges::copy(shard, shards.back().span().begin());
  }
  int next = 0;
  Numbers used;
  forward_pass(world, each.sizes, shards, [&](int layer, std::span<const float> parameters) {
    if (layer != next)
      throw Wrong{fmt::format("layer {} is next, and layer {} was computed", next, layer),
                  "The forward pass runs from layer 0 to the last layer, each once."};
    if (parameters.size() != each.parameters[at(layer)].size())
      throw Wrong{fmt::format("layer {} has {} parameters, and was given {}", layer,
                              each.sizes[at(layer)], parameters.size()),
                  "A whole layer has sizes[i] parameters, those of all ranks."};
    const std::string user = fmt::format("forward() of layer {}", layer);
    expect_arrived(user, parameters);
    if (!is_in_buffer(world, parameters))
      throw Wrong{fmt::format("{} reads parameters in memory that is not counted", user),
                  "The whole layers are in memory from world.allocate(), so that it is known how "
                  "much of it there is."};
    // With one rank, there is nothing to gather.
    if (idle < 0 && layer + 1 < each.layers() && world.size() > 1 && !is_in_flight(world))
      idle = layer;
    used.insert(used.end(), parameters.begin(), parameters.end());
    world.compute(fmt::format("F{}", layer), microseconds_per_layer);
    ++next;
  });
  if (next < each.layers())
    throw Wrong{fmt::format("layer {} was not computed", next),
                "The forward pass runs from layer 0 to the last layer, each once."};
  used.push_back(static_cast<float>(idle));
  return used;
}

/// Explains why rank r has held too much memory.
std::string diagnose_memory(const Case& each, const Outcome& outcome, int r) {
  std::vector<std::int64_t> whole;  // sizes of the Buffers besides the shards
  for (const std::size_t size : outcome.peak_sizes[at(r)])
    whole.push_back(static_cast<std::int64_t>(size));
  for (int layer = 0; layer < each.layers(); ++layer) {
    const auto shard = std::ranges::find(whole, std::ssize(each.shard(layer, r)));
    if (shard != whole.end()) whole.erase(shard);
  }
  std::vector<std::int64_t> layers(each.sizes.begin(), each.sizes.end());
  std::ranges::sort(whole);
  std::ranges::sort(layers);
  if (whole == layers && each.layers() > 3)
    return "The whole model is in memory. Discard each layer after its use, and gather only one "
           "layer ahead: otherwise this is not ZeRO-3, but data parallelism.";
  return fmt::format(
      "At that time, the rank's Buffers had {} besides the shards. There is room for two layers: "
      "the one that computes and the one that is gathered meanwhile. Discard a layer right after "
      "its "
      "use, by reset() of its Buffer or by letting it go out of scope, before you allocate another "
      "one; and don't gather two layers ahead.",
      fmt::join(whole, ", "));
}

void check_costs(const Case& each, const Outcome& outcome) {
  expect_counted(each.what, outcome);
  const int N = each.N;
  const std::int64_t sent = outcome.all_bytes_sent();
  const std::int64_t right = 4 * (N - 1) * each.numbers();
  if (sent != right)
    throw Wrong{fmt::format("{}: the ranks have sent {} B, and gathering {} parameters takes {} B",
                            each.what, sent, each.numbers(), right),
                "The parameters are right. Each layer needs one all-gather, to which a rank "
                "contributes its shard."};

  for (int r = 0; r < N; ++r)
    if (const auto idle = static_cast<int>(outcome.results[at(r)].back()); idle >= 0)
      throw Wrong{fmt::format("{}: while rank {} computes layer {}, it gathers nothing", each.what,
                              r, idle),
                  "While a layer computes, the next one must be on its way: start the next gather "
                  "before you call `forward`, and wait for it afterwards."};
  for (int r = 0; r < N; ++r) {
    std::int64_t shards = 0;
    for (int layer = 0; layer < each.layers(); ++layer) shards += std::ssize(each.shard(layer, r));
    const std::int64_t peak = outcome.peak_bytes[at(r)] / 4;
    const std::int64_t most = shards + each.adjacent(2);
    if (peak > most)
      throw Wrong{fmt::format("{}: rank {} has held {} B at a time. Its shards are {} B, and two "
                              "adjacent layers at most {} B: {} B",
                              each.what, r, 4 * peak, 4 * shards, 4 * each.adjacent(2), 4 * most),
                  diagnose_memory(each, outcome, r)};
  }
  // Gather 0 is exposed; each later gather overlaps with the layer before its own.
  double expected = each.gather(0) + microseconds_per_layer;
  double serial = 0;
  for (int layer = 0; layer < each.layers(); ++layer) {
    if (layer > 0) expected += std::max(microseconds_per_layer, each.gather(layer));
    serial += microseconds_per_layer + each.gather(layer);
  }
  if (outcome.microseconds <= expected + 1e-6) return;
  const bool more_messages = std::ranges::any_of(outcome.messages_sent, [&](std::int64_t messages) {
    return messages > std::int64_t{each.layers()} * (N - 1);
  });
  throw Wrong{
      fmt::format("{}: the pass has taken {:.3f} µs, and should take at most {:.3f} µs", each.what,
                  outcome.microseconds, expected),
      more_messages
          ? "There are more messages than one all-gather for each layer needs, N - 1 from each "
            "rank, and each costs a latency."
      : each.layers() == 1 || outcome.microseconds < serial - 1e-6
          ? "Some gather starts later than it could, or takes longer than N - 1 rounds. While a "
            "layer computes, the next one must be on its way, in one all-gather."
          : "Every gather is waited for before anything else happens, so nothing overlaps. Start "
            "the next gather, let the current layer compute, and only then wait."};
}

Outcome check_one(Check& check, int N, std::vector<int> sizes) {
  const Case each{check, N, std::move(sizes)};
  Outcome outcome = check.run(
      each.what, N, [&](World& world) { return run_forward(world, each); }, diagnose_collectives);
  check_parameters(each, outcome);
  check_costs(each, outcome);
  return outcome;
}

}  // namespace

void check(Check& check) {
  check_one(check, 2, {2});
  check_one(check, 2, {4, 4, 4, 4, 4});
  check_one(check, 3, {6, 3, 9, 3, 12});
  check_one(check, 1, {3, 2, 4});
  check_one(check, 4, {8, 4, 1200, 16, 400, 4});
  check_one(check, 4, {5, 1, 9, 2, 3});
  check_one(check, 8, {1, 7, 80, 33, 64, 15});
  check_one(check, 11, {9, 30, 11});
  const Outcome outcome = check_one(check, 4, {320, 320, 320, 320});
  check.show("Your run on 4 ranks: while a layer computes, the messages bring the next one.",
             draw(outcome.rows));
}

}  // namespace lockstep::exercises
