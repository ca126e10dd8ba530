#include "core/comm/shared/member_collectives.h"

#include <algorithm>
#include <utility>

namespace lockstep {

std::vector<std::unique_ptr<MemberCollectives>> MemberCollectives::of_group(
    SharedNetwork& network, const Cluster& links, const std::vector<int>& ranks, std::size_t kept,
    int channel) {
  const auto group = std::make_shared<Group>();
  std::vector<std::unique_ptr<MemberCollectives>> all;
  for (std::size_t member = 0; member < kept; ++member) {
    all.emplace_back(new MemberCollectives(network, links, ranks, member, channel, group));
    group->members.push_back(all.back().get());
  }
  return all;
}

void MemberCollectives::call(Call call) {
  calls_.push_back(std::move(call));
  if (calls_.size() == 1) begin();
}

void MemberCollectives::begin() {
  Call& first = calls_.front();
  end_ = ready_ = std::max(first.ready, end_);
  passages_.assign(first.keeps_passages ? first.steps->size() : 0, {});
  next_ = 0;
  const auto& steps = *first.steps;
  if (!steps.empty() && ranks_[static_cast<std::size_t>(steps[0].peer)] == rank_)
    begin_in_switch();
  else
    go_on();
}

// As in StepPlayer: all members' elements go up to the switch at once, and the sums come down α
// later. The switch is not shared with other messages.
void MemberCollectives::begin_in_switch() {
  check_switch(links_, ranks_);
  Group::Sum& sum = group_->sums[number_];
  sum.last = std::max(sum.last, ready_);
  if (++sum.begun < group_->members.size()) return;
  const Picoseconds start = sum.last;
  group_->sums.erase(number_);
  for (MemberCollectives* member : group_->members) member->add_in_switch(start);
}

void MemberCollectives::add_in_switch(Picoseconds start) {
  const Call& call = calls_.front();
  const std::int64_t bytes = call.steps->front().bytes;
  const Link::Segment link = links_.in_switch->at(bytes);
  const Picoseconds held = picoseconds(static_cast<double>(bytes) / link.bandwidth);
  end_ = ready_ = links_.after(links_.after(start, held), picoseconds(link.latency_seconds));
  if (call.keeps_passages) passages_ = {{start, start + held}, {end_ - held, end_}};
  receiving_ = true;
  network_.at(end_, *this, 0);
}

void MemberCollectives::reached(int) {
  receiving_ = false;
  next_ = calls_.front().steps->size();
  finish_if_done();
}

void MemberCollectives::go_on() {
  going_on_ = true;
  for (const Call& call = calls_.front(); next_ < call.steps->size() && !receiving_;) {
    const auto [direction, peer, bytes] = (*call.steps)[next_];
    const int tag = static_cast<int>(next_++);
    const int other = ranks_[static_cast<std::size_t>(peer)];
    if (direction == Direction::send) {
      ++leaving_;
      network_.send(stream_,
                    {.to = other,
                     .bytes = bytes,
                     .ready = ready_,
                     .latency = links_.latency(rank_, other, bytes),
                     .load = call.load},
                    *this, tag);
    } else {
      receiving_ = true;
      network_.receive(stream_, other, *this, tag);
    }
  }
  going_on_ = false;
  finish_if_done();
}

void MemberCollectives::left(int step, const Passage& passage) {
  if (!passages_.empty()) passages_[static_cast<std::size_t>(step)] = passage;
  end_ = std::max(end_, passage.end);
  --leaving_;
  finish_if_done();
}

void MemberCollectives::arrived(int step, const Passage& passage) {
  if (!passages_.empty()) passages_[static_cast<std::size_t>(step)] = passage;
  ready_ = std::max(ready_, passage.end);
  end_ = std::max(end_, passage.end);
  receiving_ = false;
  if (!going_on_) go_on();
}

// A call may end as soon as it begins, if all messages that it receives have already arrived.
// Therefore this is a loop, and begin() does not call this function while it runs.
void MemberCollectives::finish_if_done() {
  if (finishing_) return;
  finishing_ = true;
  while (!calls_.empty() && leaving_ == 0 && !receiving_ && next_ == calls_.front().steps->size()) {
    const Call done = std::move(calls_.front());
    calls_.pop_front();
    ++number_;
    done.ended({done.ready, end_, std::move(passages_)});
    if (!calls_.empty()) begin();
  }
  finishing_ = false;
}

}  // namespace lockstep
