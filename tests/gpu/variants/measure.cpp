#include "tests/gpu/variants/measure.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>

#include "kernels/element.h"

namespace lockstep::variants {
namespace {

/// NVML's energy counter (millijoules) and clock of the first GPU; nothing if it does not answer.
class Meter {
 public:
  Meter() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    int (*start)() = nullptr;
    int (*device)(unsigned, void**) = nullptr;
    works_ = find(start, "nvmlInit_v2") && find(device, "nvmlDeviceGetHandleByIndex_v2") &&
             find(energy_, "nvmlDeviceGetTotalEnergyConsumption") &&
             find(clock_, "nvmlDeviceGetClockInfo") && start() == 0 && device(0, &gpu_) == 0;
  }
  bool works() const { return works_; }
  double joules() const {
    unsigned long long millijoules = 0;
    if (works_) energy_(gpu_, &millijoules);
    return static_cast<double>(millijoules) / 1000;
  }
  double megahertz() const {
    unsigned megahertz = 0;
    constexpr int of_multiprocessors = 1;
    if (works_) clock_(gpu_, of_multiprocessors, &megahertz);
    return megahertz;
  }

 private:
  bool works_ = false;
  void* gpu_ = nullptr;
  int (*energy_)(void*, unsigned long long*) = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
};

class Event {
 public:
  Event() { LOCKSTEP_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() const { LOCKSTEP_CUDA(cudaEventRecord(event_, nullptr)); }
  double milliseconds_since(const Event& begin) const {
    float time = 0.0F;
    LOCKSTEP_CUDA(cudaEventSynchronize(event_));
    LOCKSTEP_CUDA(cudaEventElapsedTime(&time, begin.event_, event_));
    return time;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

struct Sample {
  double milliseconds = 0.0, joules = 0.0, megahertz = 0.0;  ///< the first two of a call
};

Sample measure(const Way& way, int calls, const Meter& meter) {
  const Event begin, end;
  LOCKSTEP_CUDA(cudaStreamSynchronize(nullptr));
  const double before = meter.joules();
  begin.record();
  for (int i = 0; i < calls; ++i) way.run({});
  end.record();
  const double clock = meter.megahertz();  // while the GPU still runs
  const double milliseconds = end.milliseconds_since(begin);
  return {milliseconds / calls, (meter.joules() - before) / calls, clock};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  LOCKSTEP_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, nullptr));
  LOCKSTEP_CUDA(cudaStreamSynchronize(nullptr));
}

/// Stores a value in place i of an array of f32 or bf16.
void store(std::vector<std::byte>& bytes, std::size_t i, DType dtype, double value) {
  const auto wide = static_cast<float>(value);
  const std::uint16_t narrow = element::to_bf16(wide);
  if (dtype == DType::f32)
    std::memcpy(bytes.data() + 4 * i, &wide, 4);
  else
    std::memcpy(bytes.data() + 2 * i, &narrow, 2);
}

}  // namespace

View Arrays::allocate(Shape shape, DType dtype) {
  View view{nullptr, shape, dtype};
  memory_.push_back(std::make_unique<cuda::Scratch<std::byte>>(Queue{}, view.bytes()));
  view.data = memory_.back()->data();
  return view;
}

View Arrays::random(Shape shape, DType dtype, float deviation) {
  const View view = allocate(shape, dtype);
  constexpr std::int64_t million = 1 << 20;
  const auto count = static_cast<std::size_t>(std::min(view.elements(), million));
  std::minstd_rand engine{static_cast<unsigned>(memory_.size())};
  std::normal_distribution<float> normal{0.0F, deviation};
  std::vector<std::byte> pattern(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) store(pattern, i, dtype, normal(engine));
  for (std::size_t at = 0; at < view.bytes(); at += pattern.size())
    copy_bytes(static_cast<std::byte*>(view.data) + at, pattern.data(),
               std::min(pattern.size(), view.bytes() - at));
  return view;
}

View Arrays::zeros(Shape shape, DType dtype) {
  return of(std::vector<double>(static_cast<std::size_t>(shape.elements())), shape, dtype);
}

View Arrays::of(const std::vector<double>& values, Shape shape, DType dtype) {
  const View view = allocate(shape, dtype);
  std::vector<std::byte> bytes(view.bytes());
  for (std::size_t i = 0; i < values.size(); ++i) store(bytes, i, dtype, values[i]);
  copy_bytes(view.data, bytes.data(), bytes.size());
  return view;
}

std::vector<double> values_of(const View& view) {
  std::vector<std::byte> bytes(view.bytes());
  copy_bytes(bytes.data(), view.data, bytes.size());
  std::vector<double> values(static_cast<std::size_t>(view.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    float wide = 0.0F;
    std::uint16_t narrow = 0;
    if (view.dtype == DType::f32) {
      std::memcpy(&wide, bytes.data() + 4 * i, 4);
    } else {
      std::memcpy(&narrow, bytes.data() + 2 * i, 2);
      wide = element::from_bf16(narrow);
    }
    values[i] = wide;
  }
  return values;
}

void print(const std::string& name, double value, const std::string& unit) {
  std::printf("variant %s: %.5g %s\n", name.c_str(), value, unit.c_str());
  std::fflush(stdout);
}

bool compare(const std::string& title, const std::vector<Way>& ways, int rounds,
             double sample_milliseconds) {
  const Meter meter;
  std::vector<std::vector<Sample>> samples(ways.size());
  std::vector<int> calls(ways.size());
  const auto attempt = [&](std::size_t i, auto body) {
    if (calls[i] < 0) return;
    try {
      body();
    } catch (const std::exception& error) {
      std::printf("variant %s, %s failed: %s\n", title.c_str(), ways[i].name.c_str(), error.what());
      calls[i] = -1;
    }
  };
  for (std::size_t i = 0; i < ways.size(); ++i)
    attempt(i, [&] {
      measure(ways[i], 2, meter);  // loads the kernels
      const double one = std::max(measure(ways[i], 2, meter).milliseconds, 1e-3);
      calls[i] = std::clamp(static_cast<int>(sample_milliseconds / one), 1, 10000);
    });
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < ways.size(); ++i)
      attempt(i, [&] { samples[i].push_back(measure(ways[i], calls[i], meter)); });

  const auto median_of = [&](std::size_t i, double Sample::*part) {
    std::vector<double> values;
    for (const Sample& sample : samples[i]) values.push_back(sample.*part);
    return median(values);
  };
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (calls[i] < 0) continue;
    const std::string name = title + ", " + ways[i].name;
    const double milliseconds = median_of(i, &Sample::milliseconds);
    print(name, milliseconds, "ms");
    if (ways[i].work > 0) print(name, ways[i].work / milliseconds / 1e9, ways[i].unit);
    if (i > 0 && calls[0] >= 0)
      print(name + ", times the speed of " + ways[0].name,
            median_of(0, &Sample::milliseconds) / milliseconds, "x");
    if (!meter.works()) continue;
    double joules = 0.0;
    for (const Sample& sample : samples[i]) joules += sample.joules / rounds;
    print(name, 1000 * joules, "mJ");
    print(name, median_of(i, &Sample::megahertz), "MHz");
  }
  return std::all_of(calls.begin(), calls.end(), [](int each) { return each >= 0; });
}

}  // namespace lockstep::variants
