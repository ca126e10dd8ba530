// Mutated and costly inputs for the parsers of files and messages that other programs may have
// written.
//
//   mutate [PARSER...] [--count N | --seconds N] [--seed N] [--first N]
//   mutate [PARSER...] --costly BYTES
//
// A parser may refuse an input, with one line of printable text. Reading it takes at most four
// times its size and 64 MB of memory, and a time that is linear in its size. Exits with 1 if a
// parser needs more. A failure names the command that repeats it: the seed and a number determine
// each input.
#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string_view>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/parsers.h"
#include "tests/support/temporary_folder.h"

#ifdef __SANITIZE_ADDRESS__
// The sanitizers end the program with SIGABRT, so that the handler below names the input.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:handle_abort=0:detect_leaks=0";
}
extern "C" const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}
#endif

namespace lockstep::fuzz {

namespace {

constexpr std::size_t longest_input = 64 << 10;
constexpr std::size_t slack = 64 << 20;
constexpr std::size_t longest_message = 2000;
constexpr int patience_seconds = 600;  // of the processor, for one input; catches endless loops

/// The command that repeats the current input, for the signal handler.
char repeat[200] = "";

[[noreturn]] void give_up(int signal) {
  const std::string_view words[] = {"\nFAILED by a signal ", signal == SIGPROF ? "(no end)" : "",
                                    "; again: ", repeat, "\n"};
  for (const std::string_view word : words)
    [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, word.data(), word.size());
  ::_exit(1);
}

/// SIGPROF arrives once the program has used the processor for this long; 0 cancels it.
void set_patience(int seconds) {
  const itimerval timer{.it_interval = {}, .it_value = {seconds, 0}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) {
  return bound == 0 ? 0 : static_cast<std::size_t>(random() % bound);
}

const std::vector<std::string>& words_for_all() {
  static const std::vector<std::string> words = {"0",
                                                 "-1",
                                                 "1",
                                                 "2147483647",
                                                 "2147483648",
                                                 "-2147483648",
                                                 "4294967296",
                                                 "1e5",
                                                 "1e999",
                                                 "9223372036854775807",
                                                 "-9223372036854775808",
                                                 "18446744073709551615",
                                                 "0.5",
                                                 "-0",
                                                 "NaN",
                                                 "\x1b[2J",
                                                 "\xff",
                                                 "\xc3",
                                                 std::string(1, '\0'),
                                                 "\n",
                                                 "\r",
                                                 " ",
                                                 std::string(300, 'a')};
  return words;
}

/// Returns one of the seeds with one to eight changes.
std::string mutated(const Parser& parser, Random& random) {
  std::string text = parser.seeds[below(random, parser.seeds.size())];
  for (std::size_t changes = 1 + below(random, 1 + below(random, 8)); changes > 0; --changes) {
    const std::size_t at = below(random, text.size() + 1);
    const std::size_t length = below(random, std::min<std::size_t>(text.size() - at, 40) + 1);
    const auto& words = below(random, 2) == 0 ? parser.words : words_for_all();
    switch (below(random, 9)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(random, 8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(random()));
        break;
      case 3:
        text.erase(at, length);
        break;
      case 4:
        text.insert(at, words[below(random, words.size())]);
        break;
      case 5:
        text.replace(at, length, words[below(random, words.size())]);
        break;
      case 6: {  // repeats a part
        const std::string part = text.substr(at, length);
        for (std::size_t times = below(random, 20); times > 0; --times) text.insert(at, part);
        break;
      }
      case 7: {  // continues as another seed does
        const std::string& other = parser.seeds[below(random, parser.seeds.size())];
        text = text.substr(0, at) + other.substr(below(random, other.size()));
        break;
      }
      default:
        if (below(random, 8) == 0) text.resize(at);
        break;
    }
    text.resize(std::min(text.size(), longest_input));
  }
  return text;
}

/// The cost of parsing an input, and any problem.
struct Outcome {
  bool accepted = false;
  std::string problem;  ///< why this must not happen, or ""
  std::size_t bytes = 0;
  double seconds = 0;
};

Outcome parse(const Parser& parser, const std::string& input) {
  Outcome outcome;
  const PeakOfAllocations allocations;
  const double began = processor_seconds();
  set_patience(patience_seconds);
  std::string message = "-";
  try {
    parser.parse(input);
    outcome.accepted = true;
  } catch (const UsageError& error) {
    message = error.what();
  } catch (const ScheduleError& error) {
    message = error.what();
  } catch (const std::exception& error) {
    outcome.problem = fmt::format("an exception of another kind: {}", error.what());
  }
  set_patience(0);
  outcome.seconds = processor_seconds() - began;
  outcome.bytes = allocations.bytes();
  if (message.empty() || excerpt(message, longest_message) != message)
    outcome.problem = fmt::format("not a line of printable text: {}", excerpt(message, 300));
  if (outcome.bytes > 4 * input.size() + slack)
    outcome.problem = fmt::format("{} bytes of memory for {} bytes", outcome.bytes, input.size());
  return outcome;
}

struct Flags {
  std::uint64_t seed = 1, first = 0, count = 0;
  double seconds = 0;
  std::size_t costly = 0;
  std::vector<std::string> parsers;
};

/// Prints a line of the table. Returns whether nothing failed.
bool run_mutations(const Parser& parser, const Flags& flags) {
  std::uint64_t number = flags.first, accepted = 0, failed = 0;
  std::size_t peak = 0;
  double seconds = 0;
  for (; flags.seconds > 0 ? seconds < flags.seconds : number < flags.first + flags.count;
       ++number) {
    std::seed_seq sequence{flags.seed, number};
    Random random{sequence};
    *fmt::format_to_n(repeat, sizeof repeat - 1, "mutate {} --seed {} --first {} --count 1",
                      parser.name, flags.seed, number)
         .out = '\0';
    const double began = processor_seconds();
    const Outcome outcome = parse(parser, mutated(parser, random));
    seconds += processor_seconds() - began;
    accepted += outcome.accepted ? 1 : 0;
    peak = std::max(peak, outcome.bytes);
    if (outcome.problem.empty()) continue;
    ++failed;
    fmt::print("FAILED: {}; again: {}\n", outcome.problem, repeat);
  }
  fmt::print("{:<12}{:>10} inputs{:>10} accepted{:>6} failed{:>9.1f} s{:>8.0f} kB at most\n",
             parser.name, number - flags.first, accepted, failed, seconds,
             static_cast<double>(peak) / 1e3);
  std::fflush(stdout);
  return failed == 0;
}

/// Parses inputs of up to `bytes` bytes. A time that is linear in the size grows fourfold from an
/// input to one four times as long; the bound leaves room for caches and sorting.
bool run_costly(const Parser& parser, std::size_t bytes) {
  constexpr double most_growth = 12, too_short_to_measure = 0.05;
  constexpr std::size_t room_for_the_end = 200;
  const std::size_t size = std::min(bytes, parser.longest - room_for_the_end);
  *fmt::format_to_n(repeat, sizeof repeat - 1, "mutate {} --costly {}", parser.name, bytes).out =
      '\0';
  bool passed = true;
  for (const Costly& costly : parser.costly) {
    const Outcome quarter = parse(parser, costly.of(size / 4));
    const Outcome whole = parse(parser, costly.of(size));
    std::string problem = quarter.problem.empty() ? whole.problem : quarter.problem;
    if (whole.seconds > most_growth * std::max(quarter.seconds, too_short_to_measure))
      problem = fmt::format("{:.3f} s for a quarter, {:.3f} s for the whole", quarter.seconds,
                            whole.seconds);
    passed = passed && problem.empty();
    fmt::print("{:<12}{:>8.2f} s{:>9.1f} MB for {:.1f} MB of {}{}\n", parser.name, whole.seconds,
               static_cast<double>(whole.bytes) / 1e6, static_cast<double>(size) / 1e6,
               excerpt(costly.before.substr(0, 30) + costly.unit, 60),
               problem.empty() ? "" : "; FAILED: " + problem);
    std::fflush(stdout);
  }
  return passed;
}

Flags parse_flags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      flags.parsers.push_back(word);
      continue;
    }
    if (++i == argc) throw UsageError(word + ": needs a value");
    const std::string value = argv[i];
    if (word == "--seconds")
      flags.seconds = std::stod(value);
    else if (word == "--count")
      flags.count = std::stoull(value);
    else if (word == "--seed")
      flags.seed = std::stoull(value);
    else if (word == "--first")
      flags.first = std::stoull(value);
    else if (word == "--costly")
      flags.costly = std::stoull(value);
    else
      throw UsageError(word + ": no such flag; see the beginning of tests/fuzz/mutate.cpp");
  }
  return flags;
}

int run(const Flags& flags) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGPROF})
    ::signal(signal, give_up);
  const testing::TemporaryFolder folder;
  bool passed = true;
  for (const Parser& parser : all_parsers(folder.path().string())) {
    if (!flags.parsers.empty() && std::ranges::count(flags.parsers, parser.name) == 0) continue;
    if (flags.count > 0 || flags.seconds > 0) passed = run_mutations(parser, flags) && passed;
    if (flags.costly > 0) passed = run_costly(parser, flags.costly) && passed;
  }
  return passed ? 0 : 1;
}

}  // namespace

}  // namespace lockstep::fuzz

int main(int argc, char** argv) try {
  return lockstep::fuzz::run(lockstep::fuzz::parse_flags(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "mutate: %s\n", error.what());
  return 2;
}
