// Measures this machine and writes the result as a cluster file for the modelled clock: `./lockstep
// measure`.
//
// Messages are measured between two ranks. Compute and memory are measured with every core busy, as
// in a real run. The cluster file assumes that each rank has a core to itself, whatever the number
// of ranks.

#include <fmt/format.h>

#include <barrier>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/program.h"
#include "core/comm/mpi/environment.h"
#include "core/model/ops.h"
#include "core/run/files/run_folder.h"
#include "core/run/launch/launch.h"
#include "core/run/options/given.h"
#include "core/time/fit.h"
#include "tests/bench/timing.h"
#include "tests/support/ranks.h"
#ifdef LOCKSTEP_HAS_MPI
#include "core/comm/mpi/mpi_transport.h"
#endif

using namespace lockstep;
using namespace lockstep::bench;

namespace {

struct Flags {
  bool mpi = false;
  int ranks = 64;
  std::string output = LOCKSTEP_SOURCE_DIR "/build/cluster.json";
};

Flags parse(int argc, char** argv) {
  Flags flags;
  std::set<std::string> seen;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    std::string value;
    if (const auto equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.erase(equals);
    } else if (i + 1 < argc) {
      value = argv[++i];
    }
    if (flag != "--launch" && flag != "--ranks" && flag != "--output")
      throw UsageError(
          fmt::format("{}: no such flag; there are --launch, --ranks, --output", flag));
    if (value.empty()) throw UsageError(flag + ": wants a value");
    if (!seen.insert(flag).second)
      throw UsageError(flag + ": was given more than once; give it once");
    if (flag == "--launch") {
      if (value != "threads" && value != "mpi")
        throw UsageError(fmt::format("--launch {}: wants one of threads, mpi", value));
      flags.mpi = value == "mpi";
    } else if (flag == "--ranks") {
      const auto ranks = whole_number(value, 2);
      if (!ranks || *ranks > 1 << 15)
        throw UsageError(
            fmt::format("--ranks {}: wants a whole number of at least 2, at most 32768", value));
      flags.ranks = *ranks;
    } else {
      flags.output = value;
    }
  }
  const auto folder = std::filesystem::absolute(flags.output).parent_path();
  if (std::filesystem::is_directory(flags.output))
    throw UsageError(
        fmt::format("--output {}: is a folder; give the name of a file", flags.output));
  if (!std::filesystem::is_directory(folder) || !can_write_in(folder))
    throw UsageError(
        fmt::format("--output {}: there is no folder {} that can be written to; name "
                    "another",
                    flags.output, folder.string()));
  return flags;
}

/// Measures half a round trip between ranks 0 and 1 for each size. Both ranks call this function;
/// rank 0 gets the times.
std::vector<MessageTime> measure_messages(Rank& rank) {
  constexpr int samples = 41;
  std::vector<MessageTime> times;
  Tensor all{rank.memory, {1 << 22}, MemoryCategory::communication};
  rank.device.compute.kernels().fill({}, all, 1.0F);
  for (const std::int64_t bytes : {0, 4, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18,
                                   1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24}) {
    const View message = bytes > 0 ? View{all.f32(), {bytes / 4}} : View{};
    const int trips = bytes <= 1 << 16 ? 16 : bytes <= 1 << 20 ? 4 : 1;
    std::vector<double> taken;
    for (int sample = -2; sample < samples; ++sample) {
      const double seconds = seconds_of([&] {
        for (int i = 0; i < trips; ++i) {
          if (rank.id == 0) rank.world.send(message, 1).wait();
          rank.world.receive(message, 1 - rank.id).wait();
          if (rank.id == 1) rank.world.send(message, 0).wait();
        }
      });
      if (sample >= 0) taken.push_back(seconds / (2 * trips));
    }
    times.push_back({bytes, median(taken)});
  }
  return times;
}

