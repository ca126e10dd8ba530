#!/usr/bin/env bash
# Measures the viewer's speed with software OpenGL under Xvfb, at 1280x720:
#   navigate   frames while panning and zooming through ten million spans
#   live       200,000 spans per second arriving: frames per second, and the time from a span's end to its frame
#   idle       the CPU time that an idle viewer takes: with files open, and while waiting for a run
# Figures depend on the machine and on what else runs there; the first line shows both.
#
#   viewer_speed.sh BUILD_DIR [navigate|live|idle ...]
set -euo pipefail
build=$(readlink -f "$1")
shift
[[ $# -gt 0 ]] || set -- navigate live idle
spans=${SPANS:-10000000}
rate=${RATE:-200000}
seconds=${SECONDS_LIVE:-10}
if [[ -z ${DISPLAY_IS_OURS:-} ]]; then
  what=("$@")
  DISPLAY_IS_OURS=1 exec xvfb-run -a -s "-screen 0 1280x720x24" "$0" "$build" "${what[@]}"
fi
export LIBGL_ALWAYS_SOFTWARE=1
scratch=$(mktemp -d)
children=()
cleanup() {
  [[ ${#children[@]} -eq 0 ]] || kill "${children[@]}" 2>/dev/null || true
  wait
  rm -rf "$scratch"
}
trap cleanup EXIT
viewer=$build/viz/lockstep_view
speed=$build/tests/bench/viewer_speed

# cpu_of PID: the CPU time of a process so far, in seconds
cpu_of() { awk -v ticks="$(getconf CLK_TCK)" '{print ($14 + $15) / ticks}' "/proc/$1/stat"; }
# idle_use NAME PID: waits until the process has settled, and prints its CPU time in the next 10 s
idle_use() {
  sleep 3
  local before after
  before=$(cpu_of "$2")
  sleep 10
  after=$(cpu_of "$2")
  awk -v name="$1" -v before="$before" -v after="$after" \
    'BEGIN {printf "%-34s %.2f %% of a core\n", name, 10 * (after - before)}'
}
is_open() { grep -q ":$(printf %04X "$1") 00000000:0000 0A" /proc/net/tcp; }

echo "$(nproc) cores, load average $(cut -d' ' -f1-3 /proc/loadavg)"
for what in "$@"; do
  echo
  echo "== $what"
  case $what in
    navigate)
      "$build/tests/large_trace" "$scratch/large" "$spans" 8
      "$speed" navigate "$scratch/large"
      rm -r "$scratch/large"
      ;;
    live)
      port=$(shuf -i 20000-30000 -n 1)
      "$viewer" --no-settings --listen "127.0.0.1:$port" --size 1280x720 --stats "$scratch/stats.json" --exit-when-done &
      shown=$!
      children+=("$shown")
      until is_open "$port"; do sleep 0.1; done
      "$speed" send "127.0.0.1:$port" "$rate" "$seconds" 8 "$scratch/live"
      wait "$shown"
      grep -E '"(total|malformed|frames|seconds)"' "$scratch/stats.json"
      grep -A 6 '"latency_ms"' "$scratch/stats.json"
      grep -A 16 '"frame_times_ms"' "$scratch/stats.json"
      ;;
    idle)
      "$build/tests/large_trace" "$scratch/small" 100000 8
      "$viewer" --no-settings "$scratch/small" --size 1280x720 & children+=($!)
      idle_use "idle, with a trace open" $!
      kill $!
      port=$(shuf -i 20000-30000 -n 1)
      "$viewer" --no-settings --listen "127.0.0.1:$port" --size 1280x720 & children+=($!)
      idle_use "idle, waiting for a run" $!
      kill $!
      ;;
    *) echo "viewer_speed.sh: unknown: $what" >&2; exit 2 ;;
  esac
done
