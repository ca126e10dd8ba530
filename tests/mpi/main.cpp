// Checks pipelines, data parallelism, ZeRO, tensor, sequence, expert and context parallelism, and
// several of them on one mesh, with one process per rank; ctest runs it as mpirun -n P test_mpi.
// Prints the number of checks and any errors. Exits with 1 if there are errors.

#include <fmt/format.h>

#include "core/comm/mpi/mpi_transport.h"
#include "core/comm/transport/control.h"
#include "lessons/schedules/registry.h"
#include "tests/pipeline/multi_stage_schedules.h"
#include "tests/support/context_checks.h"
#include "tests/support/copies_checks.h"
#include "tests/support/expert_checks.h"
#include "tests/support/mesh_checks.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/portion.h"
#include "tests/support/tensor_checks.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Runs each check with a new Rank of this process, and collects the errors of all ranks.
class Checks {
 public:
  explicit Checks(const MpiSession& session) : session_(session) {}

  void operator()(const Options& options, const std::function<std::string(Rank&)>& check) {
    Rank rank{options, session_.endpoint()};
    const std::string mine = check(rank);
    for (const std::string& wrong : gather_to_root(*rank.transport, mine)) {
      if (wrong.empty()) continue;
      fmt::print(stderr, "{}\n", wrong);
      ++failed;
    }
    ++done;
  }

  int done = 0;
  int failed = 0;

 private:
  const MpiSession& session_;
};

}  // namespace

