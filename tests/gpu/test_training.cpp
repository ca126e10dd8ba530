#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "core/device/host_copy.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/pipeline/multi_stage_schedules.h"
#include "tests/support/context_checks.h"
#include "tests/support/copies_checks.h"
#include "tests/support/expert_checks.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/portion.h"
#include "tests/support/ranks.h"
#include "tests/support/tensor_checks.h"

// Tests training on all GPUs of the library that $LOCKSTEP_GPU_LIBRARY names. If there are more
// ranks than GPUs, ranks share GPUs and run on the modelled clock, as with --clock auto.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

Options on_gpus(Options options, bool wall = false) {
  options.platform.device = "cuda";
  options.platform.comm_is_open = true;
  if (wall) options.plan.modelled.reset();
  return options;
}

/// A small model, because the emulator takes a thousand times as long as a GPU.
Options tiny(Options options, int layers) {
  set_model(options.plan, &GptConfig::layers, layers);
  set_model(options.plan, &GptConfig::hidden, 12);
  set_model(options.plan, &GptConfig::sequence, 7);
  options.plan.batch.sequences = options.plan.batch.microbatches;
  options.run.steps = portion_of(4, 2);
  return options;
}

struct Size {
  int ranks = 1;
  DType dtype = DType::f32;
};
const std::vector<Size> sizes{{2, DType::f32}, {3, DType::f32}, {2, DType::bf16}};

/// CUDA reads this setting when a test first uses it.
const bool at_start = (load_kernels_at_start(), true);

bool enough_for(int ranks) {
  return test::gpus() >= ranks;
}

/// Integers, so that sums are exact. They differ between ranks.
std::vector<float> wholes(std::int64_t n, int rank, unsigned seed) {
  std::mt19937 random{seed * 101 + static_cast<unsigned>(rank)};
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = static_cast<float>(random() % 64);
  return values;
}

/// Elements of any type in a rank's device memory.
struct Data {
  Data(Rank& rank, const std::vector<float>& values, DType dtype)
      : device(rank.device),
        tensor(rank.memory, {static_cast<std::int64_t>(values.size())},
               MemoryCategory::communication, dtype) {
    from_host(device, values, tensor);
  }
  std::vector<float> values() const { return to_host(device, tensor); }
  Device device;
  Tensor tensor;
};

