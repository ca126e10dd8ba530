#pragma once

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/flight_recorder/pickle_writer.h"

namespace lockstep {

/// A training run on tp 2 × pp 4 × dp 2. Its ranks call operations in program order until one or
/// two ranks stall in their own code and the others wait. The dumps record the calls of each rank;
/// the ground truth comes from the simulation, not from the dumps.
class SimulatedJob {
 public:
  static constexpr int tp = 2, pp = 4, dp = 2, ranks = tp * pp * dp;
  enum class Sends { rendezvous, buffered };
  struct Style {
    Sends sends = Sends::rendezvous;
    bool gloo = false;           ///< never updates states; `retired` marks completed calls
    bool config = true;          ///< the dumps list the groups' ranks
    bool status = true;          ///< the dumps state each group's progress
    bool all_scheduled = false;  ///< no device has started any pending operation
    std::size_t kept = 1000;     ///< capacity of the ring buffer, in entries
    int form = 2;                ///< the pickle's protocol; 0: JSON
  };

  SimulatedJob(std::mt19937_64& random, int stalls, Style style) : style_(style) {
    for (int rank = 0; rank < ranks; ++rank) write_program(rank, random);
    for (int i = 0; i < stalls; ++i) {
      const int victim = static_cast<int>(random() % ranks);
      stops_[victim] = random() % programs_[static_cast<std::size_t>(victim)].size();
    }
    run();
  }

  /// Returns the stalled ranks that another rank waits for.
  std::set<int> awaited_stalled() const {
    std::set<int> awaited;
    for (int rank = 0; rank < ranks; ++rank)
      for (const int other : waits_for(rank))
        if (has_stalled(other)) awaited.insert(other);
    return awaited;
  }
  /// Returns all ranks that wait for this one, directly or not.
  std::set<int> waiters_of(int rank) const {
    std::set<int> found, open{rank};
    while (!open.empty()) {
      const int next = *open.begin();
      open.erase(open.begin());
      for (int other = 0; other < ranks; ++other)
        if (waits_for(other).contains(next) && other != rank && found.insert(other).second)
          open.insert(other);
    }
    return found;
  }
  /// Returns whether the rank has reached the point at which it stalls.
  bool has_stalled(int rank) const {
    const auto stop = stops_.find(rank);
    return stop != stops_.end() && at(rank).next == stop->second && !at(rank).called;
  }

  /// Returns the content of a rank's dump file.
  std::string dump(int rank) const {
    DumpJson document = {{"version", "2.10"}};
    DumpJson config = DumpJson::object();
    if (style_.config)
      for (const auto& [name, members] : groups_)
        if (index_in(members, rank) >= 0)
          config[name] = {{"name", name}, {"desc", axis_of(name)}, {"ranks", text_of(members)}};
    document["pg_config"] = config;
    std::map<std::string, std::int64_t> ids, enqueued, completed;
    DumpJson entries = DumpJson::array();
    const auto& calls = at(rank).calls;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Made& made = calls[i];
      const std::string& name = made.op.group;
      const auto id = ids.emplace(name, static_cast<std::int64_t>(ids.size())).first->second;
      if (!made.op.p2p()) {
        enqueued[name] = made.sequence;
        if (made.completed) completed[name] = made.sequence;
      }
      if (i + style_.kept < calls.size()) continue;
      DumpJson entry = {{"record_id", i},
                        {"pg_id", id},
                        {"process_group", DumpJson::array({"tuple", name, axis_of(name)})},
                        {"collective_seq_id", made.op.p2p() ? 0 : made.sequence},
                        {"p2p_seq_id", made.op.p2p() ? made.sequence : 0},
                        {"op_id", i},
                        {"profiling_name", profiling_name(rank, made.op)},
                        {"time_created_ns", 1'700'000'000'000'000'000 + made.time * 1000},
                        {"input_sizes", DumpJson::array({DumpJson::array({4, 3})})},
                        {"input_dtypes", DumpJson::array({"Float"})},
                        {"output_sizes", DumpJson::array({DumpJson::array({4, 3})})},
                        {"output_dtypes", DumpJson::array({"Float"})},
                        {"state", state(made)},
                        {"time_discovered_started_ns", nullptr},
                        {"time_discovered_completed_ns", nullptr},
                        {"retired", style_.gloo && made.completed},
                        {"timeout_ms", 600000},
                        {"is_p2p", made.op.p2p()}};
      entries.push_back(std::move(entry));
    }
    if (style_.status)
      for (const auto& [name, id] : ids)
        document["pg_status"][std::to_string(id)] = {
            {"last_enqueued_collective", enqueued.contains(name) ? enqueued.at(name) : -1},
            {"last_started_collective", -1},
            {"last_completed_collective", completed.contains(name) ? completed.at(name) : -1}};
    document["entries"] = entries;
    if (style_.form == 0) {
      for (DumpJson& entry : document["entries"]) entry["process_group"].erase(0);
      return document.dump();
    }
    return pickle_of(document, style_.form);
  }

 private:
  struct Op {
    std::string name, group;
    int peer = -1;  ///< rank
    bool p2p() const { return peer >= 0; }
  };
  struct Made {
    Op op;
    std::int64_t sequence = 0, time = 0;
    bool completed = false;
  };
  struct Rank {
    std::size_t next = 0;  ///< index of the current operation
    bool called = false;   ///< whether the rank has called this operation
    std::vector<Made> calls;
  };

  static int stage_of(int rank) { return rank / tp % pp; }
  static int rank_at(int d, int p, int t) { return (d * pp + p) * tp + t; }
  const Rank& at(int rank) const { return state_[static_cast<std::size_t>(rank)]; }
  Rank& at(int rank) { return state_[static_cast<std::size_t>(rank)]; }

