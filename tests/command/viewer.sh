# For tests of a run together with the viewer, under Xvfb: source this file with $lesson and $viewer
# set. Output files go to $scratch.
# shellcheck shell=bash
command -v xvfb-run >/dev/null || { echo "skipped: there is no xvfb-run"; exit 77; }
display=${DISPLAY-}
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
[[ -z $display ]] || export DISPLAY=$display
stats=$scratch/stats.json
traces=$scratch/run

# number KEY: the first number after "KEY": in the viewer's statistics.
number() { grep -o "\"$1\": [0-9.]*" "$stats" | head -n 1 | grep -o '[0-9.]*$'; }
free_port() {
  local port
  for port in $(shuf -i 20000-30000 -n 50); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}
# Whether a process listens on this host's port.
is_open() { grep -q ":$(printf %04X "$1") 00000000:0000 0A" /proc/net/tcp; }
# The number of spans in the run's traces: as their end events state it, and as counted.
emitted() {
  grep -h '"name":"end"' "$traces"/rank*.json | grep -o '"spans":[0-9]*' | grep -o '[0-9]*' |
    awk '{s += $1} END {print s}'
}
written() { cat "$traces"/rank*.json | grep -c '"ph":"X"'; }
