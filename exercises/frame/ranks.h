#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "core/run/rank/rank.h"
#include "exercises/frame/check.h"
#include "exercises/frame/in_flight.h"

namespace lockstep::exercises {

/// Lets one rank at a time compute, if ranks are threads. A rank passes the turn on inside the
/// operations of its World, so a rank's work between two operations is not interleaved with that of
/// other ranks. If a rank keeps the turn for 3 s, for example in an endless loop, the others go on
/// without it.
class Turn {
 public:
  /// Does nothing if this thread has the turn.
  void take();
  /// Does nothing if this thread does not have the turn.
  void pass();
  bool is_mine() const { return holder_ == std::this_thread::get_id(); }

 private:
  std::timed_mutex mutex_;
  std::atomic<std::thread::id> holder_{};
};

/// Passes the turn on, and takes it again at the end.
class OutOfTurn {
 public:
  explicit OutOfTurn(Turn* turn) : turn_(turn) {
    if (turn_ != nullptr) turn_->pass();
  }
  ~OutOfTurn() {
    if (turn_ != nullptr) turn_->take();
  }
  OutOfTurn(const OutOfTurn&) = delete;
  OutOfTurn& operator=(const OutOfTurn&) = delete;

 private:
  Turn* turn_;
};

/// One rank of one run: the state that its World and its Buffers share. Belongs to the rank's
/// thread.
struct RankState {
  /// The number of channels that a run's groups use.
  static constexpr int channels_taken = (all_axes_count + 1) * Group::channels_taken;
  /// `rank` is one of the mesh's ranks, which are the first ranks of its run. `channels` is the
  /// first of `channels_taken` numbers from Transport::open_channels(). `turn` may be null.
  RankState(Rank& rank, const Mesh& mesh, int channels, Turn* turn);

  Rank& rank;
  const Mesh mesh;
  const int channels;
  std::vector<Group*> groups;  ///< by axis, and of all ranks; null until they are needed
  std::int64_t held_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t own_bytes = 0;                   ///< as in Outcome
  std::map<const float*, std::size_t> buffers;  ///< where the Buffers are, and their sizes
  std::vector<std::size_t> peak_sizes;          ///< of the Buffers when they held the most
  std::size_t uncounted = 0;                    ///< as in Outcome
  std::vector<Started> started;                 ///< as in Outcome
  /// The first operation whose Work was destroyed before wait(): "receive() at line 9"; else "".
  std::string not_awaited;
  InFlight in_flight;
  Turn* const turn;

  bool is_in_buffer(std::span<const float> numbers) const;
  /// Call this at the beginning of each of the rank's operations, and after the last one. Throws
  /// Wrong if the answer has kept data in a static variable, or has used the numbers of an
  /// operation in flight in a way that could not be reported at once.
  void check_memory();

  Group& all();
  Group& along(Axis axis);

 private:
  std::vector<std::unique_ptr<Group>> owned_;
};

/// One rank's results of a run: its part of an Outcome.
struct RankOutcome {
  std::vector<float> result;
  std::int64_t bytes_sent = 0, peak_bytes = 0, own_bytes = 0;
  std::vector<std::size_t> peak_sizes;
  std::size_t uncounted = 0;
  std::vector<Started> started;
  Picoseconds end = 0;
  Row computed, sent;

  std::string to_bytes() const;
  static RankOutcome from_bytes(const std::string& bytes);
};

/// The ranks on which the bodies of a check run.
class Ranks {
 public:
  virtual ~Ranks() = default;
  /// Runs the body on each rank of the mesh, as Check::run() does.
  virtual std::vector<RankOutcome> run(const std::string& what, const Mesh& mesh,
                                       const Check::Body& body,
                                       const Check::Diagnosis& diagnosis) = 0;
};

/// The options of a run on `ranks` ranks whose numbers are exchanged in the memory of `device`,
/// "cpu" or "cuda". The run is on the modelled clock, so results do not depend on the machine's
/// load.
Options options_for(int ranks, const std::string& device);
/// Runs the body on a rank that has been created with these options, from modelled time `start` on.
/// `channels` are for its RankState.
/// If ranks are threads, they share `turn`; otherwise it is null.
RankOutcome run_body(Rank& rank, const Mesh& mesh, int channels, Picoseconds start,
                     const Check::Body& body, Turn* turn);
/// Throws Wrong if a static variable of the answer has changed since StaticData::remember(). The
/// message names `who`, such as "rank 1", as the one that has changed it.
void check_statics(const std::string& who);
/// Describes the exception that is being handled: its message, cut to a readable length, or its
/// type if it is not derived from std::exception.
std::string text_of_exception();
/// Ranks as threads of this process.
std::unique_ptr<Ranks> thread_ranks(const std::string& device);
/// Ranks as the processes that mpirun has started; each of them runs the whole check.
/// `reporter` must outlive them.
std::unique_ptr<Ranks> mpi_ranks(const std::string& device, Reporter& reporter);

}  // namespace lockstep::exercises
