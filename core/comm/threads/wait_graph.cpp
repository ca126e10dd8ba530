#include "core/comm/threads/wait_graph.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

WaitGraph::WaitGraph(int ranks) : ranks_(ranks), running_(ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    agents_.push_back({.rank = rank});
    agents_of_.push_back({rank});
  }
}

int WaitGraph::add_worker(int rank, std::string name) {
  agents_.push_back({.rank = rank, .name = std::move(name), .is_worker = true});
  const int agent = static_cast<int>(agents_.size()) - 1;
  agents_of_[static_cast<std::size_t>(rank)].push_back(agent);
  return agent;
}

bool WaitGraph::is_passive(const Agent& agent) const {
  return agent.is_worker ? agent.done == agent.queued : agent.finished;
}

void WaitGraph::waits(int agent, ForMessage what) {
  change(agent, [&](Agent& self) { self.waits = what; });
}

void WaitGraph::waits(int agent, ForMember what) {
  change(agent, [&](Agent& self) { self.waits = what; });
}

void WaitGraph::waits(int agent, ForTime what) {
  change(agent, [&](Agent& self) { self.waits = what; });
}

void WaitGraph::waits(int agent, ForJobs what) {
  if (at(what.worker).done < what.jobs) change(agent, [&](Agent& self) { self.waits = what; });
}

void WaitGraph::runs(int agent) {
  change(agent, [](Agent& self) { self.waits = std::monostate{}; });
}

void WaitGraph::job_queued(int worker) {
  change(worker, [](Agent& self) { ++self.queued; });
}

bool WaitGraph::job_dropped(int worker) {
  change(worker, [](Agent& self) { --self.queued; });
  return is_passive(at(worker));
}

bool WaitGraph::job_done(int worker) {
  change(worker, [](Agent& self) { ++self.done; });
  // A worker's jobs are awaited only by its own rank's thread.
  const Agent& self = at(worker);
  if (const auto* jobs = std::get_if<ForJobs>(&at(self.rank).waits))
    if (jobs->worker == worker && jobs->jobs <= self.done) runs(self.rank);
  return is_passive(self);
}

void WaitGraph::finished(int rank) {
  change(rank, [](Agent& self) { self.finished = true; });
}

std::vector<int> WaitGraph::may_help(int agent) const {
  if (const auto* jobs = std::get_if<ForJobs>(&at(agent).waits)) return {jobs->worker};
  std::vector<int> helpers;
  if (std::holds_alternative<ForTime>(at(agent).waits))
    for (int other = 0; other < static_cast<int>(agents_.size()); ++other)
      if (runs(at(other))) helpers.push_back(other);
  if (const auto* member = std::get_if<ForMember>(&at(agent).waits))
    if (!is_passive(at(*member->missing))) helpers.push_back(*member->missing);
  if (const auto* message = std::get_if<ForMessage>(&at(agent).waits))
    for (const int other : agents_of_[static_cast<std::size_t>(message->route.peer)])
      if (!is_passive(at(other))) helpers.push_back(other);
  return helpers;
}

std::vector<int> WaitGraph::running_for(int agent) const {
  std::vector<int> running;
  std::vector<bool> seen(agents_.size(), false);
  std::vector<int> open{agent};
  seen[static_cast<std::size_t>(agent)] = true;
  while (!open.empty()) {
    const int here = open.back();
    open.pop_back();
    if (!is_waiting(at(here))) {
      running.push_back(here);
      continue;
    }
    for (const int other : may_help(here)) {
      if (seen[static_cast<std::size_t>(other)]) continue;
      seen[static_cast<std::size_t>(other)] = true;
      open.push_back(other);
    }
  }
  return running;
}

void WaitGraph::add_to(Deadlock& deadlock, int agent) const {
  if (!deadlock.text.empty()) deadlock.text += "\n  ";
  deadlock.text += describe(agent);
  if (const auto* message = std::get_if<ForMessage>(&at(agent).waits))
    ++(message->sending ? deadlock.sending : deadlock.receiving);
}

std::optional<Deadlock> WaitGraph::deadlock(int agent) const {
  if (!is_waiting(at(agent)) || !running_for(agent).empty()) return {};
  // No agent on the chain of waits is running, so the chain ends in a cycle or at a finished rank.
  std::vector<int> path{agent};
  while (true) {
    const int other = next(path.back());
    if (is_passive(at(other))) {
      Deadlock found{.for_finished = true};
      add_to(found, path.back());
      found.text += ", which has finished";
      return found;
    }
    const auto before = std::find(path.begin(), path.end(), other);
    if (before != path.end()) {
      path.erase(path.begin(), before);
      break;
    }
    path.push_back(other);
  }
  // For readability, the text starts with the lowest rank's own thread.
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  Deadlock found{.text = "deadlock"};
  for (const int each : path)
    if (!described_by_worker(each)) add_to(found, each);
  for (std::size_t i = 0; i < path.size(); ++i)
    found.text += disagreement(path[i], path[(i + 1) % path.size()]);
  return found;
}

