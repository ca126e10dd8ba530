#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/csv_cells.h"

namespace lockstep {

namespace {

/// Checks one file's messages and actions on whole stages.
class Checker {
 public:
  Checker(const std::string& csv, const Schedule& schedule)
      : schedule_(schedule), rows_(csv_rows(csv, schedule.name)) {}

  void check() {
    const auto has = [&](auto matches) {
      return std::ranges::any_of(rows_, [&](const auto& row) {
        return std::ranges::any_of(row, [&](const CsvAction& each) { return matches(each.kind); });
      });
    };
    if (has([](CellKind kind) { return kind == CellKind::send || kind == CellKind::receive; })) {
      find_messages();
      for (std::size_t rank = 0; rank < rows_.size(); ++rank) check_uses(rank);
      check_order();
      play();
    }
    const bool shards = has([](CellKind kind) { return kind == CellKind::unshard; });
    const bool reduces = has([](CellKind kind) { return kind == CellKind::reduce_gradients; });
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) check_stages(rank, shards, reduces);
  }

 private:
  /// A message: the stage that sends it, the microbatch, and whether it is an
  /// activation.
  using Key = std::tuple<int, int, bool>;
  struct Ends {
    const CsvAction* send = nullptr;
    const CsvAction* receive = nullptr;
  };

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw ScheduleError(
        fmt::format("{}: {}", schedule_.name, fmt::format(text, std::forward<Args>(args)...)));
  }
  [[noreturn]] void fail_at(std::size_t rank, const CsvAction& at, const std::string& why) const {
    fail("row {}, column {}: '{}' {}", rank + 1, at.column, at.text, why);
  }

  int home(int stage) const { return schedule_.rank_of_stage[static_cast<std::size_t>(stage)]; }
  bool exists(int stage) const { return stage >= 0 && stage < schedule_.stages; }
  /// Returns whether the result of `from` goes to another rank.
  bool crosses(int from, int to) const { return exists(to) && home(from) != home(to); }

  static Key key_of(const CsvAction& each) {
    const bool forward = each.action.op == Op::forward;
    const int sender =
        each.kind == CellKind::receive ? each.action.stage + (forward ? -1 : 1) : each.action.stage;
    return {sender, each.action.microbatch, forward};
  }

  /// Finds both ends of every message, and checks their stages and ranks.
  void find_messages() {
    for (std::size_t rank = 0; rank < rows_.size(); ++rank)
      for (const CsvAction& each : rows_[rank]) {
        const bool send = each.kind == CellKind::send, receive = each.kind == CellKind::receive;
        if (!send && !receive) continue;
        if (!exists(each.action.stage))
          fail_at(rank, each, "is a message that no stage sends or receives");
        const auto [sender, microbatch, forward] = key_of(each);
        const int receiver = sender + (forward ? 1 : -1);
        if (!exists(sender) || !exists(receiver) || microbatch >= schedule_.microbatches)
          fail_at(rank, each, "is a message that no stage sends or receives");
        if (!crosses(sender, receiver))
          fail_at(rank, each, "is a message between two stages of one rank");
        if (home(each.action.stage) != static_cast<int>(rank))
          fail_at(rank, each,
                  fmt::format("belongs to rank {}, which has stage {}", home(each.action.stage),
                              each.action.stage));
        Ends& ends = messages_[{sender, microbatch, forward}];
        const CsvAction*& end = send ? ends.send : ends.receive;
        if (end != nullptr) fail_at(rank, each, "is there twice");
        end = &each;
      }
  }

  /// Checks that a rank receives each input before it is used, and sends each
  /// result afterwards.
  void check_uses(std::size_t rank) const {
    std::set<Key> received, made;
    for (const CsvAction& each : rows_[rank]) {
      const auto [op, stage, microbatch, joined] = each.action;
      if (each.kind == CellKind::receive) received.insert(key_of(each));
      if (each.kind == CellKind::send && !made.contains(key_of(each)))
        fail_at(rank, each, "is sent before it is computed");
      if (each.kind != CellKind::compute || op == Op::backward_weight) continue;
      const bool forward = op == Op::forward;
      const int from = stage + (forward ? -1 : 1), to = stage + (forward ? 1 : -1);
      made.insert({stage, microbatch, forward});
      const auto ends = [&](int sender) {
        const auto found = messages_.find({sender, microbatch, forward});
        return found == messages_.end() ? Ends{} : found->second;
      };
      const char letter = forward ? 'F' : 'B';
      if (exists(from) && crosses(from, stage)) {
        if (ends(from).receive == nullptr)
          fail("{}RECV_{}{} is missing; rank {} needs it before {}", stage, letter, microbatch,
               rank, each.text);
        if (!received.contains({from, microbatch, forward}))
          fail_at(rank, each, fmt::format("runs before {}", ends(from).receive->text));
      }
      if (crosses(stage, to) && ends(stage).send == nullptr)
        fail("{}SEND_{}{} is missing; rank {} should send it after {}", stage, letter, microbatch,
             rank, each.text);
    }
  }

