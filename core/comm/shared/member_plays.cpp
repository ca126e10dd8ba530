#include "core/comm/shared/member_plays.h"

#include <algorithm>
#include <utility>

namespace lockstep {

void MemberPlays::call(Call call) {
  calls_.push_back(std::move(call));
  if (calls_.size() == 1) begin();
}

void MemberPlays::begin() {
  Call& first = calls_.front();
  first.begin = end_ = ready_ = std::max(first.ready, end_);
  if (first.keeps_passages) first.passages.resize(first.steps->size());
  next_ = 0;
  go_on();
}

void MemberPlays::go_on() {
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

void MemberPlays::left(int step, const Passage& passage) {
  Call& call = calls_.front();
  if (call.keeps_passages) call.passages[static_cast<std::size_t>(step)] = passage;
  end_ = std::max(end_, passage.end);
  --leaving_;
  finish_if_done();
}

void MemberPlays::arrived(int step, const Passage& passage) {
  Call& call = calls_.front();
  if (call.keeps_passages) call.passages[static_cast<std::size_t>(step)] = passage;
  ready_ = std::max(ready_, passage.end);
  end_ = std::max(end_, passage.end);
  receiving_ = false;
  if (!going_on_) go_on();
}

void MemberPlays::finish_if_done() {
  if (leaving_ > 0 || receiving_ || next_ < calls_.front().steps->size()) return;
  Call done = std::move(calls_.front());
  calls_.pop_front();
  done.end = end_;
  // The next call begins before anybody learns of this one's end, so that all its messages are
  // posted in time.
  if (!calls_.empty()) begin();
  done.ended(done);
}

}  // namespace lockstep
