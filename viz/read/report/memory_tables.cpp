#include "viz/read/report/memory_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/text/text_table.h"
#include "viz/read/report/prediction_mismatch.h"

namespace lockstep {

namespace {

/// Predicted and observed bytes; a single figure with "=" if they are equal.
std::string compared(const Figure& predicted, std::int64_t observed) {
  if (!predicted) return human_bytes(observed);
  if (*predicted == observed) return human_bytes(observed) + " =";
  return human_bytes(*predicted) + " / " + human_bytes(observed);
}

/// One line for each reason why figures are not predicted, with the names of those figures.
std::string what_is_not_compared(const Report& report) {
  std::map<std::string, std::set<std::string>> missing;  // by reason
  for (const RankResults& rank : report.results.ranks)
    for (const PhaseResults& results : rank.phases)
      for (const auto& [figure, why] : results.predicted.missing()) missing[why].insert(figure);
  std::string text;
  for (const auto& [why, figures] : missing)
    text += fmt::format("  not compared: {} ({})\n", fmt::join(figures, ", "), why);
  return text;
}

std::string mismatch_lines(const Report& report) {
  std::string text;
  for (const std::string& line : prediction_mismatches(report.results.ranks))
    text += "  not as predicted: " + line + "\n";
  return text;
}

/// The bytes that a rank sends per step. If every operation is predicted, shows a single total;
/// otherwise, the total of the predicted operations, with their names, followed by every other
/// operation that was observed.
std::string sent_cell(const PhaseResults& results) {
  std::int64_t predicted = 0, sent = 0;
  bool all = true;
  std::vector<std::string> names, others;
  for (const Operation operation : all_operations) {
    const Figure& figure = results.predicted.bytes_sent[operation];
    const std::int64_t seen = results.bytes_sent[operation] / results.phase.steps;
    all = all && figure;
    if (figure) {
      predicted += *figure;
      sent += seen;
      if (*figure > 0 || seen > 0) names.emplace_back(name_of(operation));
    } else if (seen > 0) {
      others.push_back(fmt::format("{} {}", name_of(operation), human_bytes(seen)));
    }
  }
  if (all) return compared(predicted, sent);
  if (!names.empty())
    others.insert(others.begin(),
                  fmt::format("{} {}", fmt::join(names, "+"), compared(predicted, sent)));
  return others.empty() ? "not counted" : fmt::format("{}", fmt::join(others, ", "));
}

/// Compares resident memory with the allocator's account, summed over processes.
std::string resident_line(const Report& report) {
  const std::vector<ProcessMemory> processes = process_memory(report.results.ranks);
  if (processes.empty()) return {};
  const auto sum = [&](auto part) {
    std::int64_t bytes = 0;
    for (const ProcessMemory& process : processes) bytes += std::invoke(part, process);
    return human_bytes(bytes);
  };
  return fmt::format(
      "  resident memory{}: peak {} = {} of tensors + {} before training + {} of other buffers\n",
      processes.size() > 1 ? fmt::format(" of {} processes", processes.size()) : "",
      sum(&ProcessMemory::resident), sum(&ProcessMemory::tensors), sum(&ProcessMemory::program),
      sum(&ProcessMemory::other));
}

}  // namespace

std::string varying_memory(const Report& report) {
  std::string text;
  for (int i = 0; i < memory_category_count; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (category == MemoryCategory::communication) continue;  // bytes in flight vary
    const bool many = report.results.ranks.size() > most_columns;
    TableRows rows{{fmt::format("peak {}", name_of(category))}};
    bool varies = false;
    if (many)  // one row per rank, or per group of identical ranks
      for (const Phase& phase : report.results.phases()) rows[0].push_back(phase.name);
    else
      for (const RankResults& rank : report.results.ranks)
        rows[0].push_back(fmt::format("rank {}", rank.rank));
    const auto cell = [&](const RankResults& rank, std::size_t phase) {
      const std::int64_t peak = rank.phases[phase].peak.of(category);
      varies = varies || peak != rank.phases.front().peak.of(category);
      return human_bytes(peak);
    };
    if (many)
      for (const RankResults& rank : report.results.ranks) {
        rows.push_back({fmt::format("rank {}", rank.rank)});
        for (std::size_t p = 0; p < report.results.phases().size(); ++p)
          rows.back().push_back(cell(rank, p));
      }
    else
      for (std::size_t p = 0; p < report.results.phases().size(); ++p) {
        rows.push_back({report.results.phases()[p].name});
        for (const RankResults& rank : report.results.ranks) rows.back().push_back(cell(rank, p));
      }
    join_equal_rows(rows);
    if (varies) text += (text.empty() ? "" : "\n") + table(rows);
  }
  return text;
}

std::string memory_table(const Report& report) {
  TableRows rows{
      {"", "sent/step", "activations", "in flight", "parameters", "gradients", "optimizer"}};
  const bool has_overhead = std::ranges::any_of(report.results.ranks, [](const RankResults& rank) {
    return rank.phases.back().overhead_bytes > 0;
  });
  if (has_overhead) rows[0].insert(rows[0].begin() + 2, "overhead");
  for (const RankResults& rank : report.results.ranks) {
    const PhaseResults& results = rank.phases.back();
    const auto cell = [&](MemoryCategory category) {
      return compared(results.predicted.peak_bytes[category], results.peak.of(category));
    };
    rows.push_back({fmt::format("rank {}", rank.rank), sent_cell(results),
                    cell(MemoryCategory::activations), cell(MemoryCategory::communication),
                    cell(MemoryCategory::parameters), cell(MemoryCategory::gradients),
                    cell(MemoryCategory::optimizer)});
    if (has_overhead)
      rows.back().insert(rows.back().begin() + 2,
                         human_bytes(results.overhead_bytes / results.phase.steps));
  }
  join_equal_rows(rows);
  const std::string name = report.results.phases().back().name;
  const bool recomputed = report.results.ranks.front().phases.back().predicted.by_dry_run;
  const char* const figures = recomputed ? "recomputed" : "predicted";
  return table(rows) +
         fmt::format(
             "  {}bytes sent, and peak memory by the allocator's account; '=': exactly as "
             "{}, otherwise {} / observed\n",
             report.results.phases().size() > 1 ? name + ": " : "", figures, figures) +
         (recomputed ? "  recomputed: in a dry run of each rank, without the others\n" : "") +
         (has_overhead
              ? "  overhead: bytes of message headers that the transport sends in addition "
                "to these; counted, not predicted\n"
              : "") +
         resident_line(report) + mismatch_lines(report) + what_is_not_compared(report);
}

std::string predicted_lines(const Report& report) {
  const auto& highest = *std::ranges::max_element(
      report.results.ranks, {},
      [](const RankResults& rank) { return rank.phases.back().peak_total; });
  const PhaseResults& results = highest.phases.back();
  std::string text =
      fmt::format("rank {}: sent per step {}; peaks:", highest.rank, sent_cell(results));
  for (const MemoryCategory category : all_memory_categories)
    text +=
        fmt::format(" {} {},", name_of(category),
                    compared(results.predicted.peak_bytes[category], results.peak.of(category)));
  text.pop_back();
  const std::vector<std::string> misses = prediction_mismatches(report.results.ranks);
  const char* const how = results.predicted.by_dry_run ? "recomputed" : "predicted";
  if (misses.empty()) return text + fmt::format("\n  '=': exactly as {}; no rank deviates\n", how);
  text += fmt::format("\n  '=': exactly as {}; otherwise {} / observed\n", how, how);
  constexpr std::size_t most = 3;
  for (std::size_t i = 0; i < std::min(most, misses.size()); ++i)
    text += "  not as predicted: " + misses[i] + "\n";
  return text;
}

// The memory that is in use but not allocated by ranks belongs to NCCL, cuBLAS and CUDA itself.
std::string gpu_table(const Report& report) {
  struct Use {
    std::string ranks;
    std::int64_t in_use = 0, ours = 0;
  };
  std::map<std::string, Use> gpus;
  Picoseconds late = 0;
  std::vector<int> queues;
  int most = 0;  // communicators of a rank
  std::int64_t their_bytes = 0;
  for (const RankResults& rank : report.results.ranks) {
    if (rank.gpu.address.empty()) continue;
    if (rank.gpu.communicators > most) {
      most = rank.gpu.communicators;
      their_bytes = rank.gpu.communicator_bytes;
    }
    queues.push_back(rank.gpu.queues);
    Use& use = gpus[rank.host + " " + rank.gpu.address];
    use.ranks += fmt::format("{}{}", use.ranks.empty() ? "" : ",", rank.rank);
    use.in_use = std::max(use.in_use, rank.gpu.in_use);
    use.ours += rank.gpu.ours;
    late = std::max(late, rank.gpu.late);
  }
  if (gpus.empty()) return {};
  TableRows rows{{"GPU", "ranks", "in use", "ranks' tensors", "other"}};
  for (const auto& [gpu, use] : gpus)
    rows.push_back({gpu, use.ranks, human_bytes(use.in_use), human_bytes(use.ours),
                    human_bytes(use.in_use - use.ours)});
  return table(rows) +
         (most > 0 ? fmt::format("  NCCL's communicators: {} on the rank that has most; while they "
                                 "were made, the memory in use grew by {}\n",
                                 most, human_bytes(their_bytes))
                   : "") +
         "  after the last step, by the GPU's own account; other: CUDA, cuBLAS, NCCL, the pool's "
         "free blocks, other programs\n" +
         (late > 0
              ? fmt::format(
                    "  spans use the GPU's clock; their times are accurate to within {:.1f} µs\n",
                    seconds(late) * 1e6)
              : "") +
         fmt::format("  CUDA streams of each rank, without NCCL's own: {}\n",
                     fmt::join(queues, ", "));
}

}  // namespace lockstep
