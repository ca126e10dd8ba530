#!/usr/bin/env bash
# The viewer on piped input, under Xvfb: a trace from cat; a run in progress, from tail -f; and no
# port is opened.
#
#   test_view_input.sh LESSON_BINARY VIEWER_BINARY
set -uo pipefail
lesson=$1
viewer=$2
if [ -z "${DISPLAY_IS_OURS:-}" ] && command -v xvfb-run >/dev/null; then
  DISPLAY_IS_OURS=1 exec xvfb-run -a -s "-screen 0 1600x900x24" "$0" "$@"
fi
# shellcheck source=viewer.sh disable=SC2154
source "$(dirname "${BASH_SOURCE[0]}")/viewer.sh"

# Whether this process has a listening socket.
listens() {
  local descriptor inode
  for descriptor in "/proc/$1/fd"/*; do
    inode=$(readlink "$descriptor" | sed -n 's/^socket:\[\([0-9]*\)\]$/\1/p')
    if [ -n "$inode" ] && awk -v inode="$inode" '$4 == "0A" && $10 == inode {found = 1} END {exit !found}' \
      /proc/net/tcp /proc/net/tcp6; then return 0; fi
  done
  return 1
}
# tail takes the files by name, so all of them must exist.
all_traces_exist() {
  local rank
  for rank in 0 1 2 3; do [[ -e $traces/rank$rank.json ]] || return 1; done
}
port=$(free_port)
"$viewer" --size 640x360 --listen "127.0.0.1:$port" & shown=$!
within 60 is_open "$port"
claim "one that is told to listens" listens $shown
kill $shown
wait $shown || true

# During the run: the screenshot is taken as soon as all ranks have sent spans, and the run
# continues until then.
timeout 300 "$lesson" --ranks 4 --steps 1000000 --pace 0.005 --quiet --parity off --trace "$traces" &
run=$!
within 60 all_traces_exist
timeout 120 "$viewer" - --screenshot "$scratch/live.png" --when all-ranks --stats "$stats" \
  < <(tail -n +1 -f "$traces"/rank*.json --pid=$run)
claim "a run that goes on: there is a picture" test -s "$scratch/live.png"
claim "it was taken while the run went on" kill -0 "$run"
for rank in 0 1 2 3; do claim "it shows rank $rank" test "$(number $rank)" -gt 0; done

kill -TERM "$run"
wait "$run" || true

# tail continues as long as the run; the viewer ends by itself once all ranks have sent their end
# event.
rm -rf "$traces"
timeout 300 "$lesson" --ranks 4 --steps 40 --pace 0.005 --quiet --parity off --trace "$traces" &
run=$!
within 60 all_traces_exist
"$viewer" - --size 640x360 --exit-when-done --stats "$stats" < <(tail -n +1 -f "$traces"/rank*.json --pid=$run) &
shown=$!
sleep 1
claim "no port is opened" eval "! listens $shown"
wait "$run"
claim "it ends by itself when the run has" timeout 120 tail --pid="$shown" -f /dev/null
claim "it has all that was emitted ($(emitted), $(number total))" test "$(emitted)" -eq "$(number total)"
claim "names of files are not malformed" test "$(number malformed)" -eq 0

timeout 120 "$viewer" - --screenshot "$scratch/all.png" --stats "$stats" < <(cat "$traces/trace.json")
claim "a whole trace: there is a picture" test -s "$scratch/all.png"
claim "it has all that was emitted ($(emitted), $(number total))" test "$(emitted)" -eq "$(number total)"

# At the end of input, the viewer keeps the picture until it is closed.
"$viewer" - --size 640x360 --stats "$stats" <"$traces/rank0.json" &
shown=$!
# Whether the viewer has read its input file to the end.
has_read_all() {
  [[ $(awk '/^pos:/ {print $2}' "/proc/$shown/fdinfo/0" 2>/dev/null) == $(stat -c %s "$traces/rank0.json") ]]
}
claim "it reads its input to the end" within 60 has_read_all
sleep 1
claim "the end of the input leaves the picture standing" kill "$shown"
claim "and it closes well" wait "$shown"
claim "with the rank's spans" test "$(number 0)" -eq "$(grep -c '"ph":"X"' "$traces/rank0.json")"

run "$viewer" - </dev/null
claim "nothing but an end is refused" ended 2
claim "in one line" complains_in_one_line
run "$viewer" - "$traces"
claim "a file beside - is refused" ended 2
claim "in one line" complains_in_one_line
conclude
