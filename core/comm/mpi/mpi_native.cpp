#include "core/comm/mpi/mpi_native.h"

#include <numeric>

#include "core/comm/mpi/mpi_check.h"

namespace lockstep {

namespace {

/// Returns the offset of each chunk, as MPI's int.
std::vector<int> offsets_of(std::span<const int> counts) {
  std::size_t all = 0;
  for (const int count : counts) all += static_cast<std::size_t>(count);
  mpi_count(all);
  std::vector<int> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  return offsets;
}

class MpiCollectives final : public NativeCollectives {
 public:
  MpiCollectives(const std::vector<int>& ranks, int rank, int tag, MpiLookout& lookout)
      : ranks_(ranks), rank_(rank), lookout_(lookout) {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group", rank);
    check_mpi(MPI_Group_incl(world, mpi_count(ranks.size()), ranks.data(), &members),
              "MPI_Group_incl", rank);
    call("MPI_Comm_create_group",
         [&] { return MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &communicator_); });
    MPI_Group_free(&members);
    MPI_Group_free(&world);
    MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(communicator_, &place_);
  }
  ~MpiCollectives() override { MPI_Comm_free(&communicator_); }

  void broadcast(View data, int root) override {
    call("MPI_Bcast",
         [&] { return MPI_Bcast(data.data, count(data), MPI_FLOAT, root, communicator_); });
  }

  void all_reduce(View data) override {
    call("MPI_Allreduce", [&] {
      return MPI_Allreduce(MPI_IN_PLACE, data.data, count(data), MPI_FLOAT, MPI_SUM, communicator_);
    });
  }

  // With MPI_IN_PLACE, MPI would write the sum to the beginning of `data`, but the caller expects
  // it in `own`.
  void reduce_scatter(View data, View own, std::span<const int> counts) override {
    std::vector<float> sum(static_cast<std::size_t>(own.elements()));
    call("MPI_Reduce_scatter", [&] {
      return MPI_Reduce_scatter(data.data, sum.data(), counts.data(), MPI_FLOAT, MPI_SUM,
                                communicator_);
    });
    std::copy(sum.begin(), sum.end(), own.f32());
  }

  void all_gather(View data, std::span<const int> counts) override {
    const std::vector<int> offsets = offsets_of(counts);
    call("MPI_Allgatherv", [&] {
      return MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data, counts.data(),
                            offsets.data(), MPI_FLOAT, communicator_);
    });
  }

  void gather(View data, std::span<const int> counts, int root) override {
    const std::vector<int> offsets = offsets_of(counts);
    const auto own = static_cast<std::size_t>(place_);
    call("MPI_Gatherv", [&] {
      return place_ == root
                 ? MPI_Gatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data, counts.data(),
                               offsets.data(), MPI_FLOAT, root, communicator_)
                 : MPI_Gatherv(data.f32() + offsets[own], counts[own], MPI_FLOAT, nullptr, nullptr,
                               nullptr, MPI_FLOAT, root, communicator_);
    });
  }

  void all_to_all(View out, std::span<const int> send_counts, View in,
                  std::span<const int> receive_counts) override {
    // MPI silently accepts fewer elements than expected, so the members first exchange and check
    // their counts.
    std::vector<int> sent(send_counts.size());
    call("MPI_Alltoall", [&] {
      return MPI_Alltoall(send_counts.data(), 1, MPI_INT, sent.data(), 1, MPI_INT, communicator_);
    });
    for (std::size_t i = 0; i < sent.size(); ++i)
      if (sent[i] != receive_counts[i])
        throw RunError(fmt::format(
            "ranks disagree: rank {} calls all_to_all of {} bytes but rank {} calls all_to_all "
            "of {} bytes between the two",
            ranks_[i], 4L * sent[i], rank_, 4L * receive_counts[i]));
    const std::vector<int> from = offsets_of(send_counts);
    const std::vector<int> to = offsets_of(receive_counts);
    call("MPI_Alltoallv", [&] {
      return MPI_Alltoallv(out.data, send_counts.data(), from.data(), MPI_FLOAT, in.data,
                           receive_counts.data(), to.data(), MPI_FLOAT, communicator_);
    });
  }

  void barrier() override {
    call("MPI_Barrier", [&] { return MPI_Barrier(communicator_); });
  }

 private:
  static int count(View data) { return mpi_count(static_cast<std::size_t>(data.elements())); }

  /// Calls a collective function of MPI, under the eyes of the lookout, and checks its status.
  template <class Call>
  void call(const char* name, const Call& function) {
    const MpiLookout::Waiting inside{lookout_, ranks_, name};
    check_mpi(function(), name, rank_);
  }

  std::vector<int> ranks_;
  int rank_;       ///< rank in the whole run, for error messages
  int place_ = 0;  ///< this rank's index in the group
  MpiLookout& lookout_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<NativeCollectives> mpi_collectives(const std::vector<int>& ranks, int rank, int tag,
                                                   MpiLookout& lookout) {
  return std::make_unique<MpiCollectives>(ranks, rank, tag, lookout);
}

}  // namespace lockstep
