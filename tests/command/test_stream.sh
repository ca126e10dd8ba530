#!/usr/bin/env bash
# A run's viewer under Xvfb, with restarts and bad input. If it is killed and restarted during the run (five times
# with --all, otherwise twice), it has every span in the end. It skips and counts malformed lines.
#
#   test_stream.sh LESSON_BINARY VIEWER_BINARY
set -euo pipefail
lesson=$1
viewer=$2
# One display for all viewers, so that each viewer is a single process to kill.
if [ -z "${DISPLAY_IS_OURS:-}" ] && command -v xvfb-run >/dev/null; then
  DISPLAY_IS_OURS=1 exec xvfb-run -a -s "-screen 0 1600x900x24" "$0" "$@"
fi
# shellcheck source=viewer.sh
source "$(dirname "${BASH_SOURCE[0]}")/viewer.sh"
shown=
running=
trap '[ -n "$shown" ] && kill -9 "$shown" 2>/dev/null; [ -n "$running" ] && kill -9 "$running" 2>/dev/null; rm -rf "$scratch"' EXIT

# listen [VIEWER_FLAGS]: starts a viewer in the background, as $shown, and returns when it listens.
listen() {
  "$viewer" --size 640x360 --listen "127.0.0.1:$port" "$@" &
  shown=$!
  within 60 is_open "$port" || echo "the viewer does not listen"
}

# The run stands still while a viewer starts, because a busy machine may take longer for that than for the whole run.
port=$(free_port)
"$lesson" --ranks 4 --steps "$(portion_of 60 15)" --pace 0.001 --quiet --parity off --trace "$traces" --view "127.0.0.1:$port" &
running=$!
for _ in $(portion 2 1 2 3 4 5); do
  kill -STOP "$running"
  listen
  kill -CONT "$running"
  sleep 0.7
  claim "the run goes on while viewers come and go" kill -0 "$running"
  kill -9 "$shown"
  wait "$shown" 2>/dev/null || true
  sleep 0.2
done
kill -STOP "$running"
listen --stats "$stats" --exit-when-done
kill -CONT "$running"
claim "the run ends well" wait "$running"
running=
claim "the viewer ends by itself" timeout 120 tail --pid="$shown" -f /dev/null
shown=
claim "all that was emitted is in the files ($(emitted), $(written))" test "$(emitted)" -eq "$(written)"
claim "and in the last viewer ($(number total))" test "$(emitted)" -eq "$(number total)"
claim "no line was malformed" test "$(number malformed)" -eq 0

# The four ranks' traces again, as any client could send them, one with malformed lines.
listen --stats "$stats" --exit-when-done
for rank in 0 1 2 3; do
  trace=$traces/rank$rank.json
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  sed -n 2p "$trace" >&3
  read -r answer <&3
  claim "rank $rank is asked for its trace ($answer)" test "$answer" = "resume 0"
  head -n 20 "$trace" >&3
  if [ "$rank" = 2 ]; then printf '{"ph":"X","name":\nnonsense\n\xff\xfe{}{}\n{"ph":"X","dur":1}\n' >&3; fi
  tail -n +21 "$trace" >&3
  exec 3>&-
done
claim "the viewer ends by itself, malformed lines or not" timeout 120 tail --pid="$shown" -f /dev/null
shown=
claim "four lines are told to be malformed ($(number malformed))" test "$(number malformed)" -eq 4
claim "all others are there ($(number total))" test "$(emitted)" -eq "$(number total)"
conclude
