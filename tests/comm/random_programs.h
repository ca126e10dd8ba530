#pragma once

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/support/collective_checks.h"

/// Random programs of messages and collectives that cannot deadlock. All ranks issue their
/// operations without blocking, in one global order, and each rank chooses when to wait for them.
/// (All members of the first unfinished operation eventually issue it, because a member can be
/// waiting only for earlier operations, and those have all finished.)
namespace lockstep::testing {

struct Step {
  enum class Kind { message, all_reduce, broadcast, all_gather, all_to_all, barrier };
  Kind kind = Kind::message;
  std::size_t group = 0;
  int root = 0, to = 0;  ///< members; a message goes from `root` to `to`
  std::int64_t elements = 0;
  Algorithm algorithm = Algorithm::ring;
};

struct Program {
  unsigned seed = 0;
  int ranks = 0;
  std::vector<std::vector<int>> groups;  ///< the first group contains all ranks
  std::vector<Step> steps;               ///< the last step is a barrier of all ranks

  bool takes_part(int rank, const Step& step) const {
    const auto& members = groups[step.group];
    if (step.kind == Step::Kind::message)
      return members[static_cast<std::size_t>(step.root)] == rank ||
             members[static_cast<std::size_t>(step.to)] == rank;
    return std::find(members.begin(), members.end(), rank) != members.end();
  }
};

inline Program random_program(unsigned seed) {
  std::mt19937 random{seed};
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Program program{.seed = seed, .ranks = 2 + below(5)};
  std::vector<int> everybody(static_cast<std::size_t>(program.ranks));
  for (std::size_t i = 0; i < everybody.size(); ++i) everybody[i] = static_cast<int>(i);
  program.groups.push_back(everybody);
  for (int extra = below(3); extra > 0; --extra) {
    std::shuffle(everybody.begin(), everybody.end(), random);
    const auto size = 2 + below(program.ranks - 1);
    program.groups.emplace_back(everybody.begin(), everybody.begin() + size);
  }
  const std::int64_t sizes[] = {0, 1, 5, 64, 300};
  for (int count = 3 + below(20); count > 0; --count) {
    Step step{.kind = static_cast<Step::Kind>(below(6)),
              .group = static_cast<std::size_t>(below(static_cast<int>(program.groups.size()))),
              .elements = sizes[below(5)],
              .algorithm = all_reduce_algorithms[below(5)]};
    const int size = static_cast<int>(program.groups[step.group].size());
    step.root = below(size);
    step.to = (step.root + 1 + below(size - 1)) % size;
    program.steps.push_back(step);
  }
  program.steps.push_back({.kind = Step::Kind::barrier});
  return program;
}

/// One rank's execution of a program.
class Player {
 public:
  /// `rank` must belong to a run that has not communicated yet.
  Player(Rank& rank, const Program& program)
      : rank_(rank),
        program_(program),
        random_(program.seed * 64 + static_cast<unsigned>(rank.id)) {
    for (std::size_t i = 0; i < program.groups.size(); ++i) {
      const int channels = rank.transport->open_channels(Group::channels_taken);
      const auto& members = program.groups[i];
      groups_.push_back(
          std::find(members.begin(), members.end(), rank.id) == members.end()
              ? nullptr
              : std::make_unique<Group>(rank.endpoint, members, fmt::format("g{}", i), channels));
    }
  }

  /// Called before each step in which this rank takes part. Returns the step to execute, possibly
  /// altered, or nothing if the rank should skip the step.
  using Before = std::function<std::optional<Step>(std::size_t)>;

  /// Runs all steps. Throws std::runtime_error if a result is wrong.
  void play(const Before& before = nullptr) {
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      if (!program_.takes_part(rank_.id, program_.steps[i])) continue;
      while (!open_.empty() && random_() % 3 == 0) wait_for_one();
      if (random_() % 16 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds{random_() % 200});
      if (!before)
        issue(i, program_.steps[i]);
      else if (const auto step = before(i))
        issue(i, *step);
    }
    while (!open_.empty()) wait_for_one();
  }

  Group& group(const Step& step) { return *groups_[step.group]; }

 private:
  struct Issued {
    std::unique_ptr<std::vector<float>> data, more;
    std::vector<float> want;  ///< expected `data`; empty if `data` is not checked
    Work work;
  };

  void wait_for_one() {
    const std::size_t which = random_() % open_.size();
    open_[which].work.wait();
    const bool moved = rank_.memory.device() != DeviceKind::meta;
    if (moved && !open_[which].want.empty() && *open_[which].data != open_[which].want)
      throw std::runtime_error(fmt::format("other values, seed {}", program_.seed));
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void issue(std::size_t i, const Step& step) {
    Group& members = group(step);
    const int self = members.rank();
    const int size = members.size();
    const int mark = static_cast<int>(i);  // so that the values differ from step to step
    Issued issued;
    auto data = std::make_unique<std::vector<float>>(whole_values(self + mark, step.elements));
    switch (step.kind) {
      case Step::Kind::message:
        if (self == step.root) {
          issued.work = members.send(view(*data), step.to);
        } else {
          issued.want = whole_values(step.root + mark, step.elements);
          issued.work = members.receive(view(*data), step.root);
        }
        break;
      case Step::Kind::all_reduce:
        issued.want.resize(data->size());
        for (int member = 0; member < size; ++member) {
          const auto each = whole_values(member + mark, step.elements);
          std::transform(each.begin(), each.end(), issued.want.begin(), issued.want.begin(),
                         std::plus<>{});
        }
        issued.work = members.all_reduce(view(*data), step.algorithm);
        break;
      case Step::Kind::broadcast:
        issued.want = whole_values(step.root + mark, step.elements);
        issued.work = members.broadcast(view(*data), step.root);
        break;
      case Step::Kind::all_gather: {
        issued.want = whole_values(mark, step.elements);
        const auto begin = oracle::chunk_begin(step.elements, size, self);
        const auto end = oracle::chunk_begin(step.elements, size, self + 1);
        std::fill(data->begin(), data->end(), -1.0F);
        std::copy(issued.want.begin() + begin, issued.want.begin() + end, data->begin() + begin);
        issued.work = members.all_gather(view(*data));
        break;
      }
      case Step::Kind::all_to_all: {
        const std::int64_t each = step.elements;
        issued.more = std::make_unique<std::vector<float>>(static_cast<std::size_t>(each * size),
                                                           static_cast<float>(self + mark));
        data->assign(issued.more->size(), -1.0F);
        for (int member = 0; member < size; ++member)
          issued.want.insert(issued.want.end(), static_cast<std::size_t>(each),
                             static_cast<float>(member + mark));
        issued.work = members.all_to_all(view(*issued.more), view(*data));
        break;
      }
      case Step::Kind::barrier:
        issued.work = members.barrier();
        break;
    }
    issued.data = std::move(data);
    open_.push_back(std::move(issued));
  }

  Rank& rank_;
  const Program& program_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Issued> open_;
};

}  // namespace lockstep::testing
