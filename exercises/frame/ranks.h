#pragma once

#include <memory>

#include "core/run/rank.h"
#include "exercises/frame/check.h"

namespace lockstep::exercises {

/// One rank of one run: what its World and its Buffers share. Belongs to the rank's thread.
struct RankState {
  /// The number of channels that a run's groups use.
  static constexpr int channels_taken = (all_axes_count + 1) * Group::channels_taken;
  /// `rank` is one of the mesh's ranks, which are the first ranks of its run. `channels` is the
  /// first of `channels_taken` numbers from Transport::open_channels().
  RankState(Rank& rank, const Mesh& mesh, int channels);

  Rank& rank;
  const Mesh mesh;
  const int channels;
  std::vector<Group*> groups;  ///< by axis, and of all ranks; null until they are needed
  std::int64_t held_bytes = 0;
  std::int64_t peak_bytes = 0;
  /// The first operation whose Work was destroyed before wait(): "receive() at line 9"; else "".
  std::string not_awaited;

  Group& all();
  Group& along(Axis axis);

 private:
  std::vector<std::unique_ptr<Group>> owned_;
};

/// What one rank has left of a run: its part of an Outcome.
struct RankOutcome {
  std::vector<float> result;
  std::int64_t bytes_sent = 0, peak_bytes = 0;
  Picoseconds end = 0;
  Row computed, sent;

  std::string to_bytes() const;
  static RankOutcome from_bytes(const std::string& bytes);
};

/// Where the bodies of a check run.
class Ranks {
 public:
  virtual ~Ranks() = default;
  /// Runs the body on each rank of the mesh, as Check::run() does.
  virtual std::vector<RankOutcome> run(const std::string& what, const Mesh& mesh,
                                       const Check::Body& body,
                                       const Check::Diagnosis& diagnosis) = 0;
};

/// The options of a run on `ranks` ranks whose numbers are exchanged in the memory of `device`,
/// "cpu" or "cuda". On the modelled clock, so that results do not depend on the machine's load.
Options options_for(int ranks, const std::string& device);
/// Runs the body on a rank that has been created with these options, from modelled time `start` on.
/// `channels` are for its RankState.
RankOutcome run_body(Rank& rank, const Mesh& mesh, int channels, Picoseconds start,
                     const Check::Body& body);
/// Describes the exception that is being handled: what it says, cut to a readable length, or its
/// type if that is not derived from std::exception.
std::string text_of_exception();
/// Ranks as threads of this process.
std::unique_ptr<Ranks> thread_ranks(const std::string& device);
/// Ranks as the processes that mpirun has started; each of them runs the whole check.
/// `reporter` must outlive them.
std::unique_ptr<Ranks> mpi_ranks(const std::string& device, Reporter& reporter);

}  // namespace lockstep::exercises
