#pragma once

namespace lockstep {

struct ActiveRun;

/// Concludes a successful run, on rank 0, once the traces are written and `run.collected` is
/// complete: merges the traces, compares losses and parameters with those of a single-device run,
/// writes results.json, report.json and operations.json, and sets `run.farewell`, which starts the
/// reader. Returns the exit code: 1 if parity failed. Throws RunError if a loss is not finite.
int conclude(ActiveRun& run);

}  // namespace lockstep
