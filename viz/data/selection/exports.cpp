#include "viz/data/selection/exports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>

#include "core/base/error.h"
#include "viz/data/selection/name_statistics.h"
#include "viz/data/selection/range_statistics.h"
#include "viz/data/step/mean_step.h"

namespace lockstep::viz {

namespace {

std::string exact_seconds(Picoseconds time) {
  constexpr std::uint64_t second = 1'000'000'000'000;
  const auto bits = static_cast<std::uint64_t>(time);
  const std::uint64_t size = time < 0 ? 0 - bits : bits;
  return fmt::format("{}{}.{:012}", time < 0 ? "-" : "", size / second, size % second);
}

/// Quotes a text if CSV requires it.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char each : text) quoted += each == '"' ? "\"\"" : std::string(1, each);
  return quoted + "\"";
}

/// Joins cells into a line.
class Line {
 public:
  Line& add(const std::string& text) {
    line_ += (line_.empty() ? "" : ",") + text;
    return *this;
  }
  Line& add(Picoseconds time) { return add(exact_seconds(time)); }
  std::string end() const { return line_ + "\n"; }

 private:
  std::string line_;
};

void add_parts(Line& head, const std::vector<std::string>& axes, bool of_steps) {
  head.add("compute").add("optimizer");
  for (const std::string& axis : axes) {
    for (const char* part : {"transfer", "latency", "late_peer"}) head.add(cell(axis + "_" + part));
    if (of_steps) head.add(cell(axis + "_communication")).add(cell(axis + "_hidden"));
  }
  head.add("cool_down").add("warm_up").add("waiting").add("other");
}

void add_parts(Line& line, const StepSums& sums, const std::vector<Overlap>& overlaps) {
  line.add(sums.compute).add(sums.optimizer);
  for (std::size_t axis = 0; axis < sums.axes.size(); ++axis) {
    const Exposed& exposed = sums.axes[axis];
    line.add(exposed.transfer).add(exposed.latency).add(exposed.late_peer);
    if (!overlaps.empty()) line.add(overlaps[axis].communication).add(overlaps[axis].hidden);
  }
  line.add(sums.cool_down).add(sums.warm_up).add(sums.waiting).add(sums.other);
}

std::string selection_csv(const RangeStatistics& statistics) {
  if (!statistics.added_up)
    throw RunError("the selection has too many spans to add up; select a shorter range");
  Line head;
  head.add("selection_start").add("selection_seconds").add("rank");
  add_parts(head, statistics.axes, false);
  std::string csv =
      head.add("in_no_step").add("communication").add("hidden").add("bytes_sent").end();
  for (const RankStatistics& rank : statistics.ranks) {
    Line line;
    line.add(statistics.range.start).add(statistics.length()).add(std::to_string(rank.rank));
    add_parts(line, rank.sums, {});
    csv += line.add(rank.in_no_step)
               .add(rank.communication)
               .add(rank.hidden)
               .add(std::to_string(rank.sent))
               .end();
  }
  return csv;
}

}  // namespace

std::string statistics_csv(const Timeline& timeline, const TimeWindow& window,
                           const std::optional<Interval>& selection) {
  if (selection) return selection_csv(range_statistics(timeline, *selection));
  std::vector<StepAccount> accounts;
  std::vector<std::string> axes;
  for (const StepWindow& step : timeline.steps()) {
    if (static_cast<double>(step.end) <= window.begin ||
        static_cast<double>(step.start) >= window.end || !timeline.step_complete(step))
      continue;
    StepAccount& account = accounts.emplace_back(step_account(timeline, step.step));
    for (RankAccount& rank : account.ranks) rank.pieces = {};
    join_axes(axes, account.axes);
  }
  StepSums all;
  for (const StepAccount& account : accounts) all += with_axes(account.sum(), account.axes, axes);
  all.axes.resize(axes.size());
  axes = sorted_axes(axes, all);

  Line head;
  head.add("step").add("step_seconds").add("rank");
  add_parts(head, axes, true);
  std::string csv = head.add("ended").add("bytes_sent").end();
  for (const StepAccount& account : accounts)
    for (const RankAccount& rank : account.ranks) {
      Line line;
      line.add(std::to_string(account.step)).add(account.length).add(std::to_string(rank.rank));
      std::vector<Overlap> overlaps(axes.size());
      for (std::size_t i = 0; i < account.axes.size(); ++i)
        overlaps[static_cast<std::size_t>(std::ranges::find(axes, account.axes[i]) -
                                          axes.begin())] = rank.overlaps[i];
      add_parts(line, with_axes(rank.sums, account.axes, axes), overlaps);
      line.add(rank.sums.ended);
      csv += line.add(std::to_string(
                          bytes_sent(timeline, *timeline.find_rank(rank.rank), account.step)))
                 .end();
    }
  return csv;
}

std::string names_csv(const Timeline& timeline, const Interval& selection) {
  NameStatistics names;
  names.update(timeline, selection, true, std::chrono::hours{1});
  Line head;
  for (const char* column :
       {"selection_start", "selection_seconds", "rank", "name", "category", "group", "stage",
        "count", "total_seconds", "share", "mean_seconds", "min_seconds", "max_seconds"})
    head.add(column);
  std::string csv = head.end();
  for (const NameTotal& total :
       sorted_totals(timeline, names.totals(), NameColumn::total, false, names.totals().size())) {
    const SpanKind& kind = total.kind;
    Line line;
    line.add(selection.start).add(selection.end - selection.start).add(std::to_string(kind.rank));
    line.add(cell(kind.name == 0 ? name_of(kind.category) : timeline.name(kind.name)));
    line.add(name_of(kind.category)).add(cell(timeline.name(kind.group)));
    line.add(kind.stage < 0 ? std::string{} : std::to_string(kind.stage));
    line.add(std::to_string(total.count)).add(total.inside);
    line.add(fmt::format("{}", share_of_time(total, selection, 1)));
    line.add(static_cast<Picoseconds>(std::llround(total.mean())));
    csv += line.add(total.shortest).add(total.longest).end();
  }
  return csv;
}

std::filesystem::path free_name(const std::filesystem::path& folder, const std::string& stem,
                                const std::string& extension) {
  std::string name;
  for (const char each : stem.substr(0, 64)) {
    const bool usual = std::isalnum(static_cast<unsigned char>(each)) || each == '_';
    if (usual || (!name.empty() && name.back() != '-')) name += usual ? each : '-';
  }
  if (name.empty()) name = "lockstep";
  std::error_code ignored;
  for (int n = 1;; ++n) {
    const auto path = folder / fmt::format("{}-{}.{}", name, n, extension);
    if (!std::filesystem::exists(path, ignored)) return path;
  }
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::error_code ignored;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), ignored);
  std::ofstream out{file, std::ios::binary};
  out << text;
  out.close();
  if (!out) throw RunError("can't write " + file.string());
}

}  // namespace lockstep::viz
