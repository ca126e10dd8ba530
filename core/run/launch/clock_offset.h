#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/comm/transport/transport.h"

namespace lockstep {

/// How far a rank's steady clock is ahead of rank 0's, and how wrong that may be, in nanoseconds:
/// the true figure lies within offset ± uncertainty.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  std::int64_t uncertainty_ns = 0;
};

/// One question and its answer: asked at t₀ and answered at t₁ by the asking clock, and what rank
/// 0's clock showed between the two, T.
struct ClockExchange {
  std::int64_t asked = 0;
  std::int64_t root = 0;
  std::int64_t answered = 0;
};

/// Of the exchange with the shortest way there and back, as in NTP (RFC 5905, section 8):
///
///   offset = (t₀ + t₁) / 2 − T,   uncertainty = (t₁ − t₀) / 2
///
/// T was read at some moment between t₀ and t₁, so that the error is at most half the way there and
/// back, however unequal the two ways are. Of no exchange at all: zero and zero.
ClockOffset best_offset(const std::vector<ClockExchange>& exchanges);

/// One rank's place in a run, and its clock.
struct HostClock {
  std::string host;    ///< its name
  std::string clock;   ///< the same for processes that share a steady clock
  ClockOffset offset;  ///< to rank 0's
};

/// Names the steady clock that this process reads: that of this boot of this machine, in this time
/// namespace.
std::string this_clock();

/// To be called by every rank at once, on the control channel. Returns all ranks' hosts and
/// offsets, by rank, the same on every rank. One rank of each clock that is not rank 0's asks it
/// `exchanges` times; ranks that share a clock share what was found, and those on rank 0's have an
/// offset of exactly zero.
///
/// What is found holds for the moment: two clocks may drift apart by some microseconds a second.
std::vector<HostClock> measure_clocks(Transport& transport, const std::string& host,
                                      const std::string& clock,
                                      const std::function<std::int64_t()>& steady_nanoseconds,
                                      int exchanges = 30);

}  // namespace lockstep
