#include "exercises/07_bucketed_overlap/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Gradients are sent while the layers below are computed. Small buckets cost latencies, large "
    "ones overlap with less, and the last bucket is always exposed.";

namespace {

constexpr double microseconds_per_layer = 1, latency = 1, per_number = 0.004;
constexpr float unwritten = -1e6F;  ///< the contents of `gradients` before the call

struct Case {
  int N;
  std::vector<int> sizes;
  int bucket;
  std::vector<std::vector<float>> gradients;  ///< by rank

  int numbers() const { return std::accumulate(sizes.begin(), sizes.end(), 0); }
  std::string what() const {
    std::string text = fmt::format("{}, layers of ", count_of(N, "rank"));
    const bool same = std::ranges::all_of(sizes, [&](int size) { return size == sizes[0]; });
    if (same && sizes.size() > 3)
      text = fmt::format("{}, {} layers of {}", count_of(N, "rank"), sizes.size(), sizes[0]);
    else
      for (std::size_t i = 0; i < sizes.size(); ++i)
        text += fmt::format("{}{}", i == 0 ? "" : ", ", sizes[i]);
    return text + fmt::format(" numbers, buckets of {}", bucket);
  }
};

/// A bucket that has to be sent.
struct Bucket {
  int numbers = 0, first_layer = 0, last_layer = 0;
  double ready = 0;  ///< when the backward pass has filled it

