#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/comm/transport/transport.h"

namespace lockstep {

/// How far a rank's steady clock is ahead of rank 0's, with its error bound, in nanoseconds: the
/// true offset lies within offset ± uncertainty.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  std::int64_t uncertainty_ns = 0;
};

/// One question and its answer. The question was sent at t₀ and the answer arrived at t₁, on the
/// asking rank's clock; T was read from rank 0's clock in between.
struct ClockExchange {
  std::int64_t asked = 0;
  std::int64_t root = 0;
  std::int64_t answered = 0;
};

/// The offset from the exchange with the shortest round trip, as in NTP (RFC 5905, section 8):
///
///   offset = (t₀ + t₁) / 2 − T,   uncertainty = (t₁ − t₀) / 2
///
/// T was read at some moment between t₀ and t₁, so the error is at most half the round trip,
/// however asymmetric the travel times in the two directions are. Returns zero for both if there
/// are no exchanges.
ClockOffset best_offset(const std::vector<ClockExchange>& exchanges);

/// One rank's host and clock.
struct HostClock {
  std::string host;    ///< its name
  std::string clock;   ///< equal for processes that share a steady clock
  ClockOffset offset;  ///< from rank 0's clock
};

/// Identifies the steady clock that this process reads, by the machine's boot and the time
/// namespace.
std::string this_clock();

/// Collective over all ranks, on the control channel. Returns, on every rank, all ranks' hosts and
/// offsets, by rank. For each clock other than rank 0's, one rank exchanges `exchanges` messages
/// with rank 0; ranks that share a clock share the result, and ranks on rank 0's clock have an
/// offset of exactly zero.
///
/// The result is valid only briefly, because two clocks may drift apart by several microseconds per
/// second.
std::vector<HostClock> measure_clocks(Transport& transport, const std::string& host,
                                      const std::string& clock,
                                      const std::function<std::int64_t()>& steady_nanoseconds,
                                      int exchanges = 30);

}  // namespace lockstep
