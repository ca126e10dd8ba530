#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace lockstep::exercises {

/// What a learner has done in one exercise.
struct Record {
  int attempts = 0;  ///< answers that were judged
  int hints = 0;     ///< hints that were shown, at most 3
  std::string
      solved_at;      ///< 2026-11-24T09:30:00Z; "" if not solved, "before" if the time is unknown
  std::string right;  ///< fingerprint() of the last answer that was right; "" if unknown

  bool is_solved() const { return !solved_at.empty(); }
};

/// The learner's records, in the file exercises/progress: a line for each exercise, such as
/// "02_token_ring attempts=3 hints=1 solved=2026-11-24T09:30:00Z right=85944171f73967e8". A line
/// with only a name means a solved exercise.
class Progress {
 public:
  explicit Progress(std::filesystem::path file) : file_{std::move(file)} {}

  Record of(const std::string& exercise) const;
  /// Replaces the record and writes the file, unless nothing has changed.
  void set(const std::string& exercise, const Record& record) const;

 private:
  std::map<std::string, Record> read() const;
  std::filesystem::path file_;
};

/// Returns a hash of the text, FNV-1a: 85944171f73967e8.
std::string fingerprint(const std::string& text);

/// Returns the current time in UTC: 2026-11-24T09:30:00Z.
std::string present_time();

}  // namespace lockstep::exercises
