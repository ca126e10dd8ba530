// Checks the sums of NCCL's collectives with one rank per GPU, and measures their bus bandwidth:
// the algorithm's bandwidth times a factor that makes it comparable with the bandwidth of a link
// for any number of ranks (nccl-tests, PERFORMANCE.md). Each size is the size of the whole array.
// Each output line is one figure: name, value, unit and detail, separated by tabs.
//
//   bench_nccl [--ranks N] [--largest BYTES] [--samples N]
//   bench_nccl --processes N [--gpu N]
//
// With --processes, several processes share one GPU, and NCCL treats each as a separate host. This
// mode serves only to test that the program works.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "core/base/error.h"
#include "core/comm/transport/gpu_communicator.h"
#include "tests/gpu/bench/timing.h"

using namespace lockstep;

namespace {

struct Collective {
  const char* name;
  /// Bus bandwidth divided by algorithm bandwidth, for n ranks.
  double (*factor)(double n);
  void (*run)(GpuCommunicator&, Queue, View data, View own);
};

constexpr Collective collectives[] = {
    {"all_reduce", [](double n) { return 2 * (n - 1) / n; },
     [](GpuCommunicator& all, Queue queue, View data, View) { all.all_reduce(queue, data); }},
    {"reduce_scatter", [](double n) { return (n - 1) / n; },
     [](GpuCommunicator& all, Queue queue, View data, View own) {
       all.reduce_scatter(queue, data, own);
     }},
    {"all_gather", [](double n) { return (n - 1) / n; },
     [](GpuCommunicator& all, Queue queue, View data, View) { all.all_gather(queue, data); }},
    {"broadcast", [](double) { return 1.0; },
     [](GpuCommunicator& all, Queue queue, View data, View) { all.broadcast(queue, data, 0); }},
    // Sends half the array to the next rank and receives half from the previous one.
    {"send and receive", [](double) { return 0.5; },
     [](GpuCommunicator& all, Queue queue, View data, View) {
       const std::int64_t half = data.elements() / 2;
       const View mine{data.f32(), Shape{half}}, theirs{data.f32() + half, Shape{half}};
       all.begin_group();
       all.send(queue, mine, (all.rank() + 1) % all.size());
       all.receive(queue, theirs, (all.rank() + all.size() - 1) % all.size());
       all.end_group();
     }},
};

/// Throws RunError if the ranks' sum is wrong: rank r contributes r + 1 to every element.
void check_sums(Bench& bench, GpuCommunicator& all) {
  constexpr std::int64_t count = 1'000'003;
  const View data = bench.random({count}, DType::f32);
  bench.kernels().fill(bench.queue(), data, static_cast<float>(all.rank() + 1));
  all.all_reduce(bench.queue(), data);
  float* seen = static_cast<float*>(bench.gpu().allocate_pinned(data.bytes()));
  bench.gpu().copy(bench.queue(), seen, data.data, data.bytes());
  bench.finish();
  const auto sum = static_cast<float>(all.size() * (all.size() + 1) / 2);
  const auto wrong = std::find_if(seen, seen + count, [&](float each) { return each != sum; });
  const std::string what =
      wrong == seen + count
          ? ""
          : fmt::format("all_reduce gave {} and not {} in element {}", *wrong, sum, wrong - seen);
  bench.gpu().release_pinned(seen);
  bench.release_all();
  if (!what.empty()) throw RunError(what);
}

/// Describes the ranks in a figure's name. NCCL_COMM_BLOCKING=1 makes communicators blocking, which
/// Lockstep's otherwise are not.
std::string name_of_ranks(int ranks, const char* what) {
  const char* const blocking = std::getenv("NCCL_COMM_BLOCKING");
  return fmt::format("{} {}{}", ranks, what,
                     blocking != nullptr && blocking == std::string_view{"1"} ? ", blocking" : "");
}

/// Measures one rank. `slowest` takes this rank's seconds and returns the slowest rank's seconds.
void measure(Gpu& gpu, GpuCommunicator& all, std::int64_t largest, int samples,
             const std::string& where, const std::function<double(double)>& slowest) {
  Bench bench{gpu};
  check_sums(bench, all);
  for (const Collective& each : collectives)
    for (std::int64_t bytes = largest; bytes >= 1 << 12; bytes >>= 8) {
      const std::int64_t chunk = bytes / 4 / all.size();
      const View data = bench.random({chunk * all.size()}, DType::f32);
      const View own{data.f32() + all.rank() * chunk, Shape{chunk}};
      // The number of calls is fixed, so that it is the same on all ranks.
      const double seconds = slowest(bench.seconds(
          samples, [&](int) { each.run(all, bench.queue(), data, own); }, 8));
      if (all.rank() == 0)
        print({fmt::format("{}, {} KiB, {}", each.name, bytes >> 10, where),
               static_cast<double>(data.bytes()) / seconds * each.factor(all.size()) / 1e9,
               "GB/s bus", fmt::format("{:.1f} us", seconds * 1e6)});
      bench.release_all();
    }
}

void on_gpus(int ranks, std::int64_t largest, int samples) {
  GpuLibrary& library = gpu_library();
  const int gpus = static_cast<int>(library.gpus().size());
  if (ranks == 0) ranks = gpus;
  if (ranks > gpus || ranks < 2)
    throw UsageError(
        fmt::format("{} ranks want as many GPUs, at least 2, and here are {}", ranks, gpus));
  const auto id = library.open(0)->make_communicator_id();
  std::vector<double> seconds(static_cast<std::size_t>(ranks));
  std::barrier together{ranks};
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto gpu = library.open(rank);
        const auto all = gpu->join(id, ranks, rank, nullptr);
        measure(*gpu, *all, largest, samples, name_of_ranks(ranks, "GPUs"), [&](double mine) {
          seconds[static_cast<std::size_t>(rank)] = mine;
          together.arrive_and_wait();
          const double most = *std::max_element(seconds.begin(), seconds.end());
          together.arrive_and_wait();
          return most;
        });
      } catch (const std::exception& error) {
        // The other ranks would wait for this one forever, in NCCL or at the barrier.
        fmt::print(stderr, "bench_nccl: rank {}: {}\n", rank, error.what());
        std::_Exit(1);
      }
    });
}

