#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/comm/mpi/mpi_check.h"
#include "core/comm/transport/busy_rank.h"

namespace lockstep {

/// A thread in each process. It asks the ranks that this one waits for what they are doing, and
/// answers the same question from others. During a kernel the main thread cannot answer, but this
/// thread can: its rank is computing, or waiting for certain ranks, which the asker queries next. A
/// stopped or killed process does not answer. No message is sent until a wait exceeds `interval`.
class MpiLookout {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// The thread's polling interval.
  static constexpr std::chrono::milliseconds interval{20};

  /// Collective over all ranks. If this rank is computing and others have waited for it for
  /// `patience_seconds`, `notice` receives a line that says so, at most once per such period.
  MpiLookout(int rank, int size, double patience_seconds, Notice notice);
  ~MpiLookout();
  MpiLookout(const MpiLookout&) = delete;
  MpiLookout& operator=(const MpiLookout&) = delete;

  void computes_on(const Stream& compute);

  /// Registers one agent's wait for another rank, for the lifetime of this object.
  class Waiting {
   public:
    Waiting(MpiLookout& lookout, int peer);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    /// Whether, since the last call, the lookout has learned that a rank this agent waits for,
    /// directly or through others, is computing.
    bool somebody_has_computed();

   private:
    friend class MpiLookout;
    MpiLookout& lookout_;
    const int peer_;
    const Time begin_;
    Time computed_, told_;  ///< latest answer from a computing rank; the one last returned
    std::list<Waiting*>::iterator place_;
  };

 private:
  struct Question;
  struct Answer;
  /// A rank queried in this round, and its answer.
  struct Asked {
    std::vector<int> waits_for;
    std::optional<Time> computes;
    bool answered = false;
  };
  struct Sent;

  void work();
  void answer_questions();
  void take_answers();
  void ask();
  void follow(Waiting& waiting, Time now);
  void send(int to, int tag, const void* bytes, std::size_t size);
  template <class Message>
  bool receive(int tag, Message& into, int& from);

  const int rank_;
  const double patience_seconds_;
  Notice notice_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::mutex mutex_;  ///< protects the members up to waiting_
  std::condition_variable wake_;
  bool stop_ = false;
  std::optional<BusyRank> itself_;
  std::list<Waiting*> waiting_;

  // Used only by the thread.
  bool computes_ = false;
  Time noticed_{};
  std::int64_t round_ = 0;
  Time round_began_{};
  std::map<int, Asked> asked_;  ///< by rank, in this round
  std::list<std::unique_ptr<Sent>> sent_;
  std::thread thread_;
};

}  // namespace lockstep
