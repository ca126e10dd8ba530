#include "core/run/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "core/run/report/prediction_mismatch.h"
#include "core/run/report/terminal_timeline.h"
#include "core/trace/analysis.h"

namespace lockstep {

namespace {

std::string human_bytes(std::int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 100'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  if (bytes < 10'000'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

std::string signed_percent(double share) {
  return fmt::format("{:+.1f} %", share * 100);
}

/// Pads columns to their widest cell; the first is left-aligned, the others right-aligned.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const auto& row : rows) {
    text += "  ";
    for (std::size_t i = 0; i < row.size(); ++i)
      text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("   {:>{}}", row[i], widths[i]);
    text += '\n';
  }
  return text;
}

std::string bubble_table(const Report& report) {
  std::vector<std::vector<std::string>> rows{{"bubble", "formula", "uneven stages",
                                              "uneven actions", "messages", "observed", "simulated",
                                              "a step takes"}};
  for (std::size_t p = 0; p < report.bubbles.size(); ++p) {
    const ObservedBubble& seen = report.bubbles[p];
    const PhaseRecord& record = report.ranks.front().phases[p];
    if (!seen.share || !record.predicted.bubble) continue;
    const auto part = [&](double BubbleParts::*which) {
      return seen.parts ? signed_percent((*seen.parts).*which) : std::string{"-"};
    };
    rows.push_back(
        {record.phase.name, percent(*record.predicted.bubble), part(&BubbleParts::uneven),
         part(&BubbleParts::actions), part(&BubbleParts::messages), percent(*seen.share),
         record.predicted.bubble_simulated ? percent(*record.predicted.bubble_simulated) : "-",
         fmt::format("{:.3f} ms", seconds(seen.window) * 1e3)});
  }
  if (rows.size() == 1) return {};
  return table(rows) +
         fmt::format("  formula: {}, for equal stages and free messages. {}\n",
                     report.ranks.front().phases.back().predicted.formula,
                     report.options.clock.is_modelled()
                         ? "Simulated: before the run, from the cluster's costs."
                         : "Uneven actions: the same action does not always take "
                           "as long, on a busy machine mostly because it waits for "
                           "a core.") +
         "  Each part is the change in percentage points when one more thing is as observed. It is "
         "negative if that fills idle\n"
         "  time: the bubble is a share, and longer actions on the slowest rank leave a smaller "
         "share idle.\n";
}

/// Where a step's time goes on each rank, with exposed communication in its parts. Not for
/// pipelines, whose bubble table shows it.
std::string exposure_table(const Report& report) {
  if (report.timeline.ranks().empty() || report.ranks.front().phases.empty() ||
      report.ranks.front().phases.front().predicted.bubble)
    return {};
  std::vector<std::vector<std::string>> rows{{"ms per rank and step", "step", "compute", "exposed",
                                              "transfer", "latency", "late peer", "idle",
                                              "communication", "hidden"}};
  for (const ObservedOverlap& seen : report.overlaps) {
    if (seen.communication == 0 && seen.exposed == 0) continue;
    const auto ms = [](double seconds) { return fmt::format("{:.3f}", seconds * 1e3); };
    rows.push_back({report.overlaps.size() > 1 ? seen.phase : "all steps", ms(seen.step),
                    ms(seen.compute), ms(seen.exposed), ms(seen.transfer), ms(seen.latency),
                    ms(seen.late_peer), ms(seen.idle), ms(seen.communication),
                    seen.communication > 0 ? percent(seen.hidden / seen.communication) : "-"});
  }
  if (rows.size() == 1) return {};
  return table(rows) +
         fmt::format(
             "  step = compute + exposed + idle; means over ranks and the phase's steps\n"
             "  exposed: compute stands still for communication = transfer (bytes on a lane) + "
             "latency{} + waiting for a late peer\n"
             "  communication: a lane carries bytes; hidden: the share of it during which the rank "
             "computes\n",
             report.options.clock.is_modelled() ? "" : " (measured within transfer)");
}

constexpr std::size_t most_columns = 16;

/// If there are many ranks, merges adjacent rows that differ only in the rank number.
void join_equal_rows(std::vector<std::vector<std::string>>& rows) {
  if (rows.size() <= most_columns) return;
  std::vector<std::vector<std::string>> joined{rows.front()};
  for (std::size_t first = 1, next = 1; first < rows.size(); first = next) {
    const auto same = [&](const std::vector<std::string>& row) {
      return std::equal(row.begin() + 1, row.end(), rows[first].begin() + 1, rows[first].end());
    };
    while (next < rows.size() && same(rows[next])) ++next;
    joined.push_back(rows[first]);
    if (next - first > 1) joined.back()[0] = fmt::format("ranks {} to {}", first - 1, next - 2);
  }
  rows = std::move(joined);
}

/// Peak memory by phase, for the categories in which phases differ.
std::string varying_memory(const Report& report) {
  std::string text;
  for (int i = 0; i < memory_category_count; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (category == MemoryCategory::communication) continue;  // bytes in flight vary
    const bool many = report.ranks.size() > most_columns;
    std::vector<std::vector<std::string>> rows{{fmt::format("peak {}", name_of(category))}};
    bool varies = false;
    if (many)  // one row per rank, or per group of identical ranks
      for (const Phase& phase : report.phases()) rows[0].push_back(phase.name);
    else
      for (const RankRecord& rank : report.ranks)
        rows[0].push_back(fmt::format("rank {}", rank.rank));
    const auto cell = [&](const RankRecord& rank, std::size_t phase) {
      const std::int64_t peak = rank.phases[phase].peak.of(category);
      varies = varies || peak != rank.phases.front().peak.of(category);
      return human_bytes(peak);
    };
    if (many)
      for (const RankRecord& rank : report.ranks) {
        rows.push_back({fmt::format("rank {}", rank.rank)});
        for (std::size_t p = 0; p < report.phases().size(); ++p)
          rows.back().push_back(cell(rank, p));
      }
    else
      for (std::size_t p = 0; p < report.phases().size(); ++p) {
        rows.push_back({report.phases()[p].name});
        for (const RankRecord& rank : report.ranks) rows.back().push_back(cell(rank, p));
      }
    join_equal_rows(rows);
    if (varies) text += (text.empty() ? "" : "\n") + table(rows);
  }
  return text;
}

/// Predicted and observed bytes; a single figure with "=" if they are equal.
std::string compared(const Figure& predicted, std::int64_t observed) {
  if (!predicted) return human_bytes(observed);
  if (*predicted == observed) return human_bytes(observed) + " =";
  return human_bytes(*predicted) + " / " + human_bytes(observed);
}

/// One line for each reason why figures are missing, with the names of those figures.
std::string what_is_not_compared(const Report& report) {
  std::map<std::string, std::set<std::string>> missing;  // by reason
  for (const RankRecord& rank : report.ranks)
    for (const PhaseRecord& record : rank.phases)
      for (const auto& [figure, why] : record.predicted.missing()) missing[why].insert(figure);
  std::string text;
  for (const auto& [why, figures] : missing)
    text += fmt::format("  not compared: {} ({})\n", fmt::join(figures, ", "), why);
  return text;
}

std::string mismatch_lines(const Report& report) {
  std::string text;
  for (const std::string& line : prediction_mismatches(report.ranks))
    text += "  not as predicted: " + line + "\n";
  return text;
}

/// The bytes that a rank sends in a step. A single total if every operation is predicted. Otherwise
/// the total of the predicted operations, with their names, followed by each other operation
/// observed.
std::string sent_cell(const PhaseRecord& record) {
  std::int64_t predicted = 0, sent = 0;
  bool all = true;
  std::vector<std::string> names, others;
  for (const Operation operation : all_operations) {
    const Figure& figure = record.predicted.bytes_sent[operation];
    const std::int64_t seen = record.bytes_sent[operation] / record.phase.steps;
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

/// Compares resident memory with the account, summed over processes.
std::string resident_line(const Report& report) {
  const std::vector<ProcessMemory> processes = process_memory(report.ranks);
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

/// For the last phase; deviations from the prediction, for every phase.
std::string memory_table(const Report& report) {
  std::vector<std::vector<std::string>> rows{
      {"", "sent a step", "activations", "in flight", "parameters", "gradients", "optimizer"}};
  const bool has_overhead = std::ranges::any_of(
      report.ranks, [](const RankRecord& rank) { return rank.phases.back().overhead_bytes > 0; });
  if (has_overhead) rows[0].insert(rows[0].begin() + 2, "overhead");
  for (const RankRecord& rank : report.ranks) {
    const PhaseRecord& record = rank.phases.back();
    const auto cell = [&](MemoryCategory category) {
      return compared(record.predicted.peak_bytes[category], record.peak.of(category));
    };
    rows.push_back({fmt::format("rank {}", rank.rank), sent_cell(record),
                    cell(MemoryCategory::activations), cell(MemoryCategory::communication),
                    cell(MemoryCategory::parameters), cell(MemoryCategory::gradients),
                    cell(MemoryCategory::optimizer)});
    if (has_overhead)
      rows.back().insert(rows.back().begin() + 2,
                         human_bytes(record.overhead_bytes / record.phase.steps));
  }
  join_equal_rows(rows);
  const std::string name = report.phases().back().name;
  return table(rows) +
         fmt::format(
             "  {}bytes sent, and peaks of memory by the allocator's account; '=': exactly as "
             "predicted, otherwise predicted / observed\n",
             report.phases().size() > 1 ? name + ": " : "") +
         (has_overhead
              ? "  overhead: bytes of message headers that the transport sends in addition "
                "to these; counted, not predicted\n"
              : "") +
         resident_line(report) + mismatch_lines(report) + what_is_not_compared(report);
}

/// The memory in use as GPUs report it, next to the ranks' allocations: NCCL, cuBLAS and CUDA
/// itself take memory too.
std::string gpu_table(const Report& report) {
  struct Use {
    std::string ranks;
    std::int64_t in_use = 0, ours = 0;
  };
  std::map<std::string, Use> gpus;
  Picoseconds late = 0;
  for (const RankRecord& rank : report.ranks) {
    if (rank.gpu.address.empty()) continue;
    Use& use = gpus[rank.host + " " + rank.gpu.address];
    use.ranks += fmt::format("{}{}", use.ranks.empty() ? "" : ",", rank.rank);
    use.in_use = std::max(use.in_use, rank.gpu.in_use);
    use.ours += rank.gpu.ours;
    late = std::max(late, rank.gpu.late);
  }
  if (gpus.empty()) return {};
  std::vector<std::vector<std::string>> rows{{"GPU", "ranks", "in use", "ranks' tensors", "other"}};
  for (const auto& [gpu, use] : gpus)
    rows.push_back({gpu, use.ranks, human_bytes(use.in_use), human_bytes(use.ours),
                    human_bytes(use.in_use - use.ours)});
  return table(rows) +
         "  after the last step, by the GPU's own account; other: CUDA, cuBLAS, NCCL, the pool's "
         "spare blocks, other programs\n" +
         (late > 0 ? fmt::format("  spans are of the GPU's clock, shown up to {:.1f} µs late\n",
                                 seconds(late) * 1e6)
                   : "");
}

/// Without a trace: the modelled time of each phase's last step, until the last rank is done.
std::string step_times(const Report& report) {
  if (!report.timeline.ranks().empty() || !report.options.clock.is_modelled()) return {};
  std::string text;
  const std::vector<Phase> phases = report.phases();
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const std::string& name = phases[p].name;
    text += fmt::format("{}a step takes {:.3f} ms of modelled time\n",
                        name.empty() ? "" : name + ": ", seconds(report.step_time(p)) * 1e3);
  }
  return text;
}

/// The last step; for a run with several variants, the last step of each, with its name. (A
/// pipeline's sweep is covered by its bubble table.)
std::vector<std::pair<int, std::string>> steps_to_draw(const Report& report) {
  std::vector<std::pair<int, std::string>> steps;
  const int last = report.options.steps - 1;
  if (report.phases().size() > 1 && !bubble(report.timeline, last))
    for (const Phase& phase : report.phases())
      steps.emplace_back(phase.first_step + phase.steps - 1, phase.name + ", ");
  else
    steps.emplace_back(last, "");
  return steps;
}

/// The key to the drawing's symbols; empty if it shows stretches that the lesson named itself.
std::string legend(const Report& report, const Console& console) {
  if (bubble(report.timeline, report.options.steps - 1))
    return console.colour
               ? "  blue: forward, green: backward, dots: idle; digits are microbatches\n"
               : "  3--: forward of microbatch 3, 3==: its backward, dots: idle\n";
  if (report.losses.empty() && !report.uncomputed) return {};
  return console.colour
             ? "  blue: forward, green: backward, o: optimizer, dots: waiting; digits are "
               "microbatches\n"
             : "  0--: forward of microbatch 0, 0==: its backward, o: optimizer, dots: waiting\n";
}

std::string parity_text(const Report& report) {
  const Parity& parity = *report.parity;
  if (report.reference_dtype != report.options.model.dtype) {
    const std::size_t tenth = (report.losses.size() + 9) / 10;
    return fmt::format(
        "against one device in {} over {} steps: the mean loss of the last {} steps is {:.4f}, "
        "there "
        "{:.4f} ({:+.2f} %); single losses differ by up to {:.2f} %\n",
        name_of(report.reference_dtype), report.losses.size(), tenth, parity.final_loss,
        parity.reference_loss, 100 * (parity.final_loss / parity.reference_loss - 1),
        100 * parity.max_relative_loss);
  }
  std::string text = fmt::format(
      "parity with one device over {} steps: losses differ by {:.1e}, parameters by {:.1e}{}\n",
      report.losses.size(), parity.max_relative_loss, parity.max_relative_parameter,
      parity.bitwise ? " — every bit is the same" : " (" + parity.worst_parameter + ")");
  if (report.same_in_order)
    text += fmt::format(
        "  that is more than rounding comes to at this lesson's defaults; {}\n",
        *report.same_in_order
            ? "one device that adds gradients in the order of these ranks has the same bits, so it "
              "is rounding, which training has made grow"
            : "one device that adds gradients in the order of these ranks has other bits, too");
  return text;
}

}  // namespace

void Report::look_at_timeline() {
  for (const PhaseRecord& record : ranks.front().phases) {
    bubbles.push_back(observe_bubble(timeline, record.phase, record.predicted));
    overlaps.push_back(observe_overlap(timeline, record.phase));
  }
}

std::vector<Phase> Report::phases() const {
  std::vector<Phase> phases;
  for (const PhaseRecord& record : ranks.front().phases) phases.push_back(record.phase);
  return phases;
}

Picoseconds Report::step_time(std::size_t phase) const {
  Picoseconds longest = 0;
  for (const RankRecord& rank : ranks) longest = std::max(longest, rank.phases[phase].last_step);
  return longest;
}

double Report::step_seconds() const {
  return ranks.front().train_seconds / static_cast<double>(options.steps);
}

std::string Report::text(const Console& console) const {
  std::string text;
  for (const auto& [step, phase] : steps_to_draw(*this)) {
    const std::string drawing = draw_timeline(timeline, step, console.width, console.colour);
    if (drawing.empty()) continue;
    const auto window = bubble(timeline, step);
    const auto whole = timeline.find_step(step);
    text += fmt::format("\nstep {}, {}{} time: {:.3f} ms {}\n", step, phase, options.clock.name(),
                        seconds(window ? window->window : whole->end - whole->start) * 1e3,
                        window ? "from the first action to the last" : "of computing and waiting");
    text += drawing;
  }
  if (!text.empty()) text += legend(*this, console);
  if (const std::string shares = bubble_table(*this); !shares.empty()) text += "\n" + shares;
  if (const std::string exposed = exposure_table(*this); !exposed.empty()) text += "\n" + exposed;
  if (const std::string peaks = varying_memory(*this); !peaks.empty()) text += "\n" + peaks;
  if (!ranks.front().phases.empty()) text += "\n" + memory_table(*this);
  if (const std::string times = step_times(*this); !times.empty()) text += "\n" + times;
  if (const std::string gpus = gpu_table(*this); !gpus.empty()) text += "\n" + gpus;
  if (!losses.empty())
    text +=
        fmt::format("\nloss {:.4f} → {:.4f} in {} steps, {:.1f} ms of this machine's time a step\n",
                    losses.front(), losses.back(), losses.size(), step_seconds() * 1e3);
  if (uncomputed)
    text +=
        "\nthe meta device computes nothing, so there are no losses, no parity and no generated "
        "text\n";
  if (parity) text += parity_text(*this);
  if (!sample.empty()) text += fmt::format("the model says now: {}\n", sample);
  return text;
}

}  // namespace lockstep
