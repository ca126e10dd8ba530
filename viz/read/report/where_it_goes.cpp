#include "viz/read/report/where_it_goes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "core/text/text_row.h"
#include "core/text/text_table.h"

namespace lockstep {

namespace {

/// A column of the table: a part of the step.
struct Column {
  std::string name;
  Ink ink;  ///< in the bar
  std::function<Picoseconds(const StepAccount&, const StepSums&)> time;
};

/// The colours of the axes in the bar, in turn.
constexpr const char* axis_colours[] = {"\033[48;5;130;97m", "\033[48;5;94;97m",
                                        "\033[48;5;136;97m", "\033[48;5;172;97m"};

/// A column of one axis; 0 in an account without this axis.
Column axis_column(const std::string& axis, std::size_t number) {
  return {axis,
          {'~', axis_colours[number % std::size(axis_colours)]},
          [axis](const StepAccount& account, const StepSums& sums) {
            const auto at = std::ranges::find(account.axes, axis) - account.axes.begin();
            const auto index = static_cast<std::size_t>(at);
            return index < sums.axes.size() ? sums.axes[index].sum() : 0;
          }};
}

/// The columns of the parts that take time in one of these accounts, and of compute.
std::vector<Column> columns_of(const std::vector<const StepAccount*>& accounts) {
  const auto part = [](Picoseconds StepSums::*which) {
    return [which](const StepAccount&, const StepSums& sums) { return sums.*which; };
  };
  std::vector<Column> columns{{"compute", {'-', "\033[48;5;25;97m"}, part(&StepSums::compute)},
                              {"optimizer", {'+', "\033[48;5;60;97m"}, part(&StepSums::optimizer)}};
  std::vector<std::string> axes;
  for (const StepAccount* account : accounts)
    for (const std::string& axis : account->axes)
      if (std::ranges::count(axes, axis) == 0) axes.push_back(axis);
  for (std::size_t i = 0; i < axes.size(); ++i) columns.push_back(axis_column(axes[i], i));
  columns.push_back({"bubble",
                     {'.', "\033[48;5;238;97m"},
                     [](const StepAccount&, const StepSums& sums) { return sums.bubble(); }});
  columns.push_back({"other", {'?', "\033[48;5;240;97m"}, part(&StepSums::other)});
  columns.push_back({"ended", {' ', "\033[48;5;236;97m"}, part(&StepSums::ended)});
  std::erase_if(columns, [&](const Column& each) {
    return each.name != "compute" && std::ranges::all_of(accounts, [&](const StepAccount* account) {
             return each.time(*account, account->sum()) == 0;
           });
  });
  return columns;
}

Picoseconds mean(Picoseconds sum, const StepAccount& account) {
  return sum / static_cast<Picoseconds>(std::max<std::size_t>(account.ranks.size(), 1));
}

/// The mean step as a bar. Each part has its name and its share of the step, as far as they fit.
std::string bar(const StepAccount& account, const Console& console) {
  const StepSums sum = account.sum();
  const Picoseconds whole = sum.total();
  if (whole <= 0) return {};
  const TextScale scale{0, whole, std::clamp(console.width - 10, 20, 110), 0};
  TextRow row{scale, console.colour};
  Picoseconds at = 0;
  for (const Column& each : columns_of({&account})) {
    const Picoseconds until = at + each.time(account, sum);
    const double share = static_cast<double>(until - at) / static_cast<double>(whole);
    const auto room = static_cast<std::size_t>(scale.column(until) - scale.column(at));
    std::string label = fmt::format("{} {}", each.name, percent(share));
    if (label.size() > room) label = each.name.size() <= room ? each.name : "";
    row.add(at, until, label, each.ink);
    at = until;
  }
  return "  mean    " + row.text() + "\n";
}

/// One rank per row, equal ranks joined. If there are too many rows, each row shows the mean of
/// equally many ranks.
std::string rank_table(const StepAccount& account, const Console& console) {
  const std::vector<Column> columns = columns_of({&account});
  TableRows rows{{fmt::format("where step {} goes, ms", account.step), "step"}};
  for (const Column& each : columns) rows[0].push_back(each.name);
  const auto add_row = [&](const std::string& name, const StepSums& sums, Picoseconds ranks) {
    auto& row = rows.emplace_back();
    row = {name, ms(account.length)};
    for (const Column& each : columns) row.push_back(ms(each.time(account, sums) / ranks));
  };
  for (const RankAccount& rank : account.ranks)
    add_row(fmt::format("rank {}", rank.rank), rank.sums, 1);
  join_equal_rows(rows);
  if (rows.size() > most_columns + 1) {
    rows.resize(1);
    const std::size_t together = (account.ranks.size() + most_columns - 1) / most_columns;
    for (std::size_t first = 0; first < account.ranks.size(); first += together) {
      const std::size_t end = std::min(first + together, account.ranks.size());
      StepSums sums{.axes = std::vector<Exposed>(account.axes.size())};
      for (std::size_t i = first; i < end; ++i) sums += account.ranks[i].sums;
      add_row(fmt::format("mean of ranks {} to {}", account.ranks[first].rank,
                          account.ranks[end - 1].rank),
              sums, static_cast<Picoseconds>(end - first));
    }
    // A mean may hide one slow rank.
    const auto most = std::ranges::max_element(
        account.ranks, {}, [](const RankAccount& rank) { return rank.sums.compute; });
    add_row(fmt::format("rank {}, most compute", most->rank), most->sums, 1);
  }
  return table(rows) + (account.ranks.size() > 1 ? bar(account, console) : "");
}

/// One phase per row, means over ranks.
std::string phase_table(const std::vector<ObservedSteps>& phases) {
  std::vector<const StepAccount*> accounts;
  for (const ObservedSteps& phase : phases) accounts.push_back(&phase.last);
  const std::vector<Column> columns = columns_of(accounts);
  TableRows rows{{"where a step goes, ms per rank", "step"}};
  for (const Column& each : columns) rows[0].push_back(each.name);
  for (const ObservedSteps& phase : phases) {
    const StepSums sum = phase.last.sum();
    auto& row = rows.emplace_back();
    row = {fmt::format("{} (step {})", phase.phase, phase.last.step), ms(phase.last.length)};
    for (const Column& each : columns)
      row.push_back(ms(mean(each.time(phase.last, sum), phase.last)));
  }
  return table(rows);
}

std::string exposed_table(const std::vector<ObservedSteps>& phases) {
  TableRows rows{{"exposed communication, ms per rank", "exposed", "transfer", "latency",
                  "late peer", "on its lanes", "hidden"}};
  for (const ObservedSteps& phase : phases) {
    const StepAccount& account = phase.last;
    const StepSums sum = account.sum();
    for (std::size_t axis = 0; axis < account.axes.size(); ++axis) {
      const Exposed& exposed = sum.axes[axis];
      const Overlap overlap = account.overlap(axis);
      if (overlap.communication == 0 && exposed.sum() == 0) continue;
      rows.push_back(
          {phases.size() > 1 ? account.axes[axis] + ", " + phase.phase : account.axes[axis],
           ms(mean(exposed.sum(), account)), ms(mean(exposed.transfer, account)),
           ms(mean(exposed.latency, account)), ms(mean(exposed.late_peer, account)),
           ms(mean(overlap.communication, account)),
           overlap.communication > 0 ? percent(overlap.share()) : "-"});
    }
  }
  return rows.size() > 1 ? table(rows) : "";
}

}  // namespace

ObservedSteps observe_steps(const Timeline& timeline, const Phase& phase) {
  ObservedSteps seen{.phase = phase.name, .last = {}, .means = {}};
  const int first = phase.first_step + (phase.steps > 1 ? 1 : 0);
  ObservedSteps::Means& means = seen.means;
  double rank_steps = 0;
  for (int step = first; step < phase.first_step + phase.steps; ++step) {
    StepAccount account = step_account(timeline, step);
    if (account.ranks.empty()) continue;
    const StepSums sum = account.sum();
    const Exposed exposed = sum.exposed();
    const auto ranks = static_cast<double>(account.ranks.size());
    rank_steps += ranks;
    means.step += ranks * seconds(account.length);
    means.compute += seconds(plus(sum.compute, sum.optimizer));
    means.exposed += seconds(exposed.sum());
    means.transfer += seconds(exposed.transfer);
    means.latency += seconds(exposed.latency);
    means.late_peer += seconds(exposed.late_peer);
    means.idle += seconds(plus(plus(sum.bubble(), sum.other), sum.ended));
    const Overlap overlap = communication_overlap(timeline, step);
    means.communication += seconds(overlap.communication);
    means.hidden += seconds(overlap.hidden);
    seen.last = std::move(account);
  }
  if (rank_steps == 0) return seen;
  for (double* sum : {&means.step, &means.compute, &means.exposed, &means.idle, &means.transfer,
                      &means.latency, &means.late_peer, &means.communication, &means.hidden})
    *sum /= rank_steps;
  return seen;
}

std::string where_it_goes(const std::vector<ObservedSteps>& phases, const Console& console,
                          bool modelled_clock) {
  std::vector<ObservedSteps> seen;
  for (const ObservedSteps& phase : phases)
    if (!phase.last.ranks.empty()) seen.push_back(phase);
  if (seen.empty()) return {};
  const std::string exposed = exposed_table(seen);
  std::vector<const StepAccount*> accounts;
  for (const ObservedSteps& phase : seen) accounts.push_back(&phase.last);
  const std::vector<Column> columns = columns_of(accounts);
  const auto has = [&](const std::string& name) {
    return std::ranges::count(columns, name, &Column::name) > 0;
  };
  std::string text = seen.size() > 1 ? phase_table(seen) : rank_table(seen[0].last, console);
  std::vector<std::string> groups;
  for (const StepAccount* account : accounts)
    for (const std::string& axis : account->axes)
      if (has(axis) && std::ranges::count(groups, axis) == 0) groups.push_back(axis);
  text += "  each row adds up to the step";
  if (!groups.empty())
    text += fmt::format("; {}: compute waits for {} communication", fmt::join(groups, ", "),
                        groups.size() > 1 ? "this" : "the group's");
  if (has("bubble"))
    text +=
        "\n  bubble: it waits for a result that another stage has not computed yet, as a share of "
        "the whole step";
  if (has("other")) text += "\n  other: the host's time";
  if (has("ended")) text += "\n  ended: this rank has finished its step, and the slowest has not";
  text += "\n";
  if (exposed.empty()) return text;
  return text + "\n" + exposed +
         fmt::format(
             "  means over ranks; exposed = transfer (bytes on a lane) + latency{} + "
             "waiting for a late peer\n"
             "  on its lanes: a lane carries the group's bytes; hidden: of that time, the share "
             "while the rank computes; during the rest,\n"
             "  it waits for these bytes or for something else\n",
             modelled_clock ? "" : " (measured within transfer)");
}

}  // namespace lockstep