/// Runs all operations of a group, with sizes not divisible by its members, while the compute
/// stream has work before and after. Returns a description of any error.
std::string check_collectives(Rank& rank, std::int64_t n, DType dtype, unsigned seed) {
  Group& group = rank.world;
  const int N = group.size(), r = group.rank();
  std::vector<std::vector<float>> brought;
  std::vector<float> sum(static_cast<std::size_t>(n));
  for (int i = 0; i < N; ++i) {
    brought.push_back(wholes(n, i, seed));
    std::ranges::transform(sum, brought.back(), sum.begin(), std::plus<>{});
  }
  const std::vector<float>& mine = brought[static_cast<std::size_t>(r)];
  std::string wrong;
  const auto expect = [&](const std::string& what, const std::vector<float>& seen,
                          const std::vector<float>& want) {
    if (seen != want)
      wrong += fmt::format("rank {} of {}: {} of {} {}s\n", r, N, what, n, name_of(dtype));
  };
  const auto part = [&](const std::vector<float>& values, int i) {
    Tensor whole{rank.memory, {n}, MemoryCategory::activations};
    const View chunk = group.chunk(whole, i);
    const auto first = (static_cast<float*>(chunk.data) - whole.f32());
    return std::vector<float>(values.begin() + first, values.begin() + first + chunk.elements());
  };

  {  // earlier launches affect the sum, and later launches see the sum
    Data data{rank, mine, dtype};
    const auto twice = [&] {
      rank.compute.launch({.name = "twice"}, {},
                          [&](const Kernels& k, Queue q) { k.scale(q, data.tensor, 2); });
    };
    twice();
    group.all_reduce(data.tensor).wait();
    twice();
    std::vector<float> want = sum;
    for (float& value : want) value *= 4;
    expect("all_reduce", data.values(), want);
  }
  {
    Data data{rank, mine, dtype};
    group.reduce_scatter(data.tensor).wait();
    expect("reduce_scatter", part(data.values(), r), part(sum, r));
  }
  {
    std::vector<float> own(static_cast<std::size_t>(n), -1), want(own);
    Tensor places{rank.memory, {n}, MemoryCategory::activations};
    for (int i = 0; i < N; ++i) {
      const auto first = static_cast<float*>(group.chunk(places, i).data) - places.f32();
      const auto values = part(brought[static_cast<std::size_t>(i)], i);
      if (i == r) std::ranges::copy(values, own.begin() + first);
      std::ranges::copy(values, want.begin() + first);
    }
    Data data{rank, own, dtype};
    group.all_gather(data.tensor).wait();
    expect("all_gather", data.values(), want);
    Data gathered{rank, own, dtype};
    group.gather(gathered.tensor, N - 1).wait();
    if (r == N - 1) expect("gather", gathered.values(), want);
  }
  {
    Data data{rank, mine, dtype};
    group.broadcast(data.tensor, N / 2).wait();
    expect("broadcast", data.values(), brought[static_cast<std::size_t>(N / 2)]);
  }
  {  // i sends j (i + j) % 3 elements
    std::vector<std::int64_t> counts;
    for (int i = 0; i < N; ++i) counts.push_back((r + i) % 3);
    std::vector<float> out, want;
    for (int i = 0; i < N; ++i)
      for (int k = 0; k < (r + i) % 3; ++k) {
        out.push_back(static_cast<float>(16 * r + i));
        want.push_back(static_cast<float>(16 * i + r));
      }
    Data from{rank, out, dtype}, into{rank, std::vector<float>(out.size(), -1), dtype};
    group.all_to_all_v(from.tensor, counts, into.tensor, counts).wait();
    expect("all_to_all_v", into.values(), want);
  }
  if (N > 1) {  // a ring: every rank sends first
    Data out{rank, mine, dtype}, in{rank, std::vector<float>(mine.size(), -1), dtype};
    Work sent = group.send(out.tensor, (r + 1) % N);
    Work received = group.receive(in.tensor, (r + N - 1) % N);
    received.wait();
    sent.wait();
    expect("send and receive", in.values(), brought[static_cast<std::size_t>((r + N - 1) % N)]);
  }
  group.barrier().wait();
  return wrong;
}

}  // namespace

TEST_CASE("CUDA uses more hardware queues, and with several ranks loads kernels at the start") {
  gpu_library();
  const auto setting = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string{value != nullptr ? value : ""};
  };
  const std::string before = setting("CUDA_MODULE_LOADING");
  ::unsetenv("CUDA_MODULE_LOADING");
  plan_threads(on_gpus(tiny(small_copies(1), 2)));
  CHECK(setting("CUDA_MODULE_LOADING") == "");
  plan_threads(on_gpus(tiny(small_copies(2), 2)));
  CHECK(setting("CUDA_MODULE_LOADING") == "EAGER");
  ::setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  plan_threads(on_gpus(tiny(small_copies(2), 2)));
  CHECK(setting("CUDA_MODULE_LOADING") == "LAZY");
  ::setenv("CUDA_MODULE_LOADING", before.c_str(), 1);
  CHECK(setting("CUDA_DEVICE_MAX_CONNECTIONS") == "32");
}

TEST_CASE("collectives and messages between GPUs: by device copies, by NCCL, by rings over NCCL") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::int64_t n : {1, 7, 64, 1003}) {
        CAPTURE(ranks);
        CAPTURE(n);
        const auto check = [&](Rank& rank) {
          return check_collectives(rank, n, dtype, static_cast<unsigned>(n));
        };
        Options options = on_gpus(modelled_options(ranks));
        CHECK(on_all(options, check) == "");  // the modelled clock implies copies
        if (!enough_for(ranks)) continue;
        options.plan.modelled.reset();
        CHECK(on_all(options, check) == "");
        options.platform.comm_is_open = false;
        CHECK(on_all(options, check) == "");
      }
    }
  }
}

