#include "tests/gpu/emulator/machine.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace emulator {

namespace {

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

/// Returns the visible ones among $LOCKSTEP_EMULATED_GPUS GPUs, in the order that
/// $CUDA_VISIBLE_DEVICES gives. As in CUDA, the list ends at the first invalid index.
std::vector<int> visible_gpus() {
  const int count = std::stoi(setting("LOCKSTEP_EMULATED_GPUS", "1"));
  std::vector<int> seen;
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) {
    for (int i = 0; i < count; ++i) seen.push_back(i);
    return seen;
  }
  std::istringstream list{setting("CUDA_VISIBLE_DEVICES", "")};
  for (std::string item; std::getline(list, item, ',');) {
    char* end = nullptr;
    const long index = std::strtol(item.c_str(), &end, 10);
    if (end == item.c_str() || index < 0 || index >= count) break;
    seen.push_back(static_cast<int>(index));
  }
  return seen;
}

}  // namespace

Machine& Machine::get() {
  // Never destroyed: threads and closures may outlive main.
  static Machine& machine = *new Machine{visible_gpus()};
  return machine;
}

Machine::Machine(std::vector<int> visible)
    : visible_(std::move(visible)),
      memory_(static_cast<int>(visible_.size()),
              std::stoull(setting("LOCKSTEP_EMULATED_GPU_MEMORY", "8000000000"))),
      eager_(setting("LOCKSTEP_EMULATOR_MODE", "lazy") == "eager"),
      debug_(setting("LOCKSTEP_EMULATOR_DEBUG", "0") == "1"),
      random_(std::stoull(setting("LOCKSTEP_EMULATOR_SEED", "1"))) {
  for (std::size_t i = 0; i < visible_.size(); ++i) {
    devices_.push_back(std::make_unique<Device>());
    devices_.back()->stream.device = static_cast<int>(i);
  }
}

template <class Do>
void Machine::each_stream(Do&& visit) {
  for (auto& device : devices_) visit(device->stream);
  for (auto& [id, stream] : streams_) visit(*stream);
}

Stream* Machine::find(cudaStream_t handle, int current) {
  if (handle == nullptr) {
    const auto index = static_cast<std::size_t>(current);
    return index < devices_.size() ? &devices_[index]->stream : nullptr;
  }
  const auto found = streams_.find(reinterpret_cast<std::uintptr_t>(handle));
  return found == streams_.end() || found->second->destroyed ? nullptr : found->second.get();
}

cudaStream_t Machine::make_stream(int device) {
  auto stream = std::make_unique<Stream>();
  stream->id = next_stream_++;
  stream->device = device;
  stream->urgency = random_();
  const std::uintptr_t id = stream->id;
  streams_[id] = std::move(stream);
  return reinterpret_cast<cudaStream_t>(id);
}

bool Machine::destroy(cudaStream_t handle) {
  const auto found = streams_.find(reinterpret_cast<std::uintptr_t>(handle));
  if (found == streams_.end() || found->second->destroyed) return false;
  found->second->destroyed = true;
  if (found->second->works.empty()) streams_.erase(found);
  return true;
}

bool Machine::idle(int device) {
  bool idle = true;
  each_stream([&](const Stream& stream) {
    if (stream.device == device && !stream.works.empty()) idle = false;
  });
  return idle;
}

void Machine::order_after(Lock& lock, Stream& later, Stream& earlier) {
  auto record = std::make_shared<Record>();
  record->device = earlier.device;
  put(lock, earlier, {.name = "record", .record = record});
  put(lock, later, {.name = "wait", .wait = record});
}

void Machine::put(Lock& lock, Stream& stream, Work work) {
  stream.works.push_back(std::move(work));
  changed();
  while (eager_ && !running_ && step(lock)) {
  }
}

bool Machine::communicates(int device) {
  bool any = false;
  each_stream([&](Stream& stream) {
    if (stream.device != device || stream.works.empty()) return;
    const auto& meeting = stream.works.front().meeting;
    any = any || (meeting && !meeting->done());
  });
  return any;
}

bool Machine::can_go_on(Stream& stream) {
  if (stream.works.empty()) return false;
  const Work& work = stream.works.front();
  if (work.wait) return work.wait->passed;
  if (work.meeting) return work.meeting->done() || work.meeting->can_step();
  return true;
}

/// Tends to choose the same stream for a while, so that streams not synchronised by an event get
/// far out of step.
Stream* Machine::choose() {
  each_stream([](Stream& stream) {
    if (!stream.works.empty() && stream.works.front().meeting)
      stream.works.front().meeting->arrive();
  });
  const bool anew = random_() % 16 == 0;
  Stream* chosen = nullptr;
  each_stream([&](Stream& stream) {
    if (anew) stream.urgency = random_();
    if (can_go_on(stream) && (chosen == nullptr || stream.urgency > chosen->urgency))
      chosen = &stream;
  });
  return chosen;
}

bool Machine::step(Lock& lock) {
  Stream* stream = choose();
  if (stream == nullptr) return false;
  running_ = true;
  memory_.allow_access(true);
  run(lock, *stream);
  memory_.allow_access(false);
  running_ = false;
  if (stream->destroyed && stream->works.empty()) streams_.erase(stream->id);
  changed();
  return true;
}

void Machine::run(Lock& lock, Stream& stream) {
  if (const auto meeting = stream.works.front().meeting; meeting && !meeting->done()) {
    meeting->step();
    if (!meeting->done()) return;
  }
  Work work = std::move(stream.works.front());
  if (work.record) {
    work.record->passed = true;
    work.record->when = std::chrono::steady_clock::now();
  } else if (work.run && device(stream.device).error == cudaSuccess) {
    std::string failure;
    lock.unlock();
    try {
      work.run();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    work.run = nullptr;
    lock.lock();
    if (!failure.empty())
      fail(stream.device, cudaErrorLaunchFailure, fmt::format("{}: {}", work.name, failure));
  }
  stream.works.pop_front();
}

void Machine::fail(int index, cudaError_t error, const std::string& words) {
  Device& failed = device(index);
  if (failed.error != cudaSuccess) return;
  failed.error = error;
  failed.words = words;
  changed();
}

void Machine::drive(Lock& lock, const std::function<bool()>& done) {
  while (!done()) {
    if (!running_ && step(lock)) continue;
    if (debug_ && changed_.wait_for(lock, std::chrono::seconds{3}) == std::cv_status::timeout)
      report_waits();
    else if (!debug_)
      changed_.wait(lock);
  }
}

void Machine::drive_a_little(Lock& lock) {
  std::uint64_t budget = random_() % 32;
  while (budget-- > 0 && !running_ && step(lock)) {
  }
}

void Machine::report_waits() {
  each_stream([](Stream& stream) {
    if (stream.works.empty()) return;
    const Work& work = stream.works.front();
    std::fprintf(stderr, "GPU emulator: stream %zx of GPU %d, %zu works: %s\n", stream.id,
                 stream.device, stream.works.size(),
                 work.meeting ? work.meeting->waits_for().c_str()
                 : work.wait  ? "waits for an event"
                              : work.name);
  });
}

}  // namespace emulator

extern "C" __attribute__((visibility("default"))) void lockstep_emulated_counts(
    emulator::Counts* counts) {
  emulator::Machine& machine = emulator::Machine::get();
  const emulator::Machine::Lock lock = machine.lock();
  *counts = machine.counts();
}
