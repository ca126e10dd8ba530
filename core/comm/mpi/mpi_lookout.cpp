#include "core/comm/mpi/mpi_lookout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "core/comm/mpi/mpi_communicator.h"

namespace lockstep {

using SteadyClock = std::chrono::steady_clock;

struct MpiLookout::Question {
  static constexpr int tag = 0;
  std::int64_t round = 0;
  double waited = 0;  ///< how long the asking rank has been waiting, in seconds
};

struct MpiLookout::Answer {
  static constexpr int tag = 1;
  static constexpr std::size_t most = 14;
  std::int64_t round = 0;
  std::int32_t computes = 0;
  std::int32_t waits = 0;                      ///< number of entries used in waits_for
  std::array<std::int32_t, most> waits_for{};  ///< the ranks for which this rank's agents wait
};

/// A sent message whose buffer MPI may still read.
struct MpiLookout::Sent {
  std::vector<std::byte> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

MpiLookout::Waiting::Waiting(MpiLookout& lookout, int peer) : lookout_(lookout), peer_(peer) {
  std::lock_guard lock{lookout_.mutex_};
  begin_ = lookout_.awake_;
  place_ = lookout_.waiting_.insert(lookout_.waiting_.end(), this);
}

MpiLookout::Waiting::~Waiting() {
  std::lock_guard lock{lookout_.mutex_};
  lookout_.waiting_.erase(place_);
  if (lookout_.itself_) lookout_.itself_->stopped_waiting();
}

bool MpiLookout::Waiting::somebody_has_computed() {
  std::lock_guard lock{lookout_.mutex_};
  return std::exchange(reported_, computed_) != computed_;
}

MpiLookout::MpiLookout(int rank, int size, double patience_seconds, Notice notice)
    : rank_(rank), patience_seconds_(patience_seconds), notice_(std::move(notice)) {
  if (size == 1 || !std::isfinite(patience_seconds)) return;
  communicator_ = duplicate_world(rank);
  thread_ = std::thread{[this] { work(); }};
}

// Leaks the buffers of messages that have not been received, because MPI may still read them.
MpiLookout::~MpiLookout() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock{mutex_};
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  for (auto& each : sent_) {
    int done = 0;
    MPI_Test(&each->request, &done, MPI_STATUS_IGNORE);
    if (done != 0) continue;
    MPI_Request_free(&each->request);
    static_cast<void>(each.release());
  }
  MPI_Comm_free(&communicator_);
}

void MpiLookout::computes_on(const Stream& compute) {
  std::lock_guard lock{mutex_};
  itself_.emplace(rank_, compute);
}

// Ignores MPI's errors, because the rank's own messages encounter the same errors and report them.
void MpiLookout::work() {
  std::unique_lock lock{mutex_};
  for (Time last = SteadyClock::now(); !wake_.wait_for(lock, interval, [&] { return stop_; });) {
    const Time now = SteadyClock::now();
    awake_ +=
        std::chrono::duration<double>{std::min<Time::duration>(now - last, 10 * interval)}.count();
    last = now;
    computes_ = itself_ && itself_->is_busy();
    lock.unlock();
    answer_questions();
    take_answers();
    lock.lock();
    ask();
  }
}

void MpiLookout::send(int to, int tag, const void* bytes, std::size_t size) {
  std::erase_if(sent_, [](const auto& each) {
    int done = 0;
    MPI_Test(&each->request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  auto message = std::make_unique<Sent>();
  message->bytes.resize(size);
  std::memcpy(message->bytes.data(), bytes, size);
  MPI_Isend(message->bytes.data(), static_cast<int>(size), MPI_BYTE, to, tag, communicator_,
            &message->request);
  sent_.push_back(std::move(message));
}

template <class Message>
bool MpiLookout::receive(int tag, Message& into, int& from) {
  int here = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, tag, communicator_, &here, &status) != MPI_SUCCESS || here == 0)
    return false;
  from = status.MPI_SOURCE;
  return MPI_Recv(&into, sizeof into, MPI_BYTE, from, tag, communicator_, MPI_STATUS_IGNORE) ==
         MPI_SUCCESS;
}

void MpiLookout::answer_questions() {
  Question question;
  int from = 0;
  while (receive(Question::tag, question, from)) {
    Answer answer{.round = question.round, .computes = computes_ ? 1 : 0};
    std::string line;
    {
      std::lock_guard lock{mutex_};
      for (const Waiting* each : waiting_)
        if (static_cast<std::size_t>(answer.waits) < Answer::most)
          answer.waits_for[static_cast<std::size_t>(answer.waits++)] = each->peer_;
      const Time now = SteadyClock::now();
      const std::chrono::duration<double> patience{patience_seconds_};
      if (computes_ && !itself_->sleeps_for_pace() && question.waited >= patience_seconds_ &&
          now - noticed_ >= patience) {
        noticed_ = now;
        line = itself_->notice();
      }
    }
    send(from, Answer::tag, &answer, sizeof answer);
    if (!line.empty() && notice_) notice_(line);
  }
}

void MpiLookout::take_answers() {
  Answer answer;
  int from = 0;
  while (receive(Answer::tag, answer, from)) {
    if (answer.round != round_) continue;  // from an earlier round
    Asked& asked = asked_[from];
    asked.answered = true;
    if (answer.computes != 0) asked.computes = SteadyClock::now();
    asked.waits_for.assign(answer.waits_for.begin(), answer.waits_for.begin() + answer.waits);
  }
}

// In each round, this rank asks the ranks that it is waiting for, and then the ranks that those
// ranks are waiting for. The next round starts when all of them have answered, or after a third of
// the time-out.
void MpiLookout::ask() {
  using Seconds = std::chrono::duration<double>;
  const Time now = SteadyClock::now();
  for (Waiting* each : waiting_) follow(*each, now);
  const bool complete =
      std::ranges::all_of(asked_, [](const auto& each) { return each.second.answered; });
  const Seconds least{std::min(patience_seconds_ / 20, 1.0)};
  const Seconds most{patience_seconds_ / 3};
  if (now - round_began_ < (complete ? least : most)) return;
  ++round_;
  round_began_ = now;
  asked_.clear();
}

void MpiLookout::follow(Waiting& waiting, Time now) {
  std::vector<int> open{waiting.peer_};
  std::set<int> seen{waiting.peer_};
  const auto visit = [&](int rank) {
    if (seen.insert(rank).second) open.push_back(rank);
  };
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    if (rank == rank_) {
      if (computes_) waiting.computed_ = now;
      for (const Waiting* each : waiting_) visit(each->peer_);
      continue;
    }
    const auto [asked, is_new] = asked_.try_emplace(rank);
    if (is_new) {
      const Question question{.round = round_, .waited = awake_ - waiting.begin_};
      send(rank, Question::tag, &question, sizeof question);
    }
    if (asked->second.computes)
      waiting.computed_ = std::max(waiting.computed_, *asked->second.computes);
    for (const int each : asked->second.waits_for) visit(each);
  }
}

}  // namespace lockstep
