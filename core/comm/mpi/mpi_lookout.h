#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/comm/mpi/mpi_check.h"
#include "core/comm/transport/busy_rank.h"

namespace lockstep {

/// Exchanges the ranks' states, so that a waiting rank can tell a computing rank from a stalled
/// one. Each process runs a thread for this purpose. The thread queries the ranks that its own rank
/// is waiting for, and answers queries from other ranks, even while its own rank's main thread is
/// inside a kernel. An answer says whether the answering rank is computing, and which ranks it is
/// waiting for; the asking thread asks those ranks next. A stopped or killed process does not
/// answer. The thread sends nothing until a wait exceeds `interval`.
///
/// A wait for a message ends itself after the time-out. A thread inside one of MPI's collective
/// calls can't: if no rank that the call waits for has computed for the time-out, the lookout gives
/// up the process.
class MpiLookout {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// The thread's polling interval.
  static constexpr std::chrono::milliseconds interval{20};

  /// What the lookout reports, from its own thread.
  struct Reports {
    /// Other ranks have been waiting for this rank for the time-out while it is computing. Called
    /// at most once per time-out.
    Notice busy;
    /// MPI does not return from a call; the text names the call and the silent ranks. Must end the
    /// process.
    Notice hung;
  };

  /// `communicator` contains all ranks and carries only the messages of lookouts. The time-out is
  /// `patience_seconds`; time during which the waiting process is stopped does not count.
  MpiLookout(int rank, int size, MPI_Comm communicator, double patience_seconds, Reports reports);
  ~MpiLookout();
  MpiLookout(const MpiLookout&) = delete;
  MpiLookout& operator=(const MpiLookout&) = delete;

  void computes_on(const Stream& compute);

  /// Keeps one agent's wait for other ranks registered for as long as this object lives.
  class Waiting {
   public:
    /// Waits for a message from or to `peer`.
    Waiting(MpiLookout& lookout, int peer);
    /// Waits inside `call` of MPI until all of `ranks`, which include this one, have called it.
    Waiting(MpiLookout& lookout, const std::vector<int>& ranks, const char* call);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    /// Whether the lookout has learned, since the last call, that a rank for which this agent is
    /// waiting, directly or through others, is computing.
    bool somebody_has_computed();

   private:
    friend class MpiLookout;
    void open();
    MpiLookout& lookout_;
    const std::vector<int> peers_;
    const char* const call_ = nullptr;  ///< of MPI, if the agent is inside it
    double begin_ = 0;                  ///< `awake_` at the beginning
    double calm_ = 0;  ///< `awake_` at the beginning, or when a rank was last found computing
    Time computed_, reported_;  ///< last answer from a computing rank; `computed_` at the last call
    std::list<Waiting*>::iterator place_;
  };

 private:
  struct Question;
  struct Answer;
  /// A rank that was asked in this round, and its answer, if it has arrived.
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
  /// Returns what to report if an agent has been inside a call of MPI for too long; otherwise "".
  std::string hung();
  void send(int to, int tag, const void* bytes, std::size_t size);
  template <class Message>
  bool receive(int tag, Message& into, int& from);

  const int rank_;
  const MPI_Comm communicator_;
  const double patience_seconds_;
  const Reports reports_;
  std::mutex mutex_;  ///< protects the members below, up to waiting_
  std::condition_variable wake_;
  bool stop_ = false;
  double awake_ = 0;  ///< seconds for which this process has run, without the time it was stopped
  std::optional<BusyRank> itself_;
  std::list<Waiting*> waiting_;

  // Used only by `thread_`.
  bool computes_ = false;
  Time noticed_{};
  std::int64_t round_;  ///< differs from the rounds of this process's earlier lookouts
  Time round_began_{};
  std::map<int, Asked> asked_;      ///< by rank, in this round
  std::map<int, double> answered_;  ///< by rank: `awake_` at its last answer
  std::list<std::unique_ptr<Sent>> sent_;
  std::thread thread_;
};

}  // namespace lockstep
