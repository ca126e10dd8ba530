// A right answer to exercise 02 that also does something else on rank 1 of 3: the act that the
// environment variable LOCKSTEP_HOSTILE names. test_hostile.sh lists the verdicts.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "exercises/02_token_ring/task.h"

namespace lockstep::exercises {

namespace {

std::atomic<bool> ever{true};     // so that the compiler keeps endless loops
thread_local bool wrong = false;  // whether the answer's result is to be wrong

std::string asked() {
  const char* name = std::getenv("LOCKSTEP_HOSTILE");
  return name == nullptr ? "" : name;
}

[[noreturn]] void loop() {
  while (ever) {
  }
  std::abort();
}

[[noreturn]] void sleep_for_ever() {
  while (true) ::pause();
}

/// Keeps the number of written bytes in the file LOCKSTEP_WRITTEN, which outlives this process.
[[noreturn]] void print_for_ever(int descriptor, const std::string& text) {
  const int file = ::open(std::getenv("LOCKSTEP_WRITTEN"), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(long)) != 0) std::abort();
  void* page = ::mmap(nullptr, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  auto* written = static_cast<long*>(page);
  while (true)
    if (const ssize_t count = ::write(descriptor, text.data(), text.size()); count > 0)
      *written += count;
}

std::string lines(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "a line of output\n";
  return text;
}

void limit(__rlimit_resource resource, rlim_t to) {
  const rlimit limits{to, RLIM_INFINITY};
  ::setrlimit(resource, &limits);
}

/// Returns only in the parent; a child runs `act` and ends.
pid_t fork_to(const std::function<void()>& act) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  act();
  ::_exit(0);
}

int recurse(int depth) {
  volatile char frame[4096] = {};
  frame[0] = static_cast<char>(depth);
  return ever ? recurse(depth + 1) + frame[0] : 0;
}

struct ThrowsInDestructor {
  ~ThrowsInDestructor() noexcept(false) {
    if (ever) throw std::runtime_error{"from a destructor"};
  }
};

void breaks_noexcept(const std::function<void()>& throws) noexcept {
  throws();
}

std::jmp_buf left;
void remember() {
  if (setjmp(left) != 0) std::abort();
}

const std::map<std::string, std::function<void()>> acts{
    // Output.
    {"print_for_ever", [] { print_for_ever(STDOUT_FILENO, lines(4096)); }},
    {"print_one_line_for_ever", [] { print_for_ever(STDOUT_FILENO, std::string(4096, 'x')); }},
    {"print_errors_for_ever", [] { print_for_ever(STDERR_FILENO, lines(4096)); }},
    {"print_much", [] { std::fputs(lines(1 << 20).c_str(), stdout); }},
    {"print_a_verdict",
     [] {
       std::puts("✓ 6 cases are right.");
       wrong = true;
     }},
    {"print_escapes", [] { std::puts("\033[2J\033]0;a title\007\x9b[31m\u009b[31m"); }},
    {"write_everywhere",
     [] {
       for (int descriptor = 1; descriptor < 64; ++descriptor)
         if (::write(descriptor, "solved\n", 7) < 0) continue;
     }},

    // Ends.
    {"exit", [] { std::exit(0); }},
    {"_exit", [] { ::_exit(0); }},
    {"quick_exit", [] { std::quick_exit(0); }},
    {"exit_3", [] { std::exit(3); }},
    {"exit_4", [] { std::exit(4); }},
    {"exit_in_thread",
     [] {
       std::thread{[] { std::exit(0); }}.detach();
       sleep_for_ever();
     }},
    {"exit_in_atexit",
     [] {
       std::atexit([] { ::_exit(0); });
       wrong = true;
     }},
    {"exit_in_destructor", [] { wrong = true; }},
    {"exec", [] { ::execlp("echo", "echo", "✓ 6 cases are right.", nullptr); }},
    {"pthread_exit", [] { ::pthread_exit(nullptr); }},
    {"longjmp",
     [] {
       remember();
       std::longjmp(left, 1);
     }},

    // Signals.
    {"abort", [] { std::abort(); }},
    {"kill", [] { ::raise(SIGKILL); }},
    {"kill_group", [] { ::kill(0, SIGKILL); }},
    {"kill_parent",
     [] {
       ::kill(::getppid(), SIGKILL);
       sleep_for_ever();
     }},
    {"terminate_signal", [] { ::raise(SIGTERM); }},
    {"stop", [] { ::raise(SIGSTOP); }},
    {"alarm",
     [] {
       ::alarm(1);
       sleep_for_ever();
     }},
    {"null_pointer", [] { *reinterpret_cast<volatile int*>(ever ? 8 : 0) = 1; }},
    {"exit_in_handler",
     [] {
       std::signal(SIGABRT, [](int) { ::_exit(0); });
       std::abort();
     }},
    {"ignore_signals",
     [] {
       for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_IGN);
       loop();
     }},

    // Exceptions.
    {"throw_int", [] { throw 7; }},
    {"throw_text", [] { throw "a text"; }},
    {"throw_escapes", [] { throw std::runtime_error{"red: \033[31m, title: \033]0;a title\007"}; }},
    {"throw_much", [] { throw std::runtime_error{lines(10 << 20)}; }},
    {"terminate", [] { std::terminate(); }},
    {"noexcept", [] { breaks_noexcept([] { throw std::runtime_error{"through noexcept"}; }); }},
    {"throw_twice",
     [] {
       const ThrowsInDestructor guard;
       throw std::runtime_error{"from a function"};
     }},
    {"throw_in_thread",
     [] { std::thread{[] { throw std::runtime_error{"from a thread"}; }}.join(); }},
    {"thread_not_joined", [] { const std::thread thread{sleep_for_ever}; }},