int main() {
  const MpiSession session{/*native=*/false};
  Checks check{session};
  const int p = session.size();
  const std::pair<const char*, Generator> generators[] = {{"GPipe", gpipe}, {"1F1B", one_f_one_b}};
  try {
    for (const int m : portion<int>({4, 1, 8, 2, 3, 16}, 2)) {
      const Options options = small_training(p, m);
      Reference reference;
      if (session.rank() == 0)
        reference = train_on_one_device(options, small_corpus(options.plan.model()),
                                        {{"", 0, options.run.steps, m}});
      for (const auto& [name, generate] : generators) {
        check(options,
              [&](Rank& rank) { return check_parity(rank, options, generate, reference); });
        check(options, [&](Rank& rank) {
          return check_timeline(rank, options.plan.model(), generate(p, m), 1);
        });
      }
      check(options, [&](Rank& rank) { return check_memory(rank, options, gpipe(p, m), m); });
      check(options, [&](Rank& rank) {
        return check_memory(rank, options, one_f_one_b(p, m), std::min(m, p - rank.id));
      });
    }
    // Checks schedules with several stages per rank (8 layers). Also checks the bytes and memory of
    // the update: under MPI, a receive can't combine directly from the sender's buffer
    // (Transport::combines).
    const std::vector<std::pair<bool, float>> updates{{true, 0.5F}, {true, 0}, {false, 0.5F}};
    for (const auto& [tied, clip] : portion(updates, 1)) {
      constexpr int m = 4;
      const Options options = small_training(p, m, tied, clip);
      Reference reference;
      if (session.rank() == 0)
        reference = train_on_one_device(options, small_corpus(options.plan.model()),
                                        {{"", 0, options.run.steps, m}});
      std::mt19937 random{9};
      std::vector<Schedule> schedules{one_f_one_b(p, m),
                                      chunk_by_chunk(loop_placement(p, 8), m, true)};
      if (p <= 4) schedules.push_back(random_ascending(random, v_placement(p), m, Split::some));
      for (const Schedule& schedule : schedules) {
        check(options, [&](Rank& rank) {
          return check_parity(
              rank, options, [&](int, int) { return schedule; }, reference);
        });
        check(options, [&](Rank& rank) { return check_memory(rank, options, schedule); });
        if (schedule.stages > 1)
          check(options, [&](Rank& rank) {
            return check_timeline(rank, options.plan.model(), schedule, 1);
          });
      }
    }
    // Checks the lessons' schedules with up to two chunks per rank, and an m that p does not
    // divide.
    for (const int m : portion<int>({p + 1, 2 * p}, 1)) {
      Options options = small_training(p, m);
      set_model(options.plan, &GptConfig::layers, 16);
      options.run.steps = 4;
      Reference reference;
      if (session.rank() == 0)
        reference = train_on_one_device(options, small_corpus(options.plan.model()),
                                        {{"", 0, options.run.steps, m}});
      for (const KnownSchedule& known : known_schedules())
        for (const PipelineSize& size : {PipelineSize{p, 1, m}, PipelineSize{p, 2, m}}) {
          if (!refusal(known, size).empty()) continue;
          const Schedule schedule = known.generate(size);
          check(options, [&](Rank& rank) {
            return check_parity(
                rank, options, [&](int, int) { return schedule; }, reference, {}, 1.0);
          });
          check(options, [&](Rank& rank) { return check_memory(rank, options, schedule); });
          if (schedule.stages > 1)
            check(options, [&](Rank& rank) {
              return check_timeline(rank, options.plan.model(), schedule, 1);
            });
        }
    }
    for (const bool tied : {false, true}) {
      Options options = small_copies(p);
      set_model(options.plan, &GptConfig::tied, tied);
      if (tied && p > 2) set_model(options.plan, &GptConfig::frozen, {2});
      check(options, [&](Rank& rank) { return check_copies(rank, options, 1); });
    }
    Options options = small_copies(p);
    set_model(options.plan, &GptConfig::layers, 1);
    options.plan.batch.microbatches = 24 % (2 * p) == 0 ? 2 : 1;
    check(options, [&](Rank& rank) { return check_copies(rank, options, 40'000); });
    set_model(options.plan, &GptConfig::dtype, DType::bf16);
    check(options, [&](Rank& rank) { return check_copies(rank, options, 10'000'000); });
    const std::vector dtypes{DType::f32, DType::bf16};
    for (const auto& [sharing, dtype] : portion(combinations(all_sharings, dtypes), 3)) {
      Options shared = small_tensors(p, sharing);
      set_model(shared.plan, &GptConfig::dtype, dtype);
      check(shared,
            [&, sharing = sharing](Rank& rank) { return check_tensors(rank, shared, sharing); });
    }
    for (const auto& [sequences, dtype] : portion(combinations(all_sequences, dtypes), 3)) {
      Options shared = small_sequences(p, sequences);
      set_model(shared.plan, &GptConfig::dtype, dtype);
      check(shared, [&, sequences = sequences](Rank& rank) {
        return check_sequences(rank, shared, sequences);
      });
    }
    for (const MeshShape& shape :
         {MeshShape{2, 2, 2}, {4, 1, 2}, {1, 2, 2}, {1, 3, 1}, {2, 2, 1}, {2, 1, 1}}) {
      if (shape.dp * shape.pp * shape.tp != p) continue;
      const std::vector<int> zero_stages{0, 1, 2, 3};
      for (const auto& [zero, tied] : portion(combinations(zero_stages, std::vector{1, 0}), 2)) {
        const Composition chosen{.sequence_parallel = shape.tp > 1 && zero >= 2,
                                 .zero = zero,
                                 .shard = shape.dp == 4 && zero > 0 ? 2 : 0,
                                 .bucket_bytes = small_buckets};
        const Options mesh = small_mesh(shape, tied != 0, tied != 0 ? 0.5F : 0, chosen);
        check(mesh, [&](Rank& rank) { return check_mesh(rank, mesh, chosen); });
      }
    }
    // A receive that adds needs a buffer here, unlike with threads, so these runs show that the
    // peaks follow the order of actions, messages and buckets.
    for (const MeshShape& shape : {MeshShape{2, 2, 2}, {1, 2, 2}, {2, 2, 1}, {1, 3, 1}}) {
      if (shape.ranks() != p) continue;
      int number = 0;
      for (const auto& [word, chunks] : portion(schedules_on_mesh, 2)) {
        const Composition chosen{.sequence_parallel = shape.tp > 1 && ++number % 2 == 1,
                                 .zero = shape.dp > 1 && number % 4 < 2 ? 1 : 0,
                                 .bucket_bytes = small_buckets};
        const Scheduled run = scheduled(shape, word, chunks, 2 * shape.pp, chosen);
        check(run.options, [&](Rank& rank) {
          return check_mesh(rank, run.options, chosen, nullptr, &run.schedule);
        });
      }
    }
    for (const double capacity : portion<double>({1, 0}, 1)) {
      ExpertRun run{p, p, {.experts = 2 * p, .top_k = 2, .capacity_factor = capacity}};
      run.options.platform.launch = Launch::mpi;
      check(run.options, [&](Rank& rank) { return check_experts(rank, run); });
    }
    for (const MeshShape& shape : {MeshShape{2, 1, 2, 2},
                                   {1, 2, 2, 2},
                                   {2, 1, 1, 2},
                                   {1, 1, 2, 2},
                                   {1, 1, 1, 3},
                                   {1, 1, 1, 2}}) {
      if (shape.ranks() != p) continue;
      for (const int zero : portion<int>({0, 3, 1, 2}, 1)) {
        LoggedAxes chosen{
            {{.sequence_parallel = zero % 2 == 1, .zero = zero, .bucket_bytes = small_buckets},
             all_context_methods[zero % 3],
             zero < 3 ? Recompute::full : Recompute::selective}};
        Options mesh = small_mesh(shape, zero > 1, zero > 1 ? 0.5F : 0, chosen);
        mesh.platform.launch = Launch::mpi;
        if (zero == 0) {
          chosen.moe = {.experts = 12, .top_k = 2, .capacity_factor = 1};
          mesh.plan.mesh = mesh.plan.mesh.with_experts(shape.dp * shape.cp);
          settle_experts(mesh, chosen);
        }
        check(mesh, [&](Rank& rank) { return check_mesh(rank, mesh, chosen); });
      }
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", session.rank(), error.what());
    session.abort(1);
  }
  if (session.rank() == 0)
    fmt::print("{} checks on {} processes, {} failed\n", check.done, p, check.failed);
  return check.failed == 0 ? 0 : 1;
}