  /// Checks that each rank receives another rank's messages of one kind in the order in which they
  /// are sent, because they share a connection.
  void check_order() const {
    std::map<std::tuple<int, int, bool>, std::vector<Key>> sent, received;
    for (std::size_t rank = 0; rank < rows_.size(); ++rank)
      for (const CsvAction& each : rows_[rank]) {
        if (each.kind != CellKind::send && each.kind != CellKind::receive) continue;
        const Key key = key_of(each);
        const auto [sender, microbatch, forward] = key;
        const int receiver = sender + (forward ? 1 : -1);
        (each.kind == CellKind::send ? sent : received)[{home(sender), home(receiver), forward}]
            .push_back(key);
      }
    for (const auto& [connection, order] : received)
      for (std::size_t i = 0; i < order.size(); ++i)
        if (sent.at(connection)[i] != order[i])
          fail("rank {} receives {} when rank {} sends {}", std::get<1>(connection),
               messages_.at(order[i]).receive->text, std::get<0>(connection),
               messages_.at(sent.at(connection)[i]).send->text);
  }

  /// Runs the rows: a send never waits, a receive waits for its send. Reports a
  /// cycle.
  void play() const {
    std::vector<std::size_t> position(rows_.size(), 0);
    std::set<Key> sent;
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < rows_.size(); ++rank)
        for (; position[rank] < rows_[rank].size(); ++position[rank], progress = true) {
          const CsvAction& each = rows_[rank][position[rank]];
          if (each.kind == CellKind::receive && !sent.contains(key_of(each))) break;
          if (each.kind == CellKind::send) sent.insert(key_of(each));
        }
    }
    // Every stuck rank waits for another stuck rank, so following these waits leads to a cycle.
    const auto stuck = [&](std::size_t rank) { return position[rank] < rows_[rank].size(); };
    std::size_t rank = 0;
    while (rank < rows_.size() && !stuck(rank)) ++rank;
    if (rank == rows_.size()) return;
    const auto awaited = [&](std::size_t of) {
      return static_cast<std::size_t>(home(std::get<0>(key_of(rows_[of][position[of]]))));
    };
    for (std::size_t i = 0; i < rows_.size(); ++i) rank = awaited(rank);
    std::string text;
    std::size_t at = rank;
    do {
      const CsvAction& each = rows_[at][position[at]];
      text += fmt::format("{}rank {} waits in {} for {}", text.empty() ? "" : ", ", at, each.text,
                          messages_.at(key_of(each)).send->text);
      at = awaited(at);
    } while (at != rank);
    fail("deadlock: {}", text);
  }

  /// Checks one rank's actions on whole stages.
  void check_stages(std::size_t rank, bool shards, bool reduces) const {
    std::set<int> whole, reduced;
    std::map<int, int> backwards;
    for (const CsvAction& each : rows_[rank]) {
      const int stage = each.action.stage;
      const bool of_stage = each.kind == CellKind::unshard || each.kind == CellKind::reshard ||
                            each.kind == CellKind::reduce_gradients;
      if (of_stage && (!exists(stage) || home(stage) != static_cast<int>(rank)))
        fail_at(rank, each, fmt::format("is on rank {}, which does not have this stage", rank));
      if (each.kind == CellKind::unshard) whole.insert(stage);
      if (each.kind == CellKind::reshard && whole.erase(stage) == 0)
        fail_at(rank, each, "follows no UNSHARD");
      if (each.kind == CellKind::reduce_gradients) {
        if (backwards[stage] < schedule_.microbatches)
          fail_at(rank, each, "comes before the stage's last backward pass");
        reduced.insert(stage);
      }
      if (each.kind != CellKind::compute) continue;
      if (shards && !whole.contains(stage)) fail_at(rank, each, "runs while the stage is sharded");
      const Op op = each.action.op;
      if (op == Op::backward || op == Op::backward_weight) ++backwards[stage];
    }
    for (const auto& [stage, count] : backwards)
      if (reduces && !reduced.contains(stage))
        fail(
            "{}REDUCE_GRAD is missing; rank {} should run it after the "
            "stage's last backward pass",
            stage, rank);
  }

  const Schedule& schedule_;
  std::vector<std::vector<CsvAction>> rows_;
  std::map<Key, Ends> messages_;
};

}  // namespace

void check_messages(const std::string& csv, const Schedule& schedule) {
  Checker{csv, schedule}.check();
}

}  // namespace lockstep
