#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lessons/20_when_ranks_die/goodput/failures.h"

namespace lockstep {

/// What a job does about a failure. --strategy has these names.
enum class Strategy : std::uint8_t { restart, memory, quorum, spares };
std::string name_of(Strategy strategy);

/// A request to ./lockstep goodput. All durations are in seconds.
struct GoodputRequest {
  std::vector<int> ranks{8, 64, 512, 4096, 16384};
  std::optional<Strategy> strategy = Strategy::restart;  ///< empty: compares all
  std::string published{};                               ///< reproduces these figures instead

  double device_mtbf = 0;  ///< mean time between failures of one device
  Law law = Law::exponential;
  double shape = 0.7;                              ///< of Weibull's distribution
  std::optional<std::pair<double, double>> every;  ///< the job's failures, uniform in this range

  double step = 0;
  std::optional<int> interval;     ///< steps
  std::optional<int> steps, runs;  ///< finite runs; otherwise one long run
  int failures = 20'000;
  int seed = 1;

  double checkpoint = 0, hidden = 0, detect = 0, restart = 0;
  double snapshot = 0, transfer = 0, write = 0, reload = 0;
  int replicas = 8;
  double replace = 0, heal = 0;
  int spares = 16;
  double takeover = 0, repair = 0;

  std::string report{};  ///< a file for the result as JSON
};

/// The mean time between failures of one GPU in the training of Llama 3 405B, in hours: 419
/// unexpected interruptions in 54 days on 16,384 GPUs (Grattafiori 2024, section 3.3.4, table 5).
constexpr double llama3_device_hours = 54 * 24.0 * 16384 / 419;

/// Parses the flags. Returns nothing if they ask for help, which is then printed. Throws
/// UsageError.
std::optional<GoodputRequest> parse_goodput(int argc, char** argv);

}  // namespace lockstep
