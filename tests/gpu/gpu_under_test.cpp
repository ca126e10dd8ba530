#include "tests/gpu/gpu_under_test.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace lockstep::test {

GpuLibrary& library() {
  static GpuLibrary* const loaded = [] {
    const char* path = std::getenv("LOCKSTEP_GPU_LIBRARY");
    if (path == nullptr) throw UsageError{"LOCKSTEP_GPU_LIBRARY is to name the library to test"};
    void* file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) throw UsageError{dlerror()};
    auto* open = reinterpret_cast<GpuLibrary* (*)()>(dlsym(file, "lockstep_gpu_library"));
    if (open == nullptr) throw UsageError{dlerror()};
    return open();
  }();
  return *loaded;
}

bool is_emulated() {
  return library().gpus().at(0).name == "emulated GPU";
}

bool is_lazy() {
  const char* mode = std::getenv("LOCKSTEP_EMULATOR_MODE");
  return is_emulated() && (mode == nullptr || std::string{mode} == "lazy");
}

bool passes_within(Gpu& gpu, const Mark& mark, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>{seconds};
  while (!gpu.passed(mark)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
  return true;
}

void finish(Gpu& gpu, Queue queue, double seconds) {
  if (!passes_within(gpu, *gpu.record(queue), seconds)) throw RunError{"a queue is stuck"};
}

std::string last_words(const std::function<void()>& mistake) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    mistake();
    _exit(0);
  }
  close(ends[1]);
  std::string words;
  char buffer[512];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    words.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? words : "";
}

void on_threads(int ranks, const std::function<void(int rank)>& work) {
  std::vector<std::thread> threads;
  std::exception_ptr first;
  std::mutex mutex;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (...) {
        const std::lock_guard lock{mutex};
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

Queue Scope::queue(bool urgent) {
  queues_.push_back(gpu_.make_queue(urgent));
  return queues_.back();
}

Scope::~Scope() {
  // Work on one queue may use another queue's memory.
  try {
    for (Queue queue : queues_) finish(gpu_, queue);
    for (const auto& [data, queue] : blocks_) gpu_.release(data, queue);
    for (Queue queue : queues_) finish(gpu_, queue);
  } catch (const std::exception& error) {
    FAIL_CHECK(error.what());
  }
  for (void* data : pinned_) gpu_.release_pinned(data);
  for (Queue queue : queues_) gpu_.drop_queue(queue);
}

}  // namespace lockstep::test