std::string to_hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (std::byte each : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(each));
  return text;
}
std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// Starts this program once per rank and waits for all of them. The ranks find each other through
/// NCCL's id, which this process creates.
int in_processes(int processes, int index, std::int64_t largest) {
  const std::string id = to_hex(gpu_library().open(index)->make_communicator_id());
  std::vector<pid_t> children;
  for (int rank = 0; rank < processes; ++rank) {
    std::vector<std::string> words{"bench_nccl",
                                   "--processes",
                                   std::to_string(processes),
                                   "--gpu",
                                   std::to_string(index),
                                   "--largest",
                                   std::to_string(largest),
                                   "--rank",
                                   std::to_string(rank),
                                   "--id",
                                   id};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string host = fmt::format("lockstep-{}", rank);
    const pid_t child = ::fork();
    if (child < 0) throw RunError("can't start a process");
    if (child == 0) {
      ::setenv("NCCL_HOSTID", host.c_str(), 1);
      ::execv("/proc/self/exe", arguments.data());
      ::_exit(127);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (std::size_t ended = 0; ended < children.size(); ++ended) {
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    worst = 1;
    for (pid_t other : children)  // they are waiting for `child`
      if (other != child) ::kill(other, SIGKILL);
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 0, processes = 0, index = 0, rank = -1, samples = 15;
  std::int64_t largest = 256 << 20;
  std::string id;
  CLI::App app{"NCCL's collectives: bus bandwidth."};
  app.add_option("--ranks", ranks, "threads, each with a GPU of its own [all GPUs]");
  app.add_option("--largest", largest, "bytes of the largest array")
      ->check(CLI::Range(4096, 1 << 30));
  app.add_option("--samples", samples, "of which the median is taken")->check(CLI::PositiveNumber);
  app.add_option("--processes", processes, "processes that share one GPU")
      ->check(CLI::Range(2, 64));
  app.add_option("--gpu", index, "which");
  app.add_option("--rank", rank, "for itself: which of the processes this is")->group("");
  app.add_option("--id", id, "for itself: NCCL's id")->group("");
  CLI11_PARSE(app, argc, argv);
  try {
    if (processes == 0) {
      on_gpus(ranks, largest, samples);
      return 0;
    }
    if (rank < 0) return in_processes(processes, index, largest);
    const auto gpu = gpu_library().open(index);
    const auto all = gpu->join(from_hex(id), processes, rank, nullptr);
    measure(*gpu, *all, largest, 3, name_of_ranks(processes, "processes on one GPU"),
            [](double mine) { return mine; });
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "bench_nccl: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_nccl: {}\n", error.what());
    return 1;
  }
}
