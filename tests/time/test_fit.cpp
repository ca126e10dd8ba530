#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "core/time/fit.h"

using namespace lockstep;

namespace {

std::vector<MessageTime> messages(const Link& link) {
  std::vector<MessageTime> times;
  for (std::int64_t bytes : {0, 4, 64, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24})
    times.push_back({bytes, link.latency_seconds + static_cast<double>(bytes) / link.bandwidth});
  return times;
}

double predicted(const Link& link, std::int64_t bytes) {
  return link.latency_seconds + static_cast<double>(bytes) / link.bandwidth;
}

}  // namespace

TEST_CASE("exact times recover the link") {
  for (const double alpha : {1e-7, 5e-6, 1e-3})
    for (const double bandwidth : {1e8, 1e10, 3e11}) {
      CAPTURE(alpha);
      CAPTURE(bandwidth);
      const Link link = fit_link(messages({alpha, bandwidth}));
      CHECK(link.latency_seconds == doctest::Approx(alpha).epsilon(1e-6));
      CHECK(link.bandwidth == doctest::Approx(bandwidth).epsilon(1e-6));
    }
}

TEST_CASE("times with errors up to 10 % recover it within 10 %") {
  std::mt19937 random{1};
  std::uniform_real_distribution<double> noise{0.9, 1.1};
  for (int round = 0; round < 200; ++round) {
    auto times = messages({4e-6, 6e9});
    for (MessageTime& time : times) time.seconds *= noise(random);
    const Link link = fit_link(times);
    CHECK(link.latency_seconds == doctest::Approx(4e-6).epsilon(0.1));
    CHECK(link.bandwidth == doctest::Approx(6e9).epsilon(0.1));
  }
}

TEST_CASE("relative errors cancel if weighted by the share of the latency, or of the bandwidth") {
  std::mt19937 random{2};
  std::lognormal_distribution<double> noise{0, 0.5};
  int both = 0;
  for (int round = 0; round < 200; ++round) {
    auto times = messages({1e-5, 1e9});
    for (MessageTime& time : times) time.seconds *= noise(random);
    const Link link = fit_link(times);
    CHECK(link.latency_seconds >= 0);
    CHECK(link.bandwidth > 0);
    if (link.latency_seconds == 0 || std::isinf(link.bandwidth)) continue;
    ++both;
    double of_latency = 0, of_bandwidth = 0;
    for (const auto& [bytes, seconds] : times) {
      const double whole = predicted(link, bytes);
      of_latency += (seconds / whole - 1) * (link.latency_seconds / whole);
      of_bandwidth += (seconds / whole - 1) * (1 - link.latency_seconds / whole);
    }
    CHECK(std::abs(of_latency) < 1e-6);
    CHECK(std::abs(of_bandwidth) < 1e-6);
  }
  CHECK(both > 150);
}

TEST_CASE("small messages determine the latency, whatever large ones do") {
  // In messages larger than the caches, a byte takes three times as long.
  auto times = messages({4e-6, 2e10});
  for (MessageTime& time : times)
    if (time.bytes > 1 << 20) time.seconds *= 3;
  const Link link = fit_link(times);
  CHECK(link.latency_seconds == doctest::Approx(4e-6).epsilon(0.3));
  CHECK(link.bandwidth < 1.5e10);
  CHECK(link.bandwidth > 2e10 / 3);
}

TEST_CASE("neither part is negative, even if the best line's would be") {
  // Twice the bytes take three times the time, so the line through both points has a negative α.
  // With α = 0, the relative errors cancel if β is the mean time per byte.
  const Link from_zero = fit_link(std::vector<MessageTime>{{1000, 1e-3}, {2000, 3e-3}});
  CHECK(from_zero.latency_seconds == 0);
  CHECK(from_zero.bandwidth == doctest::Approx(1 / 1.25e-6));
  // The larger message is faster, so β is 0 and α is the mean time.
  const Link flat = fit_link(std::vector<MessageTime>{{0, 2e-3}, {1000, 1e-3}});
  CHECK(std::isinf(flat.bandwidth));
  CHECK(flat.latency_seconds == doctest::Approx(1.5e-3));
}

TEST_CASE("times that no line can fit are rejected") {
  CHECK_THROWS_AS(fit_link({}), std::invalid_argument);
  CHECK_THROWS_AS(fit_link(std::vector<MessageTime>{{0, 1e-6}}), std::invalid_argument);
  CHECK_THROWS_AS(fit_link(std::vector<MessageTime>{{8, 1e-6}, {8, 2e-6}}), std::invalid_argument);
  CHECK_THROWS_AS(fit_link(std::vector<MessageTime>{{0, 0}, {8, 2e-6}}), std::invalid_argument);
  CHECK_THROWS_AS(fit_link(std::vector<MessageTime>{{-8, 1e-6}, {8, 2e-6}}), std::invalid_argument);
}

namespace {

/// A machine that changes its protocol at 4 KB, and whose caches hold 1 MB.
double time_by_protocol(std::int64_t bytes) {
  const auto n = static_cast<double>(bytes);
  if (bytes < 4 << 10) return 2e-6 + n / 4e9;
  if (bytes < 1 << 20) return 9e-6 + n / 2e10;
  return n / 3e9;
}
std::vector<MessageTime> by_protocol() {
  std::vector<MessageTime> times;
  for (const std::int64_t bytes : {0, 4, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18,
                                   1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24})
    times.push_back({bytes, time_by_protocol(bytes)});
  return times;
}

}  // namespace