// Mapping memory may wait for NCCL's kernels (Gpu::reserve). In that case, the emulator does wait.
TEST_CASE("a rank allocates memory while another's receive waits for it") {
  if (!enough_for(2)) return;
  Options options = on_gpus(tiny(small_copies(2), 2), /*wall=*/true);
  options.platform.patience_seconds = 20;
  CHECK(on_all(options, [](Rank& rank) -> std::string {
          Tensor small{rank.memory, {8}, MemoryCategory::activations};
          for (int i = 0; i < 2; ++i) {  // the first message makes the connection
            if (i == 1 && rank.id == 1) {
              std::this_thread::sleep_for(std::chrono::milliseconds{100});
              const Tensor large{rank.memory, {16 << 20}, MemoryCategory::activations};
            }
            (rank.id == 0 ? rank.world.receive(small, 1) : rank.world.send(small, 0)).wait();
            rank.compute.synchronise();
          }
          return "";
        }) == "");
}

TEST_CASE("GPipe and 1F1B on GPUs have the bits of one GPU") {
  for (const auto& [p, m] : portion<std::pair<int, int>>({{2, 3}, {4, 4}, {1, 2}}, 1))
    for (const bool tied : {false, true})
      for (const bool wall : {false, true}) {
        if (wall && !enough_for(p)) continue;
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(wall);
        Options options = on_gpus(tiny(small_training(p, m, tied, tied ? 1.0F : 0.0F), 4), wall);
        const Reference reference = train_on_one_device(options, small_corpus(options.plan.model()),
                                                        {{"", 0, options.run.steps, m}});
        for (const Generator& generate : {Generator{gpipe}, Generator{one_f_one_b}})
          CHECK(on_all(options, [&](Rank& rank) {
                  return check_parity(rank, options, generate, reference, {}, 1.0);
                }) == "");
      }
}

TEST_CASE("several stages per rank on GPUs: the bits of one GPU, and the peaks derived") {
  constexpr int m = 3;
  for (const auto& placement :
       portion<std::vector<int>>({v_placement(2), loop_placement(3, 4), loop_placement(2, 4)}, 2)) {
    const Schedule schedule = chunk_by_chunk(placement, m, true);
    const Options options =
        on_gpus(tiny(small_training(schedule.ranks, m, true, 1.0F), schedule.stages));
    const Reference reference = train_on_one_device(options, small_corpus(options.plan.model()),
                                                    {{"", 0, options.run.steps, m}});
    CHECK(on_all(options, [&](Rank& rank) {
            return check_parity(
                rank, options, [&](int, int) { return schedule; }, reference, {}, 1.0);
          }) == "");
    CHECK(on_all(options, [&](Rank& rank) { return check_memory(rank, options, schedule); }) == "");
  }
}

TEST_CASE("a pipeline's memory peaks and bytes on a GPU match the derived ones") {
  for (const int p : {2, 4}) {
    const Options options = on_gpus(tiny(small_training(p, 4), 4));
    CHECK(on_all(options, [&](Rank& rank) {
            return check_memory(rank, options, one_f_one_b(p, 4), std::min(4, p - rank.id));
          }) == "");
  }
}

TEST_CASE("a modelled timeline is the same on a GPU, to the picosecond") {
  const Options options = on_gpus(tiny(small_training(4, 4), 4));
  CHECK(on_all(options, [&](Rank& rank) {
          return check_timeline(rank, options.plan.model(), one_f_one_b(4, 4), 1);
        }) == "");
}

TEST_CASE("data parallelism and ZeRO 1, 2, 3 on GPUs have the bits of one GPU adding in order") {
  const std::vector<std::pair<int, DType>> cases{
      {3, DType::f32}, {2, DType::bf16}, {2, DType::f32}, {2, DType::f16}};
  for (const auto& [ranks, dtype] : portion(cases, 2)) {
    Options options = on_gpus(tiny(small_copies(ranks), 2));
    options.plan.batch.sequences = 2 * ranks;
    set_model(options.plan, &GptConfig::dtype, dtype);
    options.run.steps = portion_of(options.run.steps, 2);
    CHECK(on_all(options, [&](Rank& rank) { return check_copies(rank, options, 1 << 12, 1.0); }) ==
          "");
  }
}

