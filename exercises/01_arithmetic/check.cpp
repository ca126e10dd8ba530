#include "exercises/01_arithmetic/task.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Four lines of arithmetic decide most of a training configuration: what a device can hold, how "
    "long a pipeline idles, and what a collective costs.";

namespace {

/// Returns the smallest power of two that divides `bytes` into parts of at most `each`.
int powers_of_two(double bytes, double each) {
  return static_cast<int>(std::exp2(std::max(0.0, std::ceil(std::log2(bytes / each)))));
}

void check_memory(Check& check) {
  // 10 billion parameters exactly fill two GPUs of 80 GB, or one of 160 GB.
  const std::vector<std::pair<double, double>> known = {{70, 80}, {10, 80}, {10, 160}, {1, 80}};
  for (std::size_t trial = 0; trial < 50; ++trial) {
    const bool is_known = trial < known.size();
    const double billions = is_known ? known[trial].first : check.number_from(1, 600);
    const double gigabytes = is_known ? known[trial].second : check.number_from(16, 200);
    const double parameters = billions * 1e9, gpu = gigabytes * 1e9;
    const int expected = powers_of_two(16 * parameters, gpu);
    check.count_case(fmt::format("least_tensor_parallel({:g}, {:g})", parameters, gpu));
    const int found = least_tensor_parallel(parameters, gpu);
    if (found == expected) continue;
    std::string why =
        "Divide 16 bytes per parameter by the memory of a GPU, and round up to a "
        "power of two.";
    if (found == powers_of_two(2 * parameters, gpu))
      why =
          "This is enough for the 16-bit weights alone. Training also needs their gradients, and "
          "AdamW's moments and master copy in f32: 16 bytes per parameter.";
    else if (found == powers_of_two(4 * parameters, gpu))
      why = "This counts 4 bytes per parameter. Training in mixed precision with AdamW needs 16.";
    else if (found == static_cast<int>(std::ceil(16 * parameters / gpu)))
      why = "This is enough memory, but no power of two.";
    else if (2 * found == expected)
      why = "This is half of what is needed: round up, not down.";
    else if (found == 2 * expected && 16 * parameters == expected * gpu)
      why = "Half of them are filled to the last byte, and that is enough.";
    else if (found > expected)
      why = "This is enough memory, but fewer ranks have enough, too.";
    throw Wrong{
        fmt::format("least_tensor_parallel: {:g} billion parameters on GPUs of {:g} GB take "
                    "{} ranks, not {}",
                    billions, gigabytes, expected, found),
        why};
  }
}

double right_bubble(int p, int m) {
  return (p - 1.0) / (m + p - 1.0);
}

void check_bubble(Check& check) {
  for (int trial = 0; trial < 50; ++trial) {
    const int p = trial == 0 ? 4 : check.number_from(1, 64);
    const int m = trial == 0 ? 8 : check.number_from(1, 200);
    check.count_case(fmt::format("bubble({}, {})", p, m));
    const double expected = right_bubble(p, m), found = bubble(p, m);
    if (std::abs(found - expected) < 1e-9) continue;
    std::string why =
        "Draw the forward passes of all ranks in a grid: each rank works in m of the "
        "m + p - 1 columns.";
    if (std::abs(found - (p - 1.0) / m) < 1e-9)
      why =
          "This is the idle time in relation to the time of the work. The bubble is its share of "
          "the whole step, idle time included.";
    else if (std::abs(found - static_cast<double>(p) / (m + p)) < 1e-9)
      why = "The pipeline fills in p - 1 steps, not in p: the first rank works from the beginning.";
    else if (found == 0 && expected > 0)
      why = "Is this a division of two integers? (p - 1) / (m + p - 1) is 0 in C++; write 1.0.";
    throw Wrong{fmt::format("bubble: {} stages and {} microbatches idle {:.4f} of the step, not "
                            "{:.4f}",
                            p, m, expected, found),
                why};
  }
}

void check_microbatches(Check& check) {
  for (int trial = 0; trial < 60; ++trial) {
    const int p = trial == 0 ? 8 : trial == 2 ? 1 : check.number_from(1, 32);
    // In every other case, some m gives exactly this share, which is a power of two, so no formula
    // rounds it. Other shares that some m gives exactly are left out, because even a right formula
    // may round them.
    const bool is_exact = trial == 0 || trial % 2 == 1;
    const double share = trial == 0 ? 0.125
                         : is_exact ? 1.0 / (1 << check.number_from(1, 5))
                                    : check.number_from(1, 90) / 100.0;
    const double nearest = std::round((p - 1) * (1 - share) / share);
    if (!is_exact && std::abs(right_bubble(p, static_cast<int>(nearest)) - share) < 1e-9) continue;
    for (const bool below : {false, true}) {
      int expected = 1;
      const auto is_enough = [&](int m) {
        return below ? right_bubble(p, m) < share : right_bubble(p, m) <= share;
      };
      while (!is_enough(expected)) ++expected;
      check.count_case(fmt::format("fewest_microbatches({}, {:g}, {})", p, share, below));
      const int found = fewest_microbatches(p, share, below);
      if (found == expected) continue;
      std::string why =
          is_enough(found) ? "This is enough, but fewer are, too." : "The bubble is then larger.";
      if (below && !is_enough(found) && right_bubble(p, found) <= share)
        why =
            "The bubble is then exactly this share, and it should be below: \"below\" and \"at "
            "most\" differ by one microbatch here.";
      throw Wrong{
          fmt::format("fewest_microbatches: {} stages, a bubble {} {:.4f}: {} microbatches, "
                      "not {}, with which it is {:.4f}",
                      p, below ? "below" : "of at most", share, expected, found,
                      right_bubble(p, std::max(found, 1))),
          why};
    }
  }
}

void check_all_reduce(Check& check) {
  for (int trial = 0; trial < 50; ++trial) {
    const int N = trial == 0 ? 8 : check.number_from(1, 64);
    const double bytes = 1e3 * N * check.number_from(1, 10'000);
    const double latency = 1e-6 * check.number_from(1, 50);
    const double bandwidth = 1e9 * check.number_from(10, 400);
    const double expected = 2 * (N - 1) * (latency + bytes / N / bandwidth);
    check.count_case(
        fmt::format("all_reduce_seconds({}, {:g}, {:g}, {:g})", N, bytes, latency, bandwidth));
    const double found = all_reduce_seconds(N, bytes, latency, bandwidth);
    const auto is = [&](double time) { return std::abs(found - time) <= 1e-9 * (time + 1e-12); };
    if (is(expected)) continue;
    std::string why =
        "A ring all-reduce has 2 (N - 1) rounds. In each, every rank sends one "
        "message of n / N bytes.";
    if (is(2 * (N - 1) * bytes / N / bandwidth))
      why =
          "The latency is missing: each of the 2 (N - 1) rounds pays it once. For small messages "
          "it is nearly all of the time.";
    else if (is((N - 1) * (latency + bytes / N / bandwidth)))
      why = "This is a reduce-scatter, the first half. The all-gather that follows costs as much.";
    else if (is(2 * (N - 1) * (latency + bytes / bandwidth)))
      why = "In each round a rank sends one chunk, n / N bytes, not all of its data.";
    else if (is(2 * N * (latency + bytes / N / bandwidth)))
      why = "A chunk has N - 1 hops to make, not N: it starts on a rank whose part it contains.";
    throw Wrong{
        fmt::format("all_reduce_seconds: {} ranks, {:g} bytes, {:g} s and {:g} bytes/s take "
                    "{:.4g} s, not {:.4g} s",
                    N, bytes, latency, bandwidth, expected, found),
        why};
  }
}

}  // namespace

void check(Check& check) {
  check_memory(check);
  check_bubble(check);
  check_microbatches(check);
  check_all_reduce(check);
}

}  // namespace lockstep::exercises
