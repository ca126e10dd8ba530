#include "core/comm/mpi/mpi_lookout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "core/time/clock.h"

namespace lockstep {

using SteadyClock = std::chrono::steady_clock;

struct MpiLookout::Question {
  static constexpr int tag = 0;
  std::int64_t round = 0;
  double waited = 0;  ///< how long the asking rank has been waiting, in seconds
};

struct MpiLookout::Answer {
  static constexpr int tag = 1;
  static constexpr std::size_t most = 126;
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

MpiLookout::Waiting::Waiting(MpiLookout& lookout, int peer) : lookout_(lookout), peers_{peer} {
  open();
}

MpiLookout::Waiting::Waiting(MpiLookout& lookout, const std::vector<int>& ranks, const char* call)
    : lookout_(lookout),
      peers_([&] {
        std::vector<int> others = ranks;
        std::erase(others, lookout.rank_);
        return others;
      }()),
      call_(call) {
  open();
}

void MpiLookout::Waiting::open() {
  std::lock_guard lock{lookout_.mutex_};
  begin_ = calm_ = lookout_.awake_;
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

MpiLookout::MpiLookout(int rank, int size, MPI_Comm communicator, double patience_seconds,
                       Reports reports)
    : rank_(rank),
      communicator_(communicator),
      patience_seconds_(patience_seconds),
      reports_(std::move(reports)),
      round_(steady_nanoseconds()) {
  if (size == 1 || !std::isfinite(patience_seconds)) return;
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
    const std::string why = hung();
    if (why.empty()) continue;
    lock.unlock();
    reports_.hung(why);
    lock.lock();
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
        for (const int peer : each->peers_)
          if (static_cast<std::size_t>(answer.waits) < Answer::most)
            answer.waits_for[static_cast<std::size_t>(answer.waits++)] = peer;
      const Time now = SteadyClock::now();
      const std::chrono::duration<double> patience{patience_seconds_};
      if (computes_ && !itself_->sleeps_for_pace() && question.waited >= patience_seconds_ &&
          now - noticed_ >= patience) {
        noticed_ = now;
        line = itself_->notice();
      }
    }
    send(from, Answer::tag, &answer, sizeof answer);
    if (!line.empty() && reports_.busy) reports_.busy(line);
  }
}

void MpiLookout::take_answers() {
  Answer answer;
  int from = 0;
  while (receive(Answer::tag, answer, from)) {
    answered_[from] = awake_;
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
  for (Waiting* each : waiting_)
    if (awake_ > each->begin_) follow(*each, now);
  const bool complete =
      std::ranges::all_of(asked_, [](const auto& each) { return each.second.answered; });
  const Seconds least{std::min(patience_seconds_ / 20, 1.0)};
  const Seconds most{patience_seconds_ / 3};
  if (now - round_began_ < (complete ? least : most)) return;
  ++round_;
  round_began_ = now;
  asked_.clear();
}

// Detects a stall inside one of MPI's own calls. A rank that can answer has done so within two
// rounds, each of which lasts a third of the time-out at most.
std::string MpiLookout::hung() {
  for (const Waiting* each : waiting_) {
    if (each->call_ == nullptr || awake_ - each->calm_ <= patience_seconds_) continue;
    std::vector<int> silent = each->peers_;
    std::erase_if(silent, [&](int peer) {
      const auto found = answered_.find(peer);
      return found != answered_.end() && awake_ - found->second < patience_seconds_ * 0.75;
    });
    return fmt::format(
        "has waited {:g} s inside {} for {} {}{}", patience_seconds_, each->call_,
        each->peers_.size() == 1 ? "rank" : "ranks", fmt::join(each->peers_, ", "),
        silent.empty() ? "; they answer, but none of them computes"
                       : fmt::format("; {} {} {} not answer", silent.size() == 1 ? "rank" : "ranks",
                                     fmt::join(silent, ", "), silent.size() == 1 ? "does" : "do"));
  }
  return "";
}

void MpiLookout::follow(Waiting& waiting, Time now) {
  std::vector<int> open = waiting.peers_;
  std::set<int> seen{open.begin(), open.end()};
  const Time before = waiting.computed_;
  const auto visit = [&](int rank) {
    if (seen.insert(rank).second) open.push_back(rank);
  };
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    if (rank == rank_) {
      if (computes_) waiting.computed_ = now;
      for (const Waiting* each : waiting_)
        for (const int peer : each->peers_) visit(peer);
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
  if (waiting.computed_ > before) waiting.calm_ = awake_;
}

}  // namespace lockstep