TEST_CASE("tensor and sequence parallelism on GPUs: near one GPU, bytes and memory as derived") {
  for (const auto& [sharing, size] : portion(combinations(all_sharings, sizes), 3)) {
    Options options = on_gpus(small_tensors(size.ranks, sharing));
    set_model(options.plan,
              {.layers = 2, .hidden = 12, .heads = 6, .sequence = 6, .vocabulary = 257});
    set_model(options.plan, &GptConfig::dtype, size.dtype);
    set_model(options.plan, &GptConfig::tied, size.ranks == 3);
    options.plan.batch.sequences = 2;
    options.run.steps = portion_of(4, 2);
    CHECK(on_all(options, [&, same = sharing](Rank& rank) {
            return check_tensors(rank, options, same, nullptr, nullptr, 1.0);
          }) == "");
  }
}

TEST_CASE("context parallelism on GPUs: near one GPU, bytes and memory as derived") {
  for (const auto& [sequences, size] : portion(combinations(all_sequences, sizes), 4)) {
    Options options = on_gpus(small_sequences(size.ranks, sequences));
    set_model(options.plan,
              {.layers = 2, .hidden = 12, .heads = 6, .sequence = 12, .vocabulary = 257});
    set_model(options.plan, &GptConfig::dtype, size.dtype);
    set_model(options.plan, &GptConfig::tied, size.ranks == 3);
    options.plan.batch.sequences = 2;
    options.run.steps = portion_of(4, 2);
    CHECK(on_all(options, [&, same = sequences](Rank& rank) {
            return check_sequences(rank, options, same, nullptr, nullptr, 1.0);
          }) == "");
  }
}

TEST_CASE("expert parallelism on GPUs: near one GPU, rows, bytes and memory as derived") {
  for (const auto& [size, tp] : portion(combinations(sizes, std::vector{1, 2}), 2)) {
    const int dp = tp == 1 ? size.ranks : 1;
    ExpertRun run{dp, dp, {.experts = 6, .top_k = 2, .capacity_factor = 1.25}, tp};
    run.options = on_gpus(run.options);
    set_model(run.options.plan,
              {.layers = 2, .hidden = 12, .heads = 2, .sequence = 6, .vocabulary = 257});
    set_model(run.options.plan, &GptConfig::dtype, size.dtype);
    run.options.plan.batch.sequences = 6;
    run.options.run.steps = 4;  // after two, the loss is not yet lower
    run.settle();
    CHECK(on_all(run.options, [&](Rank& rank) {
            return check_experts(rank, run, nullptr, nullptr, 1.0);
          }) == "");
  }
}