  static std::string group_name(const std::string& axis, int rank) {
    const int t = rank % tp, p = stage_of(rank), d = rank / (tp * pp);
    if (axis == "tp") return "tp" + std::to_string(d * pp + p);
    if (axis == "pp") return "pp" + std::to_string(d * tp + t);
    return "dp" + std::to_string(p * tp + t);
  }
  static std::string axis_of(const std::string& group) {
    return group == "0" ? "default_pg" : group.substr(0, 2);
  }

  /// All ranks run the same numbers of steps, microbatches and layers, drawn by the first call.
  void write_program(int rank, std::mt19937_64& random) {
    if (programs_.empty()) {
      microbatches_ = 1 + static_cast<int>(random() % 4);
      layers_ = 1 + static_cast<int>(random() % 3);
      steps_ = 1 + static_cast<int>(random() % 3);
      groups_["0"] = {};
      for (int each = 0; each < ranks; ++each) {
        groups_["0"].push_back(each);
        for (const char* axis : {"tp", "pp", "dp"}) groups_[group_name(axis, each)].push_back(each);
      }
      state_.resize(ranks);
    }
    const int t = rank % tp, p = stage_of(rank), d = rank / (tp * pp);
    std::vector<Op> ops;
    const auto layers = [&] {
      for (int i = 0; i < layers_; ++i) ops.push_back({"all_reduce", group_name("tp", rank)});
    };
    const std::string pipe = group_name("pp", rank);
    for (int step = 0; step < steps_; ++step) {
      for (int m = 0; m < microbatches_; ++m) {
        if (p > 0) ops.push_back({"recv", pipe, rank_at(d, p - 1, t)});
        layers();
        if (p + 1 < pp) ops.push_back({"send", pipe, rank_at(d, p + 1, t)});
      }
      for (int m = 0; m < microbatches_; ++m) {
        if (p + 1 < pp) ops.push_back({"recv", pipe, rank_at(d, p + 1, t)});
        layers();
        if (p > 0) ops.push_back({"send", pipe, rank_at(d, p - 1, t)});
      }
      ops.push_back({"reduce_scatter", group_name("dp", rank)});
      ops.push_back({"all_reduce", "0"});
      ops.push_back({"all_gather", group_name("dp", rank)});
    }
    programs_.push_back(std::move(ops));
  }

  /// Executes the programs until no rank can proceed.
  void run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (int rank = 0; rank < ranks; ++rank) changed = advance(rank) || changed;
    }
  }
  bool advance(int rank) {
    Rank& self = at(rank);
    const auto& program = programs_[static_cast<std::size_t>(rank)];
    if (self.next == program.size() || has_stalled(rank)) return false;
    const Op& op = program[self.next];
    if (!self.called) {
      std::int64_t& sequence = sequences_[{rank, op.group, op.p2p()}];
      self.calls.push_back({op, ++sequence, ++time_});
      self.called = true;
      return true;
    }
    if (!waits_for(rank).empty()) return false;
    self.calls.back().completed = true;
    self.called = false;
    ++self.next;
    return true;
  }

  /// Returns the ranks that have not reached the operation that this rank has called.
  std::set<int> waits_for(int rank) const {
    const Rank& self = at(rank);
    if (!self.called) return {};
    const Op& op = self.calls.back().op;
    std::set<int> missing;
    if (op.p2p()) {
      if (op.name == "send" && style_.sends == Sends::buffered) return {};
      const std::string other = op.name == "send" ? "recv" : "send";
      if (count(op.peer, other, rank) < count(rank, op.name, op.peer)) missing.insert(op.peer);
      return missing;
    }
    for (const int member : groups_.at(op.group))
      if (const auto found = sequences_.find({member, op.group, false});
          found == sequences_.end() || found->second < self.calls.back().sequence)
        missing.insert(member);
    return missing;
  }
  std::size_t count(int rank, const std::string& name, int peer) const {
    std::size_t count = 0;
    for (const Made& made : at(rank).calls) count += made.op.name == name && made.op.peer == peer;
    return count;
  }

  std::string state(const Made& made) const {
    if (style_.gloo) return "scheduled";
    return made.completed ? "completed" : style_.all_scheduled ? "scheduled" : "started";
  }
  static int index_in(const std::vector<int>& members, int rank) {
    for (std::size_t i = 0; i < members.size(); ++i)
      if (members[i] == rank) return static_cast<int>(i);
    return -1;
  }
  std::string profiling_name(int rank, const Op& op) const {
    const std::string name = (style_.gloo ? "gloo:" : "nccl:") + op.name;
    if (!op.p2p()) return name;
    const auto& members = groups_.at(op.group);
    const std::string self = std::to_string(index_in(members, rank)),
                      peer = std::to_string(index_in(members, op.peer));
    return name + " " + self + (op.name == "send" ? "->" : "<-") + peer;
  }
  static std::string text_of(const std::vector<int>& members) {
    std::string text = "[";
    for (const int member : members) text += (text.size() > 1 ? ", " : "") + std::to_string(member);
    return text + "]";
  }

  Style style_;
  int microbatches_ = 1, layers_ = 1, steps_ = 1;
  std::map<std::string, std::vector<int>> groups_;
  std::vector<std::vector<Op>> programs_;
  std::map<int, std::size_t> stops_;  ///< the operation before which a rank stalls
  std::vector<Rank> state_;
  std::map<std::tuple<int, std::string, bool>, std::int64_t> sequences_;
  std::int64_t time_ = 0;
};

}  // namespace lockstep