  /// The time of its all-reduce. If N does not divide the bucket, this is an upper bound.
  double time(int N) const {
    return 2 * (N - 1) * (latency + per_number * ((numbers + N - 1) / N));
  }
};

std::vector<Bucket> buckets_of(const Case& each) {
  std::vector<Bucket> all;
  const int layers = static_cast<int>(each.sizes.size());
  Bucket filling;
  for (int done = 1; done <= layers; ++done) {
    const int layer = layers - done;
    if (filling.numbers == 0) filling.last_layer = layer;
    filling.numbers += each.sizes[at(layer)];
    filling.first_layer = layer;
    filling.ready = done * microseconds_per_layer;
    if (filling.numbers < each.bucket && done < layers) continue;
    if (filling.numbers > 0) all.push_back(filling);
    filling = {};
  }
  return all;
}

/// Returns when the last all-reduce ends. The first message of each all-reduce leaves as soon as
/// the last message of the previous one has left, one latency before that message arrives.
double end_of(const Case& each, const std::vector<Bucket>& buckets) {
  double lane_free = 0, end = microseconds_per_layer * static_cast<double>(each.sizes.size());
  if (each.N == 1) return end;
  for (const Bucket& bucket : buckets) {
    lane_free = std::max(lane_free, bucket.ready) + bucket.time(each.N) - latency;
    end = std::max(end, lane_free + latency);
  }
  return end;
}

std::string diagnose(const Failure& failure) {
  if (failure.waits_for_finished)
    return "A rank has gone on before an all-reduce was done. Keep the Works of all buckets, and "
           "wait for each of them at the end: an all-reduce is done when its Work's wait() "
           "returns.";
  return "All ranks must start the same all-reduces, with the same sizes, in the same order.";
}

/// Runs the answer's backward pass. Throws Wrong if it does not call `backward` correctly.
std::vector<float> run_backward(World& world, const Case& each) {
  const std::vector<float>& right = each.gradients[static_cast<std::size_t>(world.rank())];
  int next = static_cast<int>(each.sizes.size()) - 1;
  std::vector<float> gradients(right.size(), unwritten);
  backward_pass(
      world, each.sizes, each.bucket,
      [&](int layer, std::span<float> gradient) {
        if (layer != next)
          throw Wrong{fmt::format("the backward pass of layer {} is next, and that of layer {} was "
                                  "run",
                                  next, layer),
                      "The backward pass runs from the last layer to layer 0, each once: a layer "
                      "needs the gradient of the layer above it."};
        const auto l = at(layer);
        const int begin = std::accumulate(each.sizes.begin(), each.sizes.begin() + layer, 0);
        if (gradient.size() != static_cast<std::size_t>(each.sizes[l]))
          throw Wrong{fmt::format("layer {} has {} numbers, and was given room for {}", layer,
                                  each.sizes[l], gradient.size()),
                      "Layer i has sizes[i] numbers."};
        expect_free(world, fmt::format("the backward pass of layer {}", layer), gradient);
        world.compute(fmt::format("B{}", layer), microseconds_per_layer);
        std::copy_n(right.begin() + begin, gradient.size(), gradient.begin());
        --next;
      },
      gradients);
  if (next >= 0)
    throw Wrong{fmt::format("the backward pass of layer {} was not run", next),
                "The backward pass runs from the last layer to layer 0, each once."};
  return gradients;
}

void check_sums(const Case& each, const std::string& what, const Outcome& outcome) {
  std::vector<float> sum(static_cast<std::size_t>(each.numbers()));
  for (const auto& own : each.gradients)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
  for (int r = 0; r < each.N; ++r) {
    auto from = static_cast<std::ptrdiff_t>(sum.size());
    for (int layer = static_cast<int>(each.sizes.size()) - 1; layer >= 0; --layer) {
      const int size = each.sizes[at(layer)];
      from -= size;
      const auto part = [&](const std::vector<float>& all, float factor = 1) {
        std::vector<float> numbers{all.begin() + from, all.begin() + from + size};
        for (float& number : numbers) number *= factor;
        return numbers;
      };
      const std::vector<float> found = part(outcome.results[at(r)]);
      if (found == part(sum)) continue;
      std::string why =
          "Every layer is in one bucket, and a bucket's all-reduce starts when the "
          "backward pass has computed all its layers.";
      if (found == part(each.gradients[at(r)])) {
        const Bucket last = buckets_of(each).back();
        why = layer <= last.last_layer && last.numbers < each.bucket
                  ? "This is the rank's own gradient. Layer 0 ends the last bucket, even if the "
                    "bucket is not full: don't forget to send it."
                  : "This is the rank's own gradient: these numbers were in no all-reduce, or its "
                    "result was not put here.";
      } else if (each.N > 1 && (found == part(sum, static_cast<float>(each.N)) ||
                                found == part(sum, static_cast<float>(each.N * each.N)))) {
        why =
            "The layer was all-reduced more than once, which adds up sums. A bucket begins where "
            "the previous one ended.";
      } else if (found == part(sum, 1 / static_cast<float>(each.N))) {
        why = "These are averages, and the task asks for the sum.";
      } else if (std::ranges::all_of(found, [](float number) { return number == unwritten; })) {
        why =
            "These numbers were there before: neither the layer's gradient nor a sum was put here.";
      } else if (const auto place = std::ranges::search(sum, found); !place.empty()) {
        why = fmt::format(
            "These are the right sums of other numbers, those from {} on: in `gradients`, the "
            "layers follow one another, layer 0 first.",
            place.begin() - sum.begin());
      }
      throw Wrong{
          fmt::format("{}: on rank {}, the gradient of layer {} should be [{}], and is [{}]", what,
                      r, layer, list(part(sum)), list(found)),
          why};
    }
  }
}

/// Returns the number of all-reduces, assuming that in each of them every rank sends 2 (N - 1)
/// messages and that nothing else is sent.
std::optional<int> all_reduces(const Case& each, const Outcome& outcome) {
  const int messages_of_one = 2 * (each.N - 1);
  const std::int64_t messages = outcome.messages_sent[0];
  const bool same = std::ranges::all_of(outcome.messages_sent,
                                        [&](std::int64_t other) { return other == messages; });
  if (!same || each.N == 1 || messages % messages_of_one != 0) return std::nullopt;
  return static_cast<int>(messages) / messages_of_one;
}

/// Returns whether N divides all buckets, so that the time is exact.
bool is_divisible(const Case& each) {
  return std::ranges::all_of(buckets_of(each),
                             [&](const Bucket& b) { return b.numbers % each.N == 0; });
}

const Row& row_of(const Outcome& outcome, const std::string& name) {
  return *std::ranges::find(outcome.rows, name, &Row::name);
}

/// The total time that rank 0's backward pass pauses between its layers.
double microseconds_paused(const Outcome& outcome) {
  const std::vector<Block>& layers = row_of(outcome, "rank 0").blocks;
  Picoseconds paused = 0;
  for (std::size_t i = 1; i < layers.size(); ++i) paused += layers[i].start - layers[i - 1].end;
  return static_cast<double>(paused) * 1e-6;
}

/// Returns whether rank 0 has sent nothing before the end of its backward pass.
bool sends_only_at_the_end(const Outcome& outcome) {
  return row_of(outcome, "rank 0 to").blocks.front().start >=
         row_of(outcome, "rank 0").blocks.back().end;
}

void check_costs(const Case& each, const std::string& what, const Outcome& outcome) {
  const std::vector<Bucket> buckets = buckets_of(each);
  const int layers = static_cast<int>(each.sizes.size());
  std::int64_t sent = 0;
  for (const std::int64_t bytes : outcome.bytes_sent) sent += bytes;
  const std::int64_t right = 4 * 2 * (each.N - 1) * each.numbers();
  if (sent != right)
    throw Wrong{fmt::format("{}: the ranks have sent {} B, and all-reducing {} numbers takes {} B",
                            what, sent, each.numbers(), right),
                "The sums are right. Each gradient is all-reduced once; buckets do not change the "
                "number of bytes."};
  const std::optional<int> found = all_reduces(each, outcome);
  const int expected = static_cast<int>(buckets.size());
  if (found && *found != expected) {
    Case fuller = each;
    ++fuller.bucket;
    std::string why = "A bucket is full when it has at least `bucket` numbers.";
    if (found > expected)
      why =
          "There are more all-reduces than buckets, and each costs 2 (N - 1) latencies. Collect "
          "layers until there are at least `bucket` numbers, and don't send an empty bucket.";
    else if (found == 1)
      why =
          "There is one all-reduce for everything. It can start only when the backward pass is "
          "over, so nothing overlaps with it.";
    else if (found == static_cast<int>(buckets_of(fuller).size()))
      why = "A bucket with exactly `bucket` numbers is full, too: \"at least\", not \"more than\".";
    throw Wrong{fmt::format("{}: the right number is {}, and the ranks have run {}", what,
                            count_of(expected, "all-reduce"), *found),
                why};
  }
  for (const std::int64_t messages : outcome.messages_sent)
    if (messages > expected * 2 * (each.N - 1))
      throw Wrong{
          fmt::format("{}: a rank has sent {}, and {} take {}", what, count_of(messages, "message"),
                      count_of(expected, "all-reduce"), expected * 2 * (each.N - 1)),
          "The sums and the bytes are right, but there are more messages than the "
          "all-reduces of the buckets need. Each message costs a latency."};
  const bool divisible = is_divisible(each);
  const double time = outcome.microseconds, shortest = end_of(each, buckets);
  if (time > shortest + 1e-6) {
    double blocking = layers * microseconds_per_layer;
    for (const Bucket& bucket : buckets) blocking += bucket.time(each.N);
    std::string why =
        "Some all-reduce starts later than it could: start it as soon as its bucket is full.";
    if (divisible && std::abs(time - blocking) < 1e-6)
      why =
          "This is the time of all layers and all messages, one after another. Nothing overlaps: "
          "keep the Work, go on with the backward pass, and wait only at the end.";
    else if (const double paused = microseconds_paused(outcome); paused > 0)
      why = fmt::format(
          "The backward pass pauses for {:.3f} µs between its layers: while a rank waits for an "
          "earlier bucket, it does not compute. Wait only at the end.",
          paused);
    else if (each.N > 1 && sends_only_at_the_end(outcome))
      why =
          "All messages follow the backward pass, so nothing overlaps. Start a bucket's "
          "all-reduce within the loop over the layers, as soon as it is full.";
    throw Wrong{fmt::format("{}: the step has taken {:.3f} µs, and should take {:.3f} µs", what,
                            time, shortest),
                why};
  }
}

Outcome check_one(Check& check, int N, const std::vector<int>& sizes, int bucket) {
  Case each{N, sizes, bucket, {}};
  for (int r = 0; r < N; ++r)
    each.gradients.push_back(check.numbers(static_cast<std::size_t>(each.numbers())));
  const std::string what = each.what();
  Outcome outcome = check.run(
      what, N, [&](World& world) { return run_backward(world, each); }, diagnose);
  check_sums(each, what, outcome);
  check_costs(each, what, outcome);
  return outcome;
}

}  // namespace

