#!/usr/bin/env bash
# The viewer opens ten million spans of 8 ranks (1.3 GB of JSON) in 0.6 GB of resident memory. Prints the time that this
# takes. With --in-time, checks that it is at most 2 s, which requires an idle machine.
#
#   test_large_trace.sh GENERATOR VIEWER_BINARY [--in-time]
set -uo pipefail
generator=$1
viewer=$2
in_time=${3:-}
if [ -z "${DISPLAY_IS_OURS:-}" ] && command -v xvfb-run >/dev/null; then
  DISPLAY_IS_OURS=1 exec xvfb-run -a -s "-screen 0 1600x900x24" "$0" "$@"
fi
# shellcheck source=viewer.sh disable=SC2154
source "$(dirname "${BASH_SOURCE[0]}")/viewer.sh"

spans=10000000
"$generator" "$traces" $spans 8
"$viewer" "$traces" --screenshot "$scratch/large.png" --stats "$stats" & shown=$!
# Reads the kernel's count of peak memory until the process ends.
resident=0
while seen=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$shown/status" 2>/dev/null) && [ -n "$seen" ]; do
  resident=$seen
  sleep 0.05
done
claim "the viewer opens ten million spans" wait $shown
claim "all spans are there" test "$(number total)" -ge $spans
claim "the kernel counted its memory" test "$resident" -gt 10000
claim "at most 0.6 GB is resident: $resident kB" test "$resident" -le 600000
seconds=$(grep -A 1 '"screenshot"' "$stats" | grep -o '[0-9.]*' | head -n 1)
echo "opened and drawn after $seconds s, with $resident kB resident"
[[ $in_time != --in-time ]] || claim "in at most 2 s" awk "BEGIN {exit !($seconds <= 2)}"
conclude