// If the two agents are waiting for each other in different calls, returns a text that explains
// this; otherwise "".
std::string WaitGraph::disagreement(int agent, int other) const {
  const auto* mine = std::get_if<ForMessage>(&at(agent).waits);
  const auto* theirs = std::get_if<ForMessage>(&at(other).waits);
  if (mine == nullptr || theirs == nullptr || mine->route.channel != theirs->route.channel ||
      same_call(mine->route, theirs->route))
    return "";
  const auto end = [&](int who, const ForMessage& what) {
    return MessageEnd{at(who).rank, what.route, what.bytes, place(what.route.where)};
  };
  return "\n  " + mismatch(end(agent, *mine), end(other, *theirs));
}

std::optional<Deadlock> WaitGraph::deadlock() const {
  for (int agent = 0; agent < static_cast<int>(agents_.size()); ++agent)
    if (auto found = deadlock(agent)) return found;
  return {};
}

std::string WaitGraph::stalled(int agent, double seconds) const {
  std::string text;
  std::vector<int> path{agent};
  for (int here = agent; is_waiting(at(here));) {
    if (!described_by_worker(here)) text += "\n  " + describe(here);
    here = next(here);
    if (std::find(path.begin(), path.end(), here) != path.end()) break;
    path.push_back(here);
  }
  // If the last agent on the path is waiting too, it is held up by a running agent that is not on
  // the path.
  int last = path.back();
  if (is_waiting(at(last)))
    if (const std::vector<int> running = running_for(agent); !running.empty())
      last = running.front();
  return fmt::format("rank {} has stalled: other ranks have waited {:g} s for it (--timeout){}",
                     at(last).rank, seconds, text);
}

// To close a cycle, prefers the peer's agent that waits on the same channel, and then any other
// active agent of the peer. If there is none, returns the peer's own thread.
int WaitGraph::next(int agent) const {
  if (const auto* jobs = std::get_if<ForJobs>(&at(agent).waits)) return jobs->worker;
  if (const auto* member = std::get_if<ForMember>(&at(agent).waits)) return *member->missing;
  if (std::holds_alternative<ForTime>(at(agent).waits)) {
    const std::vector<int> running = may_help(agent);
    return running.empty() ? agent : running.front();
  }
  const Route& route = std::get<ForMessage>(at(agent).waits).route;
  int best = route.peer;
  for (const int other : may_help(agent)) {
    if (const auto* theirs = std::get_if<ForMessage>(&at(other).waits))
      if (theirs->route.channel == route.channel) return other;
    if (is_passive(at(best))) best = other;
  }
  return best;
}

// Whether the agent is waiting for its own worker, and the worker's line in the message already
// shows the same call.
bool WaitGraph::described_by_worker(int agent) const {
  const auto* jobs = std::get_if<ForJobs>(&at(agent).waits);
  if (jobs == nullptr) return false;
  const auto* message = std::get_if<ForMessage>(&at(jobs->worker).waits);
  return message != nullptr && place(message->route.where) == place(jobs->why.where);
}

std::string WaitGraph::describe(int agent) const {
  const Agent& self = at(agent);
  if (const auto* jobs = std::get_if<ForJobs>(&self.waits))
    return fmt::format("rank {} waits for its own {}{} ({})", self.rank, jobs->why.operation,
                       jobs->why.group != nullptr ? fmt::format(" of {}", jobs->why.group) : "",
                       place(jobs->why.where));
  if (const auto* member = std::get_if<ForMember>(&self.waits))
    return fmt::format(
        "rank {} waits for rank {} to take part in {}{} ({})", self.rank, *member->missing,
        member->route.operation,
        member->route.group != nullptr ? fmt::format(" of {}", member->route.group) : "",
        place(member->route.where));
  if (const auto* time = std::get_if<ForTime>(&self.waits))
    return fmt::format("rank {} waits for the modelled time of {} ({})", self.rank,
                       time->route.operation, place(time->route.where));
  const auto& message = std::get<ForMessage>(self.waits);
  return fmt::format("rank {} waits {}", self.rank,
                     waits_for(message.route, message.sending, message.bytes));
}

}  // namespace lockstep
