#include "core/plan/divisions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/plan/plan.h"

namespace lockstep {

namespace {

/// "A, B or C".
std::string one_of(std::vector<std::string> ways) {
  const std::string last = ways.back();
  ways.pop_back();
  return ways.empty() ? last : fmt::format("{} or {}", fmt::join(ways, ", "), last);
}

}  // namespace

void check_division(const Division& division, const std::function<std::vector<std::string>()>& ways,
                    const std::string& otherwise) {
  const auto& [flags, whole, items, by, into] = division;
  if (by > 0 && whole % by == 0) return;
  throw UsageError(fmt::format("{}: {} {} do not divide into {}; use {}{}", flags, whole, items,
                               into, one_of(ways()), otherwise));
}

std::vector<std::string> nearest_multiples(const std::string& flag, std::int64_t by,
                                           std::int64_t value) {
  const std::int64_t fewer = value / by * by;
  std::vector<std::string> ways;
  if (fewer > 0) ways.push_back(fmt::format("{} {}", flag, fewer));
  ways.push_back(fmt::format("{} {}", flag, fewer + by));
  return ways;
}

std::vector<std::string> nearest_divisors(const std::string& flag, std::int64_t whole,
                                          std::int64_t value, std::int64_t least) {
  std::vector<std::string> ways;
  std::int64_t fewer = std::min(value, whole), more = value + 1;
  while (fewer >= least && whole % fewer != 0) --fewer;
  while (more <= whole && whole % more != 0) ++more;
  if (fewer >= least) ways.push_back(fmt::format("{} {}", flag, fewer));
  if (more <= whole) ways.push_back(fmt::format("{} {}", flag, more));
  return ways;
}

void check_heads(const GptConfig& model, const std::string& flags, Axis axis, int size, int others,
                 const std::string& otherwise) {
  const std::int64_t parts = std::int64_t{size} * others, heads = model.heads;
  // The ranks divide the heads of keys and values, each with the heads of queries that share it.
  const std::int64_t kv_heads = model.kv_heads();
  const auto sizes = [&] {
    return nearest_divisors(fmt::format("--{}", name_of(axis)), kv_heads / others, size, 2);
  };
  const auto find_ways = [&] {
    std::vector<std::string> ways = sizes();
    const std::int64_t fewer = heads / parts * parts, more = fewer + parts;
    const std::size_t without_heads = ways.size();
    if (model.llama) {
      const std::int64_t width = 2 * more;  // an even number of columns per head
      ways.push_back(fmt::format("--heads {} with --kv-heads {} and --hidden {}", more, parts,
                                 (model.hidden + width - 1) / width * width));
      return ways;
    }
    for (const std::int64_t each : {fewer, more})
      if (each > 0 && model.hidden % each == 0) ways.push_back(fmt::format("--heads {}", each));
    if (ways.size() == without_heads)
      ways.push_back(fmt::format("--heads {} with --hidden {}", more,
                                 (model.hidden + more - 1) / more * more));
    return ways;
  };
  check_division({.flags = flags,
                  .whole = heads,
                  .items = "heads",
                  .by = parts,
                  .into = fmt::format("{} equal groups", parts)},
                 find_ways, otherwise);
  check_division(
      {.flags = fmt::format("{} and --kv-heads {}", flags, kv_heads),
       .whole = kv_heads,
       .items = "heads of keys and values",
       .by = parts,
       .into = fmt::format("{} equal groups", parts)},
      [&] {
        std::vector<std::string> ways = sizes();
        std::int64_t more = (kv_heads + parts - 1) / parts * parts;
        while (heads % more != 0) more += parts;  // reaches all heads at the latest
        ways.push_back(fmt::format("--kv-heads {}", more));
        return ways;
      },
      otherwise);
}

void check_batch(const Plan& plan, const std::vector<int>& microbatches) {
  constexpr std::int64_t most = 1 << 28;  // the largest value that a flag accepts
  const int sequences = plan.batch.sequences, dp = plan.mesh.size(Axis::dp);
  for (const int m : microbatches) {
    const std::int64_t pieces = std::int64_t{m} * dp;
    check_division({.flags = fmt::format("--batch {} with --microbatches {}{}", sequences, m,
                                         dp > 1 ? fmt::format(" and --dp {}", dp) : ""),
                    .whole = sequences,
                    .items = "sequences",
                    .by = pieces,
                    .into = fmt::format("{} equal microbatches", pieces)},
                   [&] {
                     std::int64_t all = 1;  // a batch of this size divides for every m
                     for (const int each : microbatches) {
                       all = std::lcm(all, std::int64_t{each} * dp);
                       if (all > most) break;
                     }
                     return all <= most
                                ? nearest_multiples("--batch", all, sequences)
                                : std::vector{fmt::format("--batch {} with --microbatches 1", dp)};
                   });
  }
  const std::vector<int>& shares = plan.batch.shares;
  if (shares.empty()) return;
  const int pieces = dp * microbatches.front();
  const std::string given = fmt::format("--shares {}", fmt::join(shares, ","));
  if (static_cast<int>(shares.size()) != dp)
    throw UsageError(
        fmt::format("{} with --dp {}: give one number of microbatches per replica", given, dp));
  if (std::ranges::min(shares) < 1)
    throw UsageError(given + ": every replica needs at least one microbatch");
  if (const auto sum = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
      sum != pieces)
    throw UsageError(fmt::format(
        "{}: these are {} microbatches; {} replicas with --microbatches {} have {} together", given,
        sum, dp, microbatches.front(), pieces));
}

}  // namespace lockstep
