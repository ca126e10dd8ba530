// Measures a training step of GPT-2 on one GPU with the lessons' model and optimizer: the forward
// and backward passes, the gradient norm and AdamW. Each output line is one figure: name, value,
// unit and detail, separated by tabs. The first figures are those of whole steps. Then the trace
// records the kernels of a few more steps, and each kind of kernel gets a figure.
//
//   bench_training [--layers 12 --hidden 768 --heads 12 --sequence 1024 --vocab 50257] [--batch 32]
//                  [--precision bf16|f32] [--steps 20] [--traced 3] [--variant WORDS]
//
// One more line, which is not a figure, is the CRC-32 of the parameters after `steps` steps: two
// runs with the same shapes and steps print the same.
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <random>

#include "core/base/crc32.h"
#include "core/base/error.h"
#include "core/model/adamw.h"
#include "core/model/data.h"
#include "core/model/gpt.h"
#include "tests/gpu/bench/timing.h"

using namespace lockstep;

namespace {

constexpr int warm_up_steps = 3;

double seconds_of(clockid_t clock) {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) throw RunError("clock_gettime failed");
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Returns the seconds since the kernel started this process, to 10 ms. They include the time that
/// the dynamic loader takes.
double process_seconds() {
  std::ifstream file{"/proc/self/stat"};
  // The name of the program, in parentheses, is the second of the fields; the 22nd is the start, in
  // clock ticks since the machine started (man proc_pid_stat).
  file.ignore(std::numeric_limits<std::streamsize>::max(), ')');
  std::string field;
  for (int i = 3; i <= 22; ++i) file >> field;
  return seconds_of(CLOCK_BOOTTIME) -
         std::stod(field) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// Random tokens and random targets from the whole vocabulary.
Batch random_batch(const GptConfig& config, int size) {
  std::mt19937 engine{1};
  std::uniform_int_distribution<std::int32_t> token{0, config.vocabulary - 1};
  Batch batch;
  const auto count = static_cast<std::size_t>(size) * static_cast<std::size_t>(config.sequence);
  for (auto* each : {&batch.tokens, &batch.targets})
    for (std::size_t i = 0; i < count; ++i) each->push_back(token(engine));
  const Shape shape{size, config.sequence};
  batch.microbatches.push_back({.tokens = {batch.tokens.data(), shape, DType::i32},
                                .targets = {batch.targets.data(), shape, DType::i32},
                                .token_weight = 1.0F / static_cast<float>(count),
                                .last = true});
  return batch;
}

/// Returns the FLOPs of a step without recomputation, 72 B L s h² (1 + s/(6h) + V/(12 h L))
/// (Narayanan 2021). Attention is counted in full.
double step_flops(const GptConfig& config, int batch) {
  const double B = batch, L = config.layers, s = config.sequence, h = config.hidden,
               V = config.vocabulary;
  return 72 * B * L * s * h * h * (1 + s / (6 * h) + V / (12 * h * L));
}

/// Trains a model on one GPU, on the wall clock, and traces its kernels on request.
class Training {
 public:
  Training(const GptConfig& config, int size)
      : model_(config, device_, StageLayers::whole(config), 1),
        optimizer_(model_.parameters(), device_),
        batch_(random_batch(config, size)) {
    move_to(device_, batch_);
    run(1);
    start_up_ = process_seconds();
    in_use_ = gpu_->memory_in_use();
    run(warm_up_steps - 1);
  }

  /// From the start of the process to the end of the first step.
  double start_up_seconds() const { return start_up_; }
  /// The GPU's memory in use after the first step, in bytes.
  std::int64_t memory_in_use() const { return in_use_; }

  /// The median, the minimum and the maximum over some steps.
  struct Seconds {
    double median = 0, least = 0, most = 0;
    explicit Seconds(std::vector<double> all) {
      std::ranges::sort(all);
      median = all[all.size() / 2], least = all.front(), most = all.back();
    }
  };
  struct Times {
    Seconds step;  ///< from the start of a step on the GPU to the start of the next
    /// CPU time of the thread that issues the step. While the thread waits for the GPU, it sleeps,
    /// except in the first 0.1 ms of a wait (Stream::wait_for).
    Seconds host;
  };
  Times measure(int steps) {
    const std::vector<Start> starts = run(steps);
    std::vector<double> step, host;
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      step.push_back(gpu_->milliseconds(*starts[i].mark, *starts[i + 1].mark) * 1e-3);
      host.push_back(starts[i + 1].cpu_seconds - starts[i].cpu_seconds);
    }
    return {Seconds{step}, Seconds{host}};
  }

  /// Returns the CRC-32 of all parameters in f32: of the masters, if the parameters are 16-bit.
  std::string checksum() const {
    Crc32 crc;
    for (const Parameter* parameter : model_.parameters()) {
      const std::vector<float> values = parameter->f32_values(device_);
      crc.add(values.data(), values.size() * sizeof(float));
    }
    return crc.text();
  }

  /// The kernels of one kind in one step.
  struct Kind {
    double seconds = 0;
    double calls = 0;
  };
  /// Runs `steps` steps with their kernels in the trace, and returns the mean per step for each
  /// kernel name. Two marks per kernel make these steps slower than the steps that measure()
  /// measures.
  std::map<std::string, Kind> kinds(int steps) {
    compute_.timeline()->drain();
    trace_.drain();
    trace_.set_kernels(true);
    run(steps);
    compute_.timeline()->drain();
    trace_.set_kernels(false);
    std::map<std::string, Kind> kinds;
    for (const TraceEvent& event : trace_.drain()) {
      if (event.kind != TraceEvent::Kind::span || event.span.category != Category::kernel) continue;
      Kind& kind = kinds[event.span.name];
      kind.seconds += lockstep::seconds(event.end - event.start) / steps;
      kind.calls += 1.0 / steps;
    }
    return kinds;
  }

  double loss() const { return loss_; }

 private:
  /// The start of a step on the GPU, and the CPU time of this thread until then.
  struct Start {
    MarkPtr mark;
    double cpu_seconds;
  };
  Start start() { return {gpu_->record(compute_.queue()), seconds_of(CLOCK_THREAD_CPUTIME_ID)}; }

  /// Returns the steps' starts and the end of the last one, once all their marks are passed.
  std::vector<Start> run(int steps) {
    std::vector<Start> starts;
    for (int step = 0; step < steps; ++step) {
      starts.push_back(start());
      model_.zero_gradients();
      loss_ = accumulate_gradients(model_, batch_);
      optimizer_.step();
    }
    starts.push_back(start());
    compute_.synchronise();
    return starts;
  }

  Clock clock_ = Clock::wall();
  Recorder trace_;
  std::unique_ptr<Gpu> gpu_ = gpu_library().open(0);
  Stream compute_{clock_, trace_, 0, *gpu_};
  Memory memory_{*gpu_, compute_.queue()};
  Device device_{memory_, compute_};
  Gpt model_;
  AdamW optimizer_;
  Batch batch_;
  double loss_ = 0, start_up_ = 0;
  std::int64_t in_use_ = 0;
};

/// Prints the figures of whole steps.
void print_steps(const std::string& model, const GptConfig& config, int batch,
                 const Training& training, const Training::Times& times) {
  const double median = times.step.median;
  print({model, batch * config.sequence / median, "tokens/s",
         fmt::format("b {}, s {}, {:.2f} ms a step ({:.2f} to {:.2f}), loss {:.3f}", batch,
                     config.sequence, median * 1e3, times.step.least * 1e3, times.step.most * 1e3,
                     training.loss())});
  print({model + ", model FLOPs", step_flops(config, batch) / median / 1e12, "TFLOP/s",
         "attention counted in full"});
  print({model + ", host", times.host.median * 1e3, "ms",
         fmt::format("CPU time per step of {:.2f} ms, to issue it ({:.2f} to {:.2f})", median * 1e3,
                     times.host.least * 1e3, times.host.most * 1e3)});
  const char* loading = std::getenv("CUDA_MODULE_LOADING");
  print({model + ", start-up", training.start_up_seconds(), "s",
         fmt::format("from the start of the process to the end of the first step, "
                     "CUDA_MODULE_LOADING={}",
                     loading != nullptr ? loading : "")});
  print({model + ", memory", static_cast<double>(training.memory_in_use() >> 20), "MiB",
         "in use on the GPU after the first step, by all processes"});
}

/// Prints the milliseconds and the calls of each kind of kernel in a step, the longest first.
void print_kinds(const std::string& model, const std::map<std::string, Training::Kind>& kinds,
                 double step) {
  std::vector<std::pair<std::string, Training::Kind>> longest{kinds.begin(), kinds.end()};
  std::ranges::sort(longest, std::ranges::greater{},
                    [](auto& each) { return each.second.seconds; });
  double all = 0, calls = 0;
  for (const auto& [name, kind] : longest) {
    print({model + ", " + name, kind.seconds * 1e3, "ms",
           fmt::format("{:.1f} % of a step, {:g} calls", 100 * kind.seconds / step, kind.calls)});
    all += kind.seconds;
    calls += kind.calls;
  }
  print({model + ", all kernels", all * 1e3, "ms",
         fmt::format("of {:.2f} ms without the trace, {:g} calls", step * 1e3, calls)});
}

}  // namespace

