#!/usr/bin/env bash
# Attacks the viewer, with Xvfb: 18 wrong hellos, 300 idle connections, and three ranks that send as fast as they can.
# The viewer's memory must stay near --memory, the ranks must wait, a new run must replace theirs and free its memory,
# and SIGTERM must end the viewer within a second, during the flood and while it opens a file.
#
#   test_flood.sh VIEWER_BINARY [--full]
#
# --full floods with 10 GB, and also requires a frame within a second and at most 100 bytes per span,
# which depend on the machine's load and on the build.
set -uo pipefail
viewer=$1
full=${2-}
if [ -z "${DISPLAY_IS_OURS:-}" ] && command -v xvfb-run >/dev/null; then
  DISPLAY_IS_OURS=1 exec xvfb-run -a -s "-screen 0 1600x900x24" "$0" "$@"
fi
here=$(dirname "${BASH_SOURCE[0]}")
lesson=''
# shellcheck source=viewer.sh disable=SC2154
source "$here/viewer.sh"
command -v perl >/dev/null || { echo "skipped: there is no perl"; exit 77; }
clients=()
shown=''
trap 'kill -9 $shown "${clients[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT
client() { perl "$here/flood.pl" "$@" 2>>"$scratch/clients" & clients+=($!); }
# The address sanitizer keeps freed memory, and takes more than --memory allows from the start.
sanitized=$(grep -c __asan_init "$viewer")
memory_now() { awk '/^VmRSS:/ {print int($2 / 1024)}' "/proc/$shown/status"; }
memory_peak() { awk '/^VmHWM:/ {print int($2 / 1024)}' "/proc/$shown/status"; }

if [ -n "$full" ]; then limit=2048 flood=3400 soon=1000; else limit=256 flood=300 soon=10000; fi
port=$(free_port)
listen() { # [VIEWER_FLAGS]
  "$viewer" --size 640x360 --listen "127.0.0.1:$port" --memory "${limit}MB" --stats "$stats" "$@" 2>"$scratch/err" &
  shown=$!
  within 60 is_open "$port"
}
# Ends the viewer by SIGTERM, which must not take more than a second.
terminate() {
  local began
  began=$(date +%s%N)
  kill -TERM "$shown"
  wait "$shown"
  code=$?
  took=$((($(date +%s%N) - began) / 1000000))
}

listen
sleep 1
empty=$(memory_now)
client idle "$port" 300
claim "18 wrong hellos are turned away" [ "$(timeout 100 perl "$here/flood.pl" wrong "$port")" = 18 ]
for rank in 0 1 2; do client spans "$port" flood $rank $flood; done
says_full() { grep -q 'limit of' "$scratch/err"; }
claim "the viewer says that it reads no more" within 500 says_full
sleep 2
peak=$(memory_peak)
echo "$empty MB before the flood, $peak MB at its peak, with a limit of $limit MB"
# The limit does not cover what the viewer has received but not yet parsed.
[ "$sanitized" -gt 0 ] || claim "its memory stays near the limit" [ "$peak" -lt $((limit + 64)) ]
client spans "$port" after 0 1
if [ -n "$full" ]; then client lines "$port" after 1 3000; client lines "$port" after 2 3000; sleep 20; fi
smaller() { [ "$(memory_now)" -lt $((empty + 100)) ]; }
[ "$sanitized" -gt 0 ] || claim "a new run frees the memory" within 60 smaller
echo "$(memory_now) MB with the next run"
client spans "$port" again 0 $flood
if [ -n "$full" ]; then sleep 15; else sleep 1; fi
terminate
echo "SIGTERM during a flood: $took ms, exit code $code"
claim "SIGTERM ends the viewer at once" [ "$took" -lt "$soon" ]
if [ -n "$full" ]; then
  spans=$(number total)
  each=$((($(number resident_bytes) - empty * 1024 * 1024) / spans))
  claim "a span takes at most 100 bytes ($spans spans, $each bytes each)" [ "$each" -le 100 ]
  echo "$spans spans, $each bytes each"
  perl "$here/flood.pl" file 100 >"$scratch/part"
  for _ in {1..20}; do cat "$scratch/part"; done >"$scratch/huge.json"
  "$viewer" "$scratch/huge.json" 2>/dev/null &
  shown=$!
  sleep 2
  terminate
  echo "SIGTERM while a file of 2 GB is opened: $took ms, exit code $code"
  claim "SIGTERM ends the viewer at once while it opens a file" [ "$took" -lt "$soon" ]
  claim "every frame took less than a second ($(number longest_frame_ms) ms, of the processor $(number longest_frame_cpu_ms) ms)" \
    [ "$(number longest_frame_ms | cut -d. -f1)" -lt 1000 ]
fi
conclude
