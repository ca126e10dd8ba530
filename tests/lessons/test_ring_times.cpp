#include <doctest/doctest.h>

#include <random>

#include "lessons/13_ring_attention/experiment/attention_alone.h"

// The modelled times of one attention layer. Each rank holds c tokens; a full block of c x c scores
// takes T = 4 b c² h / F, a rank's own block T/2, and a hop of K and V takes τ. A block's backward
// pass takes 2.5 times as long.

using namespace lockstep;

namespace {

/// 1e12 FLOP/s: one FLOP per picosecond, so that no time is rounded.
AttentionAlone alone_on(int n, int c, int h, int b, Picoseconds transfer, Picoseconds latency) {
  AttentionAlone alone;
  alone.ranks = n;
  alone.batch = b;
  alone.model = {.layers = 1, .hidden = h, .heads = 1, .sequence = n * c, .vocabulary = 256};
  alone.cluster.flops = 1e12;
  const double bytes = 2.0 * b * c * h * 4;
  alone.cluster.within = {seconds(latency), transfer > 0 ? bytes / seconds(transfer)
                                                         : std::numeric_limits<double>::infinity()};
  return alone;
}

/// T in picoseconds.
Picoseconds block_time(int c, int h, int b) {
  return Picoseconds{4} * b * c * c * h;
}

}  // namespace

TEST_CASE(
    "attention alone: contiguous N/(2N-1) of ideal, zigzag all of it, while hops are hidden") {
  std::mt19937 random{5};
  const auto up_to = [&](int n) {
    return 1 + static_cast<int>(random() % static_cast<unsigned>(n));
  };
  for (int trial = 0; trial < 40; ++trial) {
    const int n = 1 + up_to(11), c = 2 * up_to(20), h = up_to(16), b = up_to(3);
    const Picoseconds block = block_time(c, h, b);
    // Tests hops from free communication to exactly half a block's compute.
    const Picoseconds hop = block / 2 * (trial % 5) / 4;
    const Picoseconds latency = hop * up_to(4) / 8;
    CAPTURE(n);
    CAPTURE(c);
    CAPTURE(block);
    CAPTURE(hop);
    CAPTURE(latency);
    AttentionAlone alone = alone_on(n, c, h, b, hop - latency, latency);

    const AttentionTimes contiguous = time_attention(alone);
    CHECK(contiguous.forward == (2 * n - 1) * block / 2);
    // Of the 2N-1 half blocks that the last rank computes, its even share is N.
    CHECK(seconds(contiguous.forward) * n / (2 * n - 1) ==
          doctest::Approx(alone.ideal_seconds(false)).epsilon(1e-12));
    const Picoseconds backward = (2 * n - 1) * block * 5 / 4;
    CHECK(contiguous.with_backward == contiguous.forward + backward + hop);

    alone.layout = ContextLayout::zigzag;
    const AttentionTimes zigzag = time_attention(alone);
    CHECK(zigzag.forward == n * block / 2);
    CHECK(seconds(zigzag.forward) == doctest::Approx(alone.ideal_seconds(false)).epsilon(1e-12));
    CHECK(zigzag.with_backward == zigzag.forward + n * block * 5 / 4 + hop);

    // The last rank computes the whole triangle of every other rank.
    alone.layout = ContextLayout::striped;
    const AttentionTimes striped = time_attention(alone);
    CHECK(striped.forward == n * block / 2);
    CHECK(striped.with_backward == striped.forward + n * block * 5 / 4 + hop);
  }
}

TEST_CASE("attention alone with dear hops: forward, every step takes the longer of both") {
  for (const int n : {2, 3, 4, 8})
    for (const int quarters : {3, 4, 5, 8}) {  // the hop, in quarters of a block
      CAPTURE(n);
      CAPTURE(quarters);
      const Picoseconds block = block_time(16, 8, 1), hop = block * quarters / 4;
      AttentionAlone alone = alone_on(n, 16, 8, 1, hop, 0);
      // In the first step, a rank computes its own block, T/2; then whole blocks, and the last
      // needs no hop.
      const Picoseconds contiguous = time_attention(alone).forward;
      CHECK(contiguous == hop + (n - 2) * std::max(hop, block) + block);
      alone.layout = ContextLayout::zigzag;
      const Picoseconds zigzag = time_attention(alone).forward;
      CHECK(zigzag == (n - 1) * hop + block / 2);
      CHECK(contiguous > (2 * n - 1) * block / 2);
      CHECK(zigzag > n * block / 2);
    }
}

TEST_CASE("zigzag hides its hops from c = 4F/B on in f32, contiguous blocks from 2F/B on") {
  // F/B = 4 FLOPs per byte. The first hop hides behind half a block, so contiguous blocks lose it.
  for (const int n : {2, 4}) {
    const auto forward = [&](int c, ContextLayout layout) {
      AttentionAlone alone = alone_on(n, c, 8, 1, 0, 0);
      alone.cluster.within.bandwidth = alone.cluster.flops / 4;
      alone.layout = layout;
      return time_attention(alone).forward;
    };
    CHECK(forward(16, ContextLayout::zigzag) == n * block_time(16, 8, 1) / 2);
    CHECK(forward(14, ContextLayout::zigzag) > n * block_time(14, 8, 1) / 2);
    CHECK(forward(16, ContextLayout::contiguous) == (2 * n - 1) * block_time(16, 8, 1) / 2);
    const Picoseconds block = block_time(8, 8, 1);
    CHECK(forward(8, ContextLayout::contiguous) == n * block);  // T/2 of the first hop is exposed
    const Picoseconds less = block_time(6, 8, 1), hop = Picoseconds{4} * 2 * 6 * 8 * 4;
    CHECK(hop > less);
    CHECK(forward(6, ContextLayout::contiguous) == (n - 1) * hop + less);
  }
}

TEST_CASE("Ulysses and gathered keys expose their exchanges; Ulysses balances the work by itself") {
  for (const ContextLayout layout : {ContextLayout::contiguous, ContextLayout::zigzag}) {
    AttentionAlone alone = alone_on(4, 16, 8, 1, 0, 0);
    alone.model.heads = 4;
    alone.layout = layout;
    const Picoseconds block = block_time(16, 8, 1);
    const bool zigzag = layout == ContextLayout::zigzag;
    alone.method = ContextMethod::gather;
    CHECK(time_attention(alone).forward == (zigzag ? 4 : 7) * block / 2);
    alone.method = ContextMethod::ulysses;
    CHECK(time_attention(alone).forward == 4 * block / 2);
    // One K or V of a rank takes T/4 to send, so a hop of the ring is hidden.
    alone.cluster.within.bandwidth = 16.0 * 8 * 4 / seconds(block / 4);
    CHECK(time_attention(alone).forward == 4 * block / 2 + 4 * (block / 4) * 3 / 4);
    alone.method = ContextMethod::gather;
    // The block of the rank's own keys, T/2, hides a part of the gather.
    CHECK(time_attention(alone).forward == (zigzag ? 3 : 6) * block / 2 + 3 * 2 * (block / 4));
    alone.method = ContextMethod::ring;
    CHECK(time_attention(alone).forward == (zigzag ? 4 : 7) * block / 2);
  }
}
