#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/data.h"
#include "core/model/gpt.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::test {

using testing::TemporaryFolder;

/// A single device on which to build a model.
struct OneDevice {
  explicit OneDevice(DeviceKind kind = DeviceKind::cpu, Clock clock_ = Clock::wall())
      : memory(kind), clock(clock_), stream(clock, trace, 0, kind) {}
  Device device() { return {memory, stream}; }
  std::int64_t activations() const { return memory.current().of(MemoryCategory::activations); }
  std::int64_t peak_activations() const { return memory.peak().of(MemoryCategory::activations); }

  Memory memory;
  Clock clock;
  Recorder trace{false};
  Stream stream;
};

/// A modelled clock on which one FLOP takes one picosecond and everything else takes no time.
inline Clock flop_clock() {
  return Clock::modelled(Cluster{});
}

using Floats = std::vector<float>;

/// The values of a view of any floating-point type, widened to f32.
inline Floats floats(View view) {
  Floats result(static_cast<std::size_t>(view.elements()));
  cpu_kernels().convert(Queue{}, view, View{result.data(), view.shape});
  return result;
}

/// Compares bit patterns, which is stricter than comparing numerically.
inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Named {
  std::string name;
  Floats values;
  bool operator==(const Named& other) const {
    return name == other.name && same_bits(values, other.values);
  }
};

inline std::vector<Named> gradients(const Gpt& model) {
  std::vector<Named> result;
  for (const Parameter* parameter : model.parameters())
    result.push_back({parameter->name, floats(parameter->gradient)});
  return result;
}

inline std::vector<Named> values(const Gpt& model) {
  std::vector<Named> result;
  for (const Parameter* parameter : model.parameters())
    result.push_back({parameter->name, floats(parameter->value)});
  return result;
}

/// Random-looking bytes, all below the vocabulary size.
inline std::string random_text(std::size_t length, int vocabulary) {
  std::mt19937 random{7};
  std::string text;
  for (std::size_t i = 0; i < length; ++i)
    text.push_back(static_cast<char>(random() % static_cast<unsigned>(vocabulary)));
  return text;
}

inline Batch random_batch(const GptConfig& config, int microbatches, int size, int step = 0) {
  return Corpus{random_text(2000, config.vocabulary), config}.batch(
      11, step, {.microbatches = microbatches, .size = size});
}

inline GptConfig random_config(std::mt19937& random, int least_layers = 1) {
  const auto up_to = [&](unsigned n) { return static_cast<int>(random() % n); };
  GptConfig config;
  config.heads = 1 + up_to(4);
  config.hidden = config.heads * (1 + up_to(9));
  config.layers = least_layers + up_to(3);
  config.sequence = 1 + up_to(12);
  config.vocabulary = 2 + up_to(120);
  config.tied = random() % 2 == 0;
  return config;
}

/// Returns the message of the UsageError that `run` throws. The test fails if the message has more
/// than one line.
template <class Run>
std::string usage_error(Run&& run) {
  try {
    run();
  } catch (const UsageError& error) {
    const std::string message = error.what();
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }
  FAIL("no UsageError was thrown");
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// ‖a − b‖₂ / ‖b‖₂.
inline double relative_distance(const Floats& a, const Floats& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / std::max(size, 1e-12));
}

/// ‖a − b‖₂ / max(‖b‖₂, √n · 0.02): core/run/README.md, "Parity".
inline double parity_distance(const Floats& a, const Floats& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  const double floor = std::sqrt(static_cast<double>(b.size())) * 0.02;
  return std::sqrt(difference) / std::max(std::sqrt(size), floor);
}

/// The whole model, split into stages with one device each. Messages are copied across stage
/// boundaries.
struct Stages {
  Stages(const GptConfig& config, int stages, std::uint64_t seed, const ModelBuilder& factory = {})
      : devices(count_of(stages)) {
    for (int stage = 0; stage < stages; ++stage) {
      const auto i = static_cast<std::size_t>(stage);
      models.push_back(std::make_unique<Gpt>(
          config, devices[i].device(), StageLayers::of(config, stage, stages), seed, factory));
    }
  }
  static std::size_t count_of(int stages) { return static_cast<std::size_t>(stages); }

  /// Runs one microbatch through all stages and back, with the halves of the backward pass
  /// separated or together. Returns the microbatch's loss.
  double run(const Microbatch& microbatch, bool halves = false) {
    std::vector<Stash> stashes(models.size());
    Tensor x;
    for (std::size_t i = 0; i < models.size(); ++i) {
      Tensor y = models[i]->forward(microbatch, move_to(devices[i], x), stashes[i]);
      x = std::move(y);
    }
    const double loss = models.back()->loss(stashes.back());
    for (std::size_t i = models.size(); i-- > 0;) {
      Tensor dy = move_to(devices[i], x);
      x = halves ? models[i]->backward_input(std::move(dy), stashes[i])
                 : models[i]->backward(std::move(dy), stashes[i]);
    }
    if (halves)
      for (std::size_t i = models.size(); i-- > 0;) models[i]->backward_weight(stashes[i]);
    for (const Stash& stash : stashes) CHECK(stash.empty());
    return loss;
  }

  /// Copies a tensor, as a message would.
  static Tensor move_to(OneDevice& device, const Tensor& from) {
    if (!from) return {};
    Tensor to{device.memory, from.shape(), MemoryCategory::activations, from.dtype()};
    std::memcpy(to.view().data, from.view().data, from.bytes());
    return to;
  }

  /// Returns all gradients. Adds the tied table's two gradients, starting with the first stage's,
  /// as a pipeline does.
  std::vector<Named> all_gradients() {
    std::vector<Named> result;
    for (auto& model : models) {
      model->finish_gradients();
      for (Named& gradient : gradients(*model)) {
        if (!result.empty() && &model != &models.front() && gradient.name == result[0].name) {
          for (std::size_t i = 0; i < gradient.values.size(); ++i)
            result[0].values[i] += gradient.values[i];
        } else {
          result.push_back(std::move(gradient));
        }
      }
    }
    return result;
  }

  std::deque<OneDevice> devices;
  std::vector<std::unique_ptr<Gpt>> models;
};

/// Calls check(config, stage, batch) for random configurations with at least `least_layers` layers,
/// in all three dtypes, for the whole model and for each of three stages.
template <class Check>
void for_every_kind_of_stage(unsigned seed, int least_layers, Check&& check) {
  std::mt19937 random{seed};
  for (int i = 0; i < 40; ++i) {
    GptConfig config = random_config(random, least_layers);
    config.dtype = i % 3 == 0 ? DType::f32 : i % 3 == 1 ? DType::bf16 : DType::f16;
    const int batch = 1 + static_cast<int>(random() % 3);
    for (const StageLayers& stage :
         {StageLayers::whole(config), StageLayers::of(config, 0, 3), StageLayers::of(config, 1, 3),
          StageLayers::of(config, 2, 3)}) {
      const std::string dtype = name_of(config.dtype);
      CAPTURE(dtype);
      CAPTURE(config.layers);
      CAPTURE(config.hidden);
      CAPTURE(config.heads);
      CAPTURE(config.sequence);
      CAPTURE(config.vocabulary);
      CAPTURE(config.tied);
      CAPTURE(batch);
      CAPTURE(stage.embedding);
      CAPTURE(stage.head);
      check(config, stage, batch);
    }
  }
}

}  // namespace lockstep::test