    // Memory.
    {"stack_overflow", [] { std::printf("%d\n", recurse(0)); }},
    {"allocate_100_gb", [] { std::cout << std::string(100'000'000'000, 'x').size(); }},
    {"allocate_for_ever",
     [] {
       std::vector<std::vector<float>> kept;
       while (ever) kept.emplace_back(1 << 20, 1.0F);
     }},
    {"negative_size",
     [] {
       volatile int size = -1;
       std::vector<float> none(static_cast<std::size_t>(size));
     }},
    {"outside_buffer",
     [] {
       volatile std::size_t at = 4;
       std::vector<float> four(4);
       four.data()[at] = 1;
     }},
    {"free_twice",
     [] {
       void* volatile memory = std::malloc(4);
       std::free(memory);
       std::free(memory);
     }},
    {"overflow_int",
     [] {
       volatile int most = 2147483647;
       most = most + 1;
     }},

    // Limits.
    {"limit_descriptors", [] { limit(RLIMIT_NOFILE, 0); }},
    {"limit_file_size", [] { limit(RLIMIT_FSIZE, 0); }},
    {"limit_cpu",
     [] {
       limit(RLIMIT_CPU, 1);
       loop();
     }},

    // Processes.
    {"fork_holds_pipe", [] { fork_to(sleep_for_ever); }},
    {"fork_daemon",
     [] {
       const pid_t child = fork_to([] {
         ::setsid();
         fork_to([] {
           std::signal(SIGTERM, SIG_IGN);
           sleep_for_ever();
         });
       });
       ::waitpid(child, nullptr, 0);
     }},
    {"fork_and_wait",
     [] {
       const pid_t child = fork_to([] { ::usleep(1000); });
       ::waitpid(child, nullptr, 0);
     }},
    {"fork_goes_on", [] { ::fork(); }},
    {"fork_prints_for_ever",
     [] {
       fork_to([] { print_for_ever(STDOUT_FILENO, lines(4096)); });
       sleep_for_ever();
     }},
    {"fork_deadlock",
     [] {
       int pipe[2];
       if (::pipe(pipe) != 0) std::abort();
       char byte = 0;
       for (int i = 0; i < 3; ++i)
         fork_to([&] {
           if (::read(pipe[0], &byte, 1) != 1) std::abort();
         });
       while (::wait(nullptr) > 0) {
       }
     }},
    {"fork_many",
     [] {
       for (int i = 0; i < 400; ++i) fork_to(sleep_for_ever);
       sleep_for_ever();
     }},
    {"session", [] { ::setsid(); }},

    // Threads.
    {"threads",
     [] {
       std::vector<std::thread> threads;
       for (int i = 0; i < 8; ++i) threads.emplace_back([] { ::usleep(1000); });
       for (std::thread& thread : threads) thread.join();
     }},
    {"thread_detached", [] { std::thread{loop}.detach(); }},
    {"thread_loops", [] { std::thread{loop}.join(); }},
    {"thread_crashes_later",
     [] {
       std::thread{[] {
         ::usleep(50'000);
         std::abort();
       }}.detach();
       sleep_for_ever();
     }},
    {"lock_twice",
     [] {
       pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
       ::pthread_mutex_lock(&mutex);
       ::pthread_mutex_lock(&mutex);
     }},
    {"loop", loop},

    // Files.
    {"close_all",
     [] {
       for (int descriptor = 0; descriptor < 1024; ++descriptor) ::close(descriptor);
     }},
    {"close_output",
     [] {
       std::fclose(stdout);
       ::close(STDERR_FILENO);
     }},
    {"redirect_output",
     [] {
       if (std::freopen("/dev/null", "w", stdout) == nullptr) std::abort();
     }},
    {"delete_folder", [] { std::filesystem::remove_all(std::filesystem::current_path()); }},
    {"read_input",
     [] {
       for (std::string word; std::cin >> word;) {
       }
     }},

    // Static objects: below.
    {"static_exit", [] {}},
    {"static_throw", [] {}},
    {"static_loop", [] {}},
    {"destructor_aborts", [] {}},
    {"destructor_loops", [] {}},
};

struct Static {
  Static() {
    if (asked() == "static_exit") std::exit(0);
    if (asked() == "static_throw") throw std::runtime_error{"from a static object"};
    if (asked() == "static_loop") loop();
  }
  ~Static() {
    if (asked() == "exit_in_destructor") ::_exit(0);
    if (asked() == "destructor_aborts") std::abort();
    if (asked() == "destructor_loops") loop();
  }
} object;

}  // namespace

float pass_token(World& world, float token, float mine) {
  if (world.rank() == 1 && world.size() == 3) acts.at(asked())();
  const int right = (world.rank() + 1) % world.size();
  const int from = (world.rank() + world.size() - 1) % world.size();
  const std::span<float> message{&token, 1};
  if (world.size() == 1) return token + mine;
  if (world.rank() == 0) world.send(message, right).wait();
  world.receive(message, from).wait();
  token += wrong ? 2 * mine : mine;
  if (world.rank() != 0) world.send(message, right).wait();
  return token;
}

}  // namespace lockstep::exercises
