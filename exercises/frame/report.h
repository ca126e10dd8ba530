#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep::exercises {

/// The exit codes of a check, and of its supervisor.
constexpr int right_code = 0, refused_code = 2, not_written_code = 3, wrong_code = 4;

/// No check uses more ranks than this.
constexpr int most_ranks = 12;

/// The report about one process of a check to the check's supervisor (exercises/supervise). The
/// memory is shared with that process, which can therefore report even without open descriptors.
struct Report {
  /// A random number from the supervisor. The check takes it at its start, and puts it into `seal`
  /// after its verdict. An answer that ends the process, or prints "solved", gives no verdict.
  std::uint64_t key;
  std::uint64_t seal;
  std::int32_t code;
  std::int64_t verdict_time;        ///< of std::chrono::steady_clock
  std::int32_t is_stuck;            ///< whether it has waited for another rank too long
  std::array<char, 1024> trial;     ///< the current case, "3 ranks"; "" before the first
  std::array<char, 48 << 10> text;  ///< the verdict in words

  // The process's parent writes these.
  std::int32_t has_ended;  ///< whether it has ended or been stopped by a signal
  std::int32_t status;     ///< from waitpid()
  std::int64_t end_time;
};

/// Copies as much of `text` as fits, followed by a 0.
template <std::size_t size>
void put(std::array<char, size>& into, const std::string& text) {
  const std::size_t length = text.copy(into.data(), size - 1);
  into[length] = '\0';
}

/// One Report per rank, in a file in memory.
class Reports {
 public:
  /// Creates the file. It lives as long as this object, or a mapping of it.
  explicit Reports(int count);
  /// Maps the file that another process has created.
  Reports(const std::string& path, int count);
  ~Reports();
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  /// The path at which other processes on this host can open the file. Call this in the process
  /// that has created it.
  std::string path() const;
  std::span<Report> all() { return {reports_, static_cast<std::size_t>(count_)}; }

 private:
  void map();
  int descriptor_;
  int count_;
  Report* reports_ = nullptr;
};

/// Reports one rank's check to its supervisor. Does nothing if there is no supervisor, or in a
/// process that the answer has forked.
class Reporter {
 public:
  /// `path` is the supervisor's Reports::path(); "" if there is no supervisor.
  Reporter(const std::string& path, int rank, int ranks);

  bool has_supervisor() const { return reports_ != nullptr; }
  /// Reports that the check now tries this case.
  void try_case(const std::string& what);
  /// Reports that this rank has waited for another one too long. Returns when all of the first
  /// `ranks` ranks have reported this (at once if they wait for each other), but after `patience`
  /// at the latest: a rank that others wait for may be about to end with a better reason.
  void wait_until_all_are_stuck(int ranks, std::chrono::seconds patience);
  /// Reports that the check is over.
  void give_verdict(int code, const std::string& text);

 private:
  std::unique_ptr<Reports> reports_;
  Report* report_ = nullptr;
  std::uint64_t key_ = 0;
  pid_t process_;
};

}  // namespace lockstep::exercises
