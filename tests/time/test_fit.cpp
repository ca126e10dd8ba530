#include <doctest/doctest.h>

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

TEST_CASE("relative errors cancel, weighted by the latency's share and by the bandwidth's") {
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
  // Beyond the caches a byte takes three times as long.
  auto times = messages({4e-6, 2e10});
  for (MessageTime& time : times)
    if (time.bytes > 1 << 20) time.seconds *= 3;
  const Link link = fit_link(times);
  CHECK(link.latency_seconds == doctest::Approx(4e-6).epsilon(0.3));
  CHECK(link.bandwidth < 1.5e10);
  CHECK(link.bandwidth > 2e10 / 3);
}

TEST_CASE("neither part is negative, even if the best line's would be") {
  // Twice the bytes take three times the time: the line through both starts below 0. With the line
  // through 0, the relative errors cancel if β is the mean time per byte.
  const Link from_zero = fit_link(std::vector<MessageTime>{{1000, 1e-3}, {2000, 3e-3}});
  CHECK(from_zero.latency_seconds == 0);
  CHECK(from_zero.bandwidth == doctest::Approx(1 / 1.25e-6));
  // A larger message that is faster: the fit is the mean time.
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