TEST_CASE("fit_segments finds where α and β change, and their values") {
  const auto times = by_protocol();
  const Link link = fit_segments(times, 0.01);
  REQUIRE(link.segments.size() == 2);
  CHECK(link.latency_seconds == doctest::Approx(2e-6).epsilon(0.01));
  CHECK(link.bandwidth == doctest::Approx(4e9).epsilon(0.05));
  CHECK(link.segments[0].from_bytes == 4 << 10);
  CHECK(link.segments[0].latency_seconds == doctest::Approx(9e-6).epsilon(0.01));
  CHECK(link.segments[0].bandwidth == doctest::Approx(2e10).epsilon(0.05));
  CHECK(link.segments[1].from_bytes == 1 << 20);
  CHECK(link.segments[1].latency_seconds == doctest::Approx(0).epsilon(1e-7));
  CHECK(link.segments[1].bandwidth == doctest::Approx(3e9).epsilon(0.01));
}

TEST_CASE(
    "with segments the error at every measured size is within the bound; with one line it is not") {
  std::mt19937 random{3};
  std::uniform_real_distribution<double> noise{0.8, 1.25};
  for (const double bound : {0.02, 0.1, 0.3})
    for (int round = 0; round < 8; ++round) {
      CAPTURE(bound);
      auto times = by_protocol();
      for (MessageTime& time : times) time.seconds *= noise(random);
      std::shuffle(times.begin(), times.end(), random);
      const Link link = fit_segments(times, bound);
      double largest = 0;
      for (const auto& [bytes, seconds] : times) {
        // Finds the segment by hand: the last one that begins at or before this size.
        double alpha = link.latency_seconds, bandwidth = link.bandwidth;
        for (const Link::Segment& segment : link.segments)
          if (bytes >= segment.from_bytes) alpha = segment.latency_seconds;
        for (const Link::Segment& segment : link.segments)
          if (bytes >= segment.from_bytes) bandwidth = segment.bandwidth;
        CHECK(alpha >= 0);
        CHECK(bandwidth > 0);
        const double fitted = alpha + static_cast<double>(bytes) / bandwidth;
        CHECK(fitted == doctest::Approx(time_of_message(link, bytes)));
        largest = std::max(largest, std::abs(fitted / seconds - 1));
      }
      CHECK(largest <= bound + 1e-9);
      CHECK(largest_error(link, times) == doctest::Approx(largest));
      CHECK(largest_error(fit_link(times), times) > bound);
      // A larger bound never needs more segments.
      CHECK(fit_segments(times, 2 * bound).segments.size() <= link.segments.size());
    }
}

TEST_CASE("a segment of one size keeps the previous α, and the rest of the time gives β") {
  const std::vector<MessageTime> times{{0, 5e-6}, {1000, 5.1e-6}, {1 << 20, 1e-4}, {1 << 21, 9e-4}};
  const Link link = fit_segments(times, 1e-6);
  REQUIRE(link.segments.size() == 2);
  CHECK(link.segments[0].latency_seconds == doctest::Approx(5e-6));
  CHECK(link.segments[0].bandwidth == doctest::Approx((1 << 20) / 95e-6));
  CHECK(link.segments[1].latency_seconds == doctest::Approx(5e-6));
  CHECK(link.segments[1].bandwidth == doctest::Approx((1 << 21) / 895e-6));
  // If the message takes less time than the previous α, all of its time is latency.
  const Link early = fit_segments({{0, 5e-6}, {4, 1e-6}}, 0.1);
  CHECK(early.segments.front().latency_seconds == doctest::Approx(1e-6));
  CHECK(std::isinf(early.segments.front().bandwidth));
}

TEST_CASE("one line needs no segments and minimizes the largest relative error") {
  // 1 µs at 0 B, 4 µs at 1 B, 2 µs at 1 KB. The 1 KB message keeps the time per byte near 0, so the
  // best line is flat; its error e satisfies 1 + e = 4 (1 - e), so e = 3/5.
  const std::vector<MessageTime> times{{0, 1e-6}, {1, 4e-6}, {1024, 2e-6}};
  const Link link = fit_segments(times, 0.7);
  CHECK(link.segments.empty());
  CHECK(largest_error(link, times) == doctest::Approx(0.6).epsilon(1e-3));
  for (const double alpha : {1e-7, 5e-6, 1e-3}) {
    const Link exact = fit_segments(messages({alpha, 1e9}), 1e-3);
    CHECK(exact.segments.empty());
    CHECK(exact.latency_seconds == doctest::Approx(alpha).epsilon(2e-3));
    CHECK(exact.bandwidth == doctest::Approx(1e9).epsilon(2e-3));
  }
}

TEST_CASE("fit_segments rejects impossible times, repeated sizes and negative bounds") {
  CHECK_THROWS_AS(fit_segments({}, 0.1), std::invalid_argument);
  CHECK_THROWS_AS(fit_segments({{0, 1e-6}, {8, 0}}, 0.1), std::invalid_argument);
  CHECK_THROWS_AS(fit_segments({{0, 1e-6}, {8, 2e-6}, {8, 3e-6}}, 0.1), std::invalid_argument);
  CHECK_THROWS_AS(fit_segments({{0, 1e-6}, {8, 2e-6}}, -1), std::invalid_argument);
}