int main(int argc, char** argv) {
  GptConfig config{.layers = 12,
                   .hidden = 768,
                   .heads = 12,
                   .sequence = 1024,
                   .vocabulary = 50257,
                   .tied = true};
  int batch = 32, steps = 20, traced = 3;
  std::string precision = "bf16", variant;
  CLI::App app{"A training step of GPT-2 on one GPU."};
  app.option_defaults()->take_last();  // of a flag that a script gives twice
  app.add_option("--layers", config.layers);
  app.add_option("--hidden", config.hidden);
  app.add_option("--heads", config.heads);
  app.add_option("--sequence", config.sequence);
  app.add_option("--vocab", config.vocabulary);
  app.add_option("--batch", batch, "sequences a step")->check(CLI::PositiveNumber);
  app.add_option("--steps", steps, "of which the median is taken")->check(CLI::PositiveNumber);
  app.add_option("--traced", traced, "further steps, whose kernels are traced")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--precision", precision)->check(CLI::IsMember({"bf16", "f32"}));
  app.add_option("--variant", variant, "words that each figure's name contains, to tell it apart");
  CLI11_PARSE(app, argc, argv);
  try {
    config.dtype = precision == "bf16" ? DType::bf16 : DType::f32;
    config.validate();
    Training training{config, batch};
    const Training::Times times = training.measure(steps);
    const std::string model = fmt::format(
        "GPT-2 {:.0f}M, V {}, {}{}{}", static_cast<double>(config.parameter_count()) / 1e6,
        config.vocabulary, precision, variant.empty() ? "" : ", ", variant);
    print_steps(model, config, batch, training, times);
    fmt::print("CRC-32 of the parameters after {} steps: {}\n", warm_up_steps + steps,
               training.checksum());
    std::fflush(stdout);
    if (traced > 0) print_kinds(model, training.kinds(traced), times.step.median);
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "bench_training: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_training: {}\n", error.what());
    return 1;
  }
}