TEST_CASE("reads that are asked for later arrive with the next wait, each with its own values") {
  const std::unique_ptr<Gpu> gpu = gpu_library().open(0);
  const Clock clock = Clock::wall();
  Recorder silent{false};
  Stream compute{clock, silent, 0, *gpu};
  Memory memory{*gpu, compute.queue()};
  // 40 reads of 4,000 bytes exceed the 64 KiB that can be in flight.
  for (const int reads : {1, 2, 16, 40}) {
    Tensor tensor{memory, {1000}, MemoryCategory::activations};
    std::vector<LaterRead> later;
    for (int i = 0; i < reads; ++i) {
      const auto number = static_cast<float>(i);
      compute.launch(Span{.name = "fill"}, {},
                     [&](const Kernels& k, Queue q) { k.fill(q, Outs{tensor.view()}, number); });
      later.push_back(compute.read_later(tensor));
    }
    // Overwrites the memory that the reads have read, and waits once for all of them.
    std::vector<float> last(1000);
    compute.launch(Span{.name = "fill"}, {},
                   [&](const Kernels& k, Queue q) { k.fill(q, Outs{tensor.view()}, -1.0F); });
    compute.read(tensor, last.data());
    CHECK(last == std::vector<float>(1000, -1.0F));
    for (int i = 0; i < reads; ++i)
      CHECK(later[static_cast<std::size_t>(i)].get<float>() ==
            std::vector<float>(1000, static_cast<float>(i)));
  }
  // A read whose result is never used is no error, nor is a read that is too large to be delayed.
  Tensor large{memory, {20'000}, MemoryCategory::activations};
  compute.launch(Span{.name = "fill"}, {},
                 [&](const Kernels& k, Queue q) { k.fill(q, Outs{large.view()}, 3.0F); });
  CHECK(compute.read_later(large).get<float>() == std::vector<float>(20'000, 3.0F));
  compute.read_later(large.view().columns(0, 10));
}

TEST_CASE("20 steps on a GPU and on the CPU give nearly the same result") {
  Options options = small_copies(1);
  options.run.steps = 20;
  options.plan.batch.sequences = 4;
  const Corpus corpus = copies_corpus(options.plan.model());
  const std::vector<Phase> phases{{"", 0, options.run.steps, 1}};
  const Reference cpu = train_on_one_device(options, corpus, phases);
  const Reference gpu = train_on_one_device(on_gpus(options), corpus, phases);
  const Parity parity = compare(gpu.losses, gpu.parameters, cpu);
  CHECK(parity.max_relative_loss < 1e-4);
  CHECK(parity.max_relative_parameter < 1e-4);
}

TEST_CASE("a rank that dies while communicators are created ends the others, and is named") {
  if (!enough_for(3)) return;
  for (const int victim : {0, 2}) {
    const Options options = on_gpus(tiny(small_copies(3), 2), /*wall=*/true);
    CHECK(on_threads(options, [&](Rank& rank) {
            const int channels = rank.transport->open_channels(Group::channels_taken);
            if (rank.id == victim) throw std::runtime_error("its own words");
            const Group another{rank.endpoint, {0, 1, 2}, "another", channels};
          }) == fmt::format("rank {}: its own words", victim));
  }
}

TEST_CASE("a GPU's spans are disjoint or nested, and follow their launch") {
  for (const int ranks : {1, 2, test::gpus() + 1}) {  // in the last run, ranks share GPUs
    Options options = on_gpus(tiny(small_training(ranks, 4), ranks), /*wall=*/true);
    options.output.kernels = true;
    ThreadRun run{options};
    CHECK(run([&](Rank& rank) {
            const Corpus corpus = small_corpus(options.plan.model());
            Gpt stage{options.plan.model(), rank.device,
                      StageLayers::of(options.plan.model(), rank.id, rank.count),
                      options.plan.seed};
            PipelineExecutor pipeline{rank.endpoint,
                                      rank.world,
                                      one_f_one_b(rank.count, 4),
                                      {&stage},
                                      stage_boundary(options.plan.model(), 2)};
            for (int step = 0; step < 2; ++step) {
              Batch batch = corpus.batch(1, step, {.microbatches = 4, .size = 2});
              move_to(rank.device, batch);
              pipeline.step(batch);
              rank.compute.synchronise();
            }
            rank.compute.timeline()->drain();
            const GpuTimeline& timeline = *rank.compute.timeline();
            CHECK(timeline.least_delay() >= -timeline.uncertainty());
          }) == "");
    for (const auto& rank : run.ranks) {
      std::map<int, std::vector<TraceEvent>> lanes;
      int actions = 0, kernels = 0, messages = 0;
      for (const TraceEvent& event : rank->trace.drain()) {
        if (event.kind != TraceEvent::Kind::span) continue;
        lanes[event.lane].push_back(event);
        actions += event.span.stage >= 0 && event.span.category != Category::communication ? 1 : 0;
        kernels += event.span.category == Category::kernel ? 1 : 0;
        messages += event.span.category == Category::communication ? 1 : 0;
      }
      const bool end = rank->id == 0 || rank->id == ranks - 1;
      CHECK(actions >= 2 * 2 * 4);
      CHECK(kernels > 100);
      CHECK(messages == (ranks == 1 ? 0 : (end ? 2 : 4) * 2 * 4));
      for (auto& [lane, spans] : lanes) {
        std::ranges::stable_sort(spans, [](const TraceEvent& a, const TraceEvent& b) {
          return std::tuple{a.start, -a.end} < std::tuple{b.start, -b.end};
        });
        std::vector<Picoseconds> open;  // ends of the enclosing spans
        for (const TraceEvent& span : spans) {
          while (!open.empty() && open.back() <= span.start) open.pop_back();
          CHECK_MESSAGE((open.empty() || span.end <= open.back()), span.span.name, " on lane ",
                        lane);
          open.push_back(span.end);
        }
      }
    }
  }
}