/// Calls work(core) repeatedly on one thread per core; all threads start each call together.
/// Returns the median time of one call.
template <class Make>
double on_every_core(Make make, int samples = 15) {
  const int cores = available_cores();
  std::vector<std::vector<double>> taken(static_cast<std::size_t>(cores));
  std::vector<std::thread> threads;
  std::barrier<> together{cores};
  for (std::vector<double>& mine : taken)
    threads.emplace_back([&] {
      auto work = make();
      work();
      for (int sample = 0; sample < samples; ++sample) {
        together.arrive_and_wait();
        mine.push_back(seconds_of(work));
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<double> all;
  for (const std::vector<double>& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
  return median(all);
}

std::vector<float> ones(std::int64_t elements) {
  return std::vector<float>(static_cast<std::size_t>(elements), 1.0F);
}

/// Measures the FLOP/s of one core in the product (m, k) by (k, n).
double measure_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  const double flops = 2.0 * static_cast<double>(m * n * k);
  // A sample takes about a millisecond or more, however small the product is.
  const int times = std::max(1, static_cast<int>(5e7 / flops));
  const double seconds = on_every_core(
      [=] {
        return [=, x = ones(m * k), w = ones(k * n), y = ones(m * n)]() mutable {
          for (int i = 0; i < times; ++i)
            cpu_kernels().linear_forward({}, {x.data(), {m, k}}, {w.data(), {k, n}}, {},
                                         {y.data(), {m, n}}, WeightLayout::in_out);
        };
      },
      /*samples=*/7);
  return times * flops / seconds;
}

/// Measures the FLOP/s of one core in causal attention over s positions, with one head.
double measure_attention(std::int64_t s, std::int64_t head) {
  const double flops = cost::attention_forward({1, s, head}, 1).flops;
  const int times = std::max(1, static_cast<int>(1e7 / flops));
  const double seconds = on_every_core(
      [=] {
        return [=, x = ones(s * head), y = ones(s * head), lse = ones(s)]() mutable {
          const View all{x.data(), {1, s, head}};
          for (int i = 0; i < times; ++i)
            cpu_kernels().attention_forward({}, all, all, all, 1, {y.data(), {1, s, head}},
                                            {lse.data(), {1, 1, s}}, {});
        };
      },
      /*samples=*/7);
  return times * flops / seconds;
}

/// Measures the bytes per second that one core reads and writes in the kernels between products, on
/// the activations of a small model, which may fit in its caches.
double measure_activations() {
  constexpr std::int64_t rows = 512, h = 256, n = rows * h;
  const double seconds = on_every_core([] {
    return [a = ones(n), b = ones(n), y = ones(n), gain = ones(h), bias = ones(h),
            mean = ones(rows), rstd = ones(rows)]() mutable {
      const View x{a.data(), {rows, h}}, other{b.data(), {rows, h}}, out{y.data(), {rows, h}};
      cpu_kernels().layernorm_forward({}, x, {gain.data(), {h}}, {bias.data(), {h}}, out,
                                      {mean.data(), {rows}}, {rstd.data(), {rows}});
      cpu_kernels().gelu_forward({}, x, out);
      cpu_kernels().add({}, x, other, out);
    };
  });
  return 7.0 * sizeof(float) * n / seconds;  // 2, 2 and 3 views of activations
}

/// Measures a core's rates by kind and shape of kernel. `bandwidth` is the memory's.
Rates measure_rates(double bandwidth) {
  const std::vector<std::int64_t> sizes{16, 64, 256, 1024};
  Rates rates{.products = {.m = sizes, .n = sizes, .k = sizes},
              .attention = {.m = sizes, .n = {1024}, .k = {16, 64, 128}}};
  for (const std::int64_t m : sizes)
    for (const std::int64_t n : sizes)
      for (const std::int64_t k : sizes) rates.products.flops.push_back(measure_product(m, n, k));
  for (const std::int64_t s : sizes)  // as many keys as queries
    for (const std::int64_t head : rates.attention.k)
      rates.attention.flops.push_back(measure_attention(s, head));
  rates.memory_share = measure_activations() / bandwidth;
  return rates;
}

/// Measures the bytes per second that one core reads and writes when adding arrays larger than its
/// cache.
double measure_memory() {
  constexpr std::int64_t n = 8 << 20;
  const double seconds = on_every_core([] {
    return [a = ones(n), b = ones(n), y = ones(n)]() mutable {
      cpu_kernels().add({}, {a.data(), {n}}, {b.data(), {n}}, {y.data(), {n}});
    };
  });
  return 3.0 * sizeof(float) * n / seconds;
}

/// Measures how many seconds it takes to launch a nearly empty kernel in the way that layers launch
/// kernels.
double measure_launch(Rank& rank) {
  constexpr int launches = 1000;
  float x = 0;
  std::vector<double> taken;
  for (int sample = 0; sample < 41; ++sample)
    taken.push_back(seconds_of([&] {
                      for (int i = 0; i < launches; ++i)
                        rank.compute.launch({.name = "fill"}, {}, [&](const Kernels& k, Queue q) {
                          k.fill(q, View{&x, {1}}, 1.0F);
                        });
                    }) /
                    launches);
  return median(taken);
}

std::string size_text(std::int64_t bytes) {
  if (bytes >= 1 << 20) return fmt::format("{} MB", bytes >> 20);
  if (bytes >= 1 << 10) return fmt::format("{} KB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

/// The largest relative error that a segment may have at any measured size.
constexpr double bound = 0.1;

void print_fit(const Cluster& cluster, const std::vector<MessageTime>& times, const Flags& flags) {
  const Link& link = cluster.within;
  fmt::print("{:>8}  {:>12}  {:>12}  {:>7}\n", "message", "measured", "α + β·bytes", "error");
  for (const auto& [bytes, seconds] : times) {
    const double fitted = time_of_message(link, bytes);
    fmt::print("{:>8}  {:>9.2f} µs  {:>9.2f} µs  {:>+6.1f} %\n", size_text(bytes), 1e6 * seconds,
               1e6 * fitted, 100 * (fitted / seconds - 1));
  }
  fmt::print("\nbetween two ranks ({}):\n",
             flags.mpi ? "processes under mpirun" : "threads of one process");
  std::vector<Link::Segment> segments{link.at(0)};
  segments.insert(segments.end(), link.segments.begin(), link.segments.end());
  for (const auto& [from_bytes, latency, bandwidth] : segments)
    fmt::print("  from {:>6}  α {:>8.2f} µs, 1/β {:>7.3g} GB/s\n", size_text(from_bytes),
               1e6 * latency, 1e-9 * bandwidth);
  fmt::print(
      "  largest error at a measured size {:.1f} %; with one α and β for all sizes {:.1f} %\n",
      100 * largest_error(link, times), 100 * largest_error(fit_link(times), times));
  fmt::print(
      "a rank: {:.1f} GFLOP/s, memory {:.1f} GB/s, {:.2f} µs a kernel ({} cores, all busy)\n",
      1e-9 * cluster.flops, 1e-9 * cluster.memory_bandwidth, 1e6 * cluster.launch_seconds,
      available_cores());
  const Rates& rates = *cluster.rates;
  const auto range = [](const RateTable& table) {
    const auto [slowest, fastest] = std::ranges::minmax(table.flops);
    return fmt::format("{:.1f} to {:.1f} GFLOP/s", 1e-9 * slowest, 1e-9 * fastest);
  };
  fmt::print("  {} products {}, attention {}, activations at {:.0f} % of the memory's rate\n",
             rates.products.flops.size(), range(rates.products), range(rates.attention),
             100 * rates.memory_share);
}

void write(const Cluster& cluster, const std::string& output) {
  std::ofstream file{output};
  file << cluster.json() << "\n";
  if (!file.flush()) throw RunError(fmt::format("--output {}: can't be written", output));
  const auto near = std::filesystem::proximate(output);
  const std::string path = near.native().starts_with("..") ? output : near.string();
  fmt::print("\nWritten to {}. To use it:\n  ./lockstep lesson 9 --clock modelled --cluster {}\n",
             path, path);
}

/// Called on each of the two ranks. Rank 1 sleeps at the barrier while rank 0 computes.
void measure(Rank& rank, const Flags& flags) {
  const std::vector<MessageTime> times = measure_messages(rank);
  if (rank.id == 0) {
    Cluster cluster{.name = flags.mpi ? "measured, mpi" : "measured, threads",
                    .nodes = 1,
                    .ranks_per_node = flags.ranks,
                    .flops = measure_product(1024, 1024, 1024),
                    .memory_bandwidth = measure_memory(),
                    .launch_seconds = measure_launch(rank),
                    .within = fit_segments(times, bound)};
    cluster.between = cluster.within;  // the measured machine is a single node
    cluster.rates = measure_rates(cluster.memory_bandwidth);
    print_fit(cluster, times, flags);
    write(cluster, flags.output);
  }
  rank.world.barrier().wait();
}

int run(int argc, char** argv) {
  const Flags flags = parse(argc, argv);
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::dp, 2));
  options.output.trace = "none";
  if (!flags.mpi) {
    const std::string failure =
        testing::on_threads(options, [&](Rank& rank) { measure(rank, flags); });
    if (!failure.empty()) throw RunError(failure);
    return 0;
  }
#ifdef LOCKSTEP_HAS_MPI
  if (!under_mpi()) {
    find_mpirun();
    return run_under_mpirun(2, argc, argv);
  }
  const MpiSession session{/*native=*/false};
  try {
    Rank rank{options, session.endpoint()};
    measure(rank, flags);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", session.rank(), error.what());
    session.abort(1);
  }
#else
  throw UsageError(
      "--launch mpi: built without MPI; install libopenmpi-dev and openmpi-bin and build again");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  return run_program([&] { return run(argc, argv); });
}
