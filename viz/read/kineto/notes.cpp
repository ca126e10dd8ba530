#include "viz/read/kineto/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/printable.h"

namespace lockstep::kineto {
namespace {

std::string duration(Picoseconds time) {
  const auto value = static_cast<double>(time);
  const double size = std::abs(value);
  if (size >= 1e12) return fmt::format("{:.3g} s", value * 1e-12);
  if (size >= 1e9) return fmt::format("{:.3g} ms", value * 1e-9);
  return fmt::format("{:.3g} µs", value * 1e-6);
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text + (ranks.size() > 8 ? ", ..." : "");
}

class Notes {
 public:
  explicit Notes(const Import& import) : import_(import) {}

  std::vector<std::string> write() {
    note_ranks();
    if (import_.traces.size() > 1) note_clocks();
    note_matches();
    if (import_.traces.size() > 1) note_unmatched();
    note_actions();
    if (std::ranges::none_of(import_.calls, &RankCalls::has_steps))
      add("The traces have no profiler steps (ProfilerStep#N), so each is shown as one step.");
    return std::move(notes_);
  }

 private:
  void add(std::string note) { notes_.push_back(std::move(note)); }

  void note_ranks() {
    const std::size_t given = import_.traces.size();
    if (given > 1 && !import_.ranks_stated)
      add("Not all traces state their rank (distributedInfo), so the ranks are numbered in the "
          "order "
          "of the file names.");
    const int world = import_.traces.front().world_size;
    if (world > 0 && static_cast<std::size_t>(world) > given)
      add(fmt::format(
          "Only {} of the run's {} ranks are given, so waits for the others are unknown.", given,
          world));
  }

  void note_clocks() {
    const Alignment& alignment = import_.alignment;
    if (!alignment.joins_any()) {
      if (have_one_host(import_.traces))
        add(fmt::format("All ranks ran on host {} and share its clock.",
                        excerpt(import_.traces.front().host)));
      else
        add("The traces identify no collective that the ranks have in common, so their clocks are "
            "not aligned: times of different ranks are only as comparable as their hosts' clocks.");
      return;
    }
    note_alone();
    const std::string spread =
        fmt::format("differ by at most {} (half of them by less than {})",
                    duration(alignment.largest_spread), duration(alignment.median_spread));
    if (!alignment.corrected) {
      add(fmt::format("The clocks agree to within {}: the ends of {} matched collectives {}.",
                      duration(alignment.residual), alignment.collectives, spread));
      return;
    }
    Picoseconds farthest = 0;
    for (const Picoseconds moved : import_.moved) farthest = std::max(farthest, std::abs(moved));
    const std::string messages =
        alignment.messages > 0 ? fmt::format(" and {} messages", alignment.messages) : "";
    add(fmt::format(
        "The clocks are aligned to within {}, using the ends of {} matched "
        "collectives{}: they were moved by up to {}, and the ends still {}.",
        duration(alignment.residual), alignment.collectives, messages, duration(farthest), spread));
  }

  void note_alone() {
    std::vector<int> alone;
    for (std::size_t i = 0; i < import_.numbers.size(); ++i)
      if (!import_.alignment.ranks[i].aligned) alone.push_back(import_.numbers[i]);
    if (alone.empty()) return;
    add(fmt::format("No collective joins rank{} {} to rank {}: {} not aligned.",
                    alone.size() == 1 ? "" : "s", list_of(alone), import_.numbers.front(),
                    alone.size() == 1 ? "its clock is" : "their clocks are"));
  }

  void note_matches() {
    std::map<MatchedBy, std::size_t> collectives, messages;
    for (const Match& match : import_.matches)
      ++(match.kind == CallKind::send ? messages : collectives)[match.by];
    const auto list = [](const std::map<MatchedBy, std::size_t>& counts) {
      std::string text;
      for (const auto& [by, count] : counts)
        text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", count, name_of(by));
      return text;
    };
    if (!collectives.empty()) add(fmt::format("Collectives matched: {}.", list(collectives)));
    if (!messages.empty()) add(fmt::format("Messages matched: {}.", list(messages)));
    if (collectives.contains(MatchedBy::inferred) || messages.contains(MatchedBy::inferred))
      add("Some of them name no process group; their groups are inferred, because the kernels of a "
          "group end together.");
  }

  void note_unmatched() {
    std::ptrdiff_t unknown = 0;
    for (const RankCalls& rank : import_.calls)
      unknown += std::ranges::count_if(rank.calls, [](const Call& call) {
        return call.members.empty() && call.comms_id.empty() && !is_message(call.kind);
      });
    if (unknown > 0)
      add(fmt::format(
          "{} collective{} not matched: {} no process group, and there are several groups.",
          unknown, unknown == 1 ? " is" : "s are", unknown == 1 ? "it names" : "they name"));
  }

  void note_actions() {
    std::set<ActionsFrom> from;
    for (const RankActions& rank : import_.actions) from.insert(rank.from);
    if (from.contains(ActionsFrom::labels))
      add("Pipeline actions come from the annotations PP:{stage}{op}{microbatch}.");
    if (from.contains(ActionsFrom::annotations))
      add("Pipeline actions come from the annotations \"Forward N\" and \"Backward N\".");
    if (from.contains(ActionsFrom::parts))
      add("The parts of forward and backward passes come from annotations such as \"attn(F)\" and "
          "\"mlp(B)\".");
    if (from.contains(ActionsFrom::flows))
      add("Forward and backward passes are inferred from autograd's flows (fwdbwd).");
    if (import_.stages_inferred) add("Stages are inferred from the order of the messages.");
  }

  const Import& import_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> notes_of(const Import& import) {
  return Notes{import}.write();
}

}  // namespace lockstep::kineto
