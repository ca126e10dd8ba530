#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/run/options/lesson_info.h"
#include "core/run/options/model_flags.h"
#include "core/run/options/options.h"

namespace lockstep {

/// The flags as the user gave them, not yet checked against one another.
struct Given {
  enum class Clock { automatic, wall, modelled };
  enum class Comm { automatic, native, ring };
  enum class Launch { automatic, threads, mpi };
  ModelFlags shape;
  std::optional<int> documents;
  std::string order = "tp,cp,dp,pp";  ///< the mesh's axes from the innermost
  std::string microbatches;
  Clock clock = Clock::automatic;
  Comm comm = Comm::automatic;
  Launch launch = Launch::automatic;
  DType precision = DType::f32;
  std::string time;
  std::string slow;
  std::string freeze;
  std::string split;
  std::string view_token, view_token_file;
  std::optional<int> ranks;
  std::array<std::optional<int>, all_axes_count> sizes{};  ///< --dp, --pp, ..., by Axis
  double pace = 0;
  double learning_rate = 1e-3;
  double clip = 0;

  /// Whether a flag is given that only the modelled clock supports.
  bool wants_modelled() const { return !time.empty() || !slow.empty() || pace > 0; }
};

constexpr int largest_number = 1 << 28;
constexpr std::int64_t largest_count = std::int64_t{1} << 40;

/// Parses a whole number of at least `least`. Returns nothing if `text` is anything else, or if the
/// number is above largest_number.
std::optional<int> whole_number(const std::string& text, int least);
/// Like whole_number, for numbers up to largest_count.
std::optional<std::int64_t> whole_count(const std::string& text, std::int64_t least);
/// Returns why whole_number() refuses `text`: "must be a whole number of at least 1", or, if only
/// its size is wrong, "must be at most 268435456".
std::string why_refused(const std::string& text, int least, std::int64_t largest = largest_number);

/// Parses comma-separated numbers of at least `least`; throws UsageError with the flag's name.
std::vector<int> number_list(const std::string& flag, const std::string& text, int least);

/// Resolves the flags that depend on one another: ranks and mesh, the clock, the sweep. Throws
/// UsageError with one line for combinations that are not supported.
void settle(const Given& given, const LessonInfo& info, Options& options);

}  // namespace lockstep
