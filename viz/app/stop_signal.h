#pragma once

namespace lockstep::viz {

/// Makes SIGINT and SIGTERM end the viewer within a second: stop_requested() becomes true, and if
/// the process is still running 0.7 s later, whatever it is doing, it exits with 128 + the signal.
void watch_stop_signals();
bool stop_requested();
/// Call this when the only remaining work is to free memory. From then on, a forced exit uses
/// `exit_code`.
void finish_with(int exit_code);

}  // namespace lockstep::viz