void check(Check& check) {
  check_one(check, 2, {4}, 4);
  check_one(check, 2, {4, 4}, 8);
  check_one(check, 2, {4, 4, 4}, 4);
  check_one(check, 2, {4, 4, 4}, 8);
  check_one(check, 3, {6, 3, 9, 3}, 9);
  check_one(check, 1, {3, 2}, 1);
  check_one(check, 2, {0, 4, 0, 4}, 4);
  check_one(check, 2, {3, 1, 7, 5}, 6);
  check_one(check, 3, {2}, 100);
  check_one(check, 4, {400, 0, 800, 400, 400, 4}, 800);
  check_one(check, 11, {5, 30, 12}, 24);
  for (int trial = 0; trial < 6; ++trial) {
    std::vector<int> sizes;
    for (int layer = check.number_from(1, 8); layer > 0; --layer)
      sizes.push_back(16 * check.number_from(0, 12));
    check_one(check, 1 << check.number_from(1, 3), sizes, 16 * check.number_from(1, 24));
  }
  const std::vector<int> layers(8, 100);
  const double small = check_one(check, 2, layers, 1).microseconds;
  const double large = check_one(check, 2, layers, 800).microseconds;
  const Outcome outcome = check_one(check, 2, layers, 200);
  check.show(fmt::format("Your run with buckets of 200 numbers takes {:.1f} µs, instead of {:.1f} "
                         "with a bucket for each\nlayer (latencies) or {:.1f} with one for all (no "
                         "overlap):",
                         outcome.microseconds, small, large),
             draw(outcome.rows));
}

}  // namespace lockstep::exercises
