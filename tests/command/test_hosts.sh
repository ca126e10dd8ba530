#!/usr/bin/env bash
# Runs over two hosts, with the viewer on a third. The hosts are network namespaces on this machine,
# each with its own name, clock and run folder (one clock is a day ahead), joined by a bridge;
# mpirun reaches them through an agent that enters them. Needs root and iproute2; skipped (77) if
# namespaces cannot be created. Prints "N passed, N failed".
#
#   test_hosts.sh LESSON [VIEWER]      LESSON is a pipeline's, such as lesson_09_1f1b
set -uo pipefail

skip() { echo "skipped: $1"; exit 77; }
if [[ ${LOCKSTEP_TEST_INSIDE-} != 1 ]]; then
  for program in ip unshare nsenter mpirun perl pgrep; do
    command -v $program >/dev/null || skip "there is no $program"
  done
  unshare --net --mount --uts ip link add one type veth peer name two 2>/dev/null ||
    skip "no network namespaces here (that wants root)"
  # Everything below runs in its own namespaces, which disappear with their last process.
  LOCKSTEP_TEST_INSIDE=1 exec unshare --net --mount -- "$0" "$@"
fi
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$1 viewer=${2-}
holders=()
trap 'end_all; kill "${holders[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT
processes() { pgrep -f -- "--trace $runs/" ; }
nobody() { [[ -z $(processes) ]]; }
end_all() { local all; all=$(processes) && xargs kill -KILL <<<"$all" 2>/dev/null; }

# --- Three hosts ---------------------------------------------------------------------------------

day=86400
time_namespaces=''
unshare --time --monotonic $day --fork true 2>/dev/null && time_namespaces=1
runs=$scratch/runs data=$scratch/data
mkdir "$runs" "$data"
seq 1 2000 >"$scratch/text"
seq 1 2000 >"$data/only_on_a"
ip link set lo up
ip link add bridge type bridge
ip link set bridge up

# Starts a process that keeps host NAME alive; host-b's clock is a day ahead of the others'.
make_host() { # NAME NUMBER
  local clock=()
  [[ $1 == b && -n $time_namespaces ]] && clock=(--time --monotonic $day)
  unshare --net --uts --mount ${clock[@]+"${clock[@]}"} --fork sleep 600 &
  holders+=($!)
  within 60 pgrep -P $! sleep >/dev/null
  pgrep -P $! sleep >"$scratch/host-$1"
  holders+=("$(<"$scratch/host-$1")")
  ip link add "to-$1" type veth peer name eth0 netns "$(<"$scratch/host-$1")"
  ip link set "to-$1" master bridge up
  on "$1" sh -c "hostname host-$1; ip link set lo up; ip addr add 10.77.0.$2/24 dev eth0; ip link set eth0 up
    mount -t tmpfs none '$runs'"
}
# on NAME COMMAND...: runs a command there. (Entering a mount namespace changes to /, so this
# changes back.)
{
  echo '#!/usr/bin/env bash'
  declare -p scratch time_namespaces
  cat <<'END'
enter=(nsenter --target "$(<"$scratch/host-$1")" --net --uts --mount "--wd=$scratch")
[[ $1 != b || -z $time_namespaces ]] || enter+=(--time)
shift
exec "${enter[@]}" -- "$@"
END
} >"$scratch/on"
# The launch agent that mpirun uses instead of ssh: agent ADDRESS COMMAND.
cat >"$scratch/agent" <<END
#!/usr/bin/env bash
case \$1 in 10.77.0.1 | host-a) name=a ;; 10.77.0.2 | host-b) name=b ;; *) exit 1 ;; esac
shift
exec '$scratch/on' \$name sh -c "\$*"
END
chmod +x "$scratch/on" "$scratch/agent"
PATH=$scratch:$PATH
make_host a 1
make_host b 2
make_host viewer 3
on b mount -t tmpfs none "$data"

printf '10.77.0.1 slots=2\n10.77.0.2 slots=2  # the other\n' >"$scratch/hosts"
export OMPI_MCA_plm_rsh_agent=$scratch/agent OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# --- A good run ----------------------------------------------------------------------------------

trace=$runs/good
watched=()
if [[ -n $viewer ]] && command -v xvfb-run >/dev/null; then
  on viewer timeout 200 xvfb-run -a -s '-screen 0 1600x900x24' "$viewer" --listen 0.0.0.0:7077 --token secret \
    --stats "$scratch/stats.json" --exit-when-done >"$scratch/viewer.log" 2>&1 &
  shown=$!
  listens() { on viewer grep -q ':1BA5 00000000:0000 0A' /proc/net/tcp; }
  within 60 listens
  watched=(--view 10.77.0.3:7077 --view-token secret)
else
  echo "no viewer here: a run is not watched from a third host"
fi
run on a "$lesson" --data "$scratch/text" --launch mpi --hostfile "$scratch/hosts" --trace "$trace" --steps 20 \
  --clock wall --report "$scratch/report.json" ${watched[@]+"${watched[@]}"}
claim 'a run over two hosts is good' ended 0
claim 'it says where ranks are' says 'on 2 hosts: host-a (ranks 0, 1), host-b (ranks 2, 3)'
claim 'it says how well clocks agree' grep -qE 'aligned to within [0-9.]+ µs' <<<"$out"
claim 'it is what one device computes, to the bit' grep -q '"bitwise": true' "$scratch/report.json"

# The hosts have no common file system: the ranks of host b send their parts to rank 0.
saves=(--data "$scratch/text" --trace none --steps 3 --clock modelled --parity off --quiet)
run on a "$lesson" "${saves[@]}" --launch mpi --hostfile "$scratch/hosts" --save "$runs/saved" --export "$runs/gpt2"
claim 'a run over two hosts saves and exports' ended 0
on a cp -r "$runs/saved" "$runs/gpt2" "$scratch"
mkdir "$scratch/here"
run "$lesson" "${saves[@]}" --save "$scratch/here/saved" --export "$scratch/here/gpt2"
claim 'a run on one host does, too' ended 0
claim 'both have saved the same files' diff -r "$scratch/here/saved" "$scratch/saved"
claim 'and exported the same files' diff -r "$scratch/here/gpt2" "$scratch/gpt2"
claim 'nothing is on the other host' [ -z "$(on b sh -c "cd '$runs' && ls -d saved* gpt2*" 2>/dev/null)" ]

on a cp -r "$trace" "$scratch/of-a"
on b cp -r "$trace" "$scratch/of-b"
claim 'each host has its own ranks'\'' traces' [ "$(cd "$scratch/of-b" && echo *)" = 'rank2.json rank3.json' ]
for rank in 0 1 2 3; do
  claim "rank 0's host has rank $rank's" test -s "$scratch/of-a/rank$rank.json"
done
for rank in 2 3; do
  claim "rank $rank's is the one of its host" cmp "$scratch/of-a/rank$rank.json" "$scratch/of-b/rank$rank.json"
done
count() { cat "$@" | grep -c '"ph":"X"'; }
emitted() { grep -h '"name":"end"' "$@" | grep -o '"spans":[0-9]*' | awk -F: '{s += $2} END {print s}'; }
claim 'all spans are in the merged trace' [ "$(count "$scratch/of-a/trace.json")" = "$(emitted "$scratch"/of-a/rank?.json)" ]
if ((${#watched[@]})); then
  wait "$shown"
  number() { grep -o "\"$1\": [0-9.]*" "$scratch/stats.json" | head -n 1 | grep -o '[0-9.]*$'; }
  claim 'and all have come to the viewer' [ "$(number total)" = "$(emitted "$scratch"/of-a/rank?.json)" ]
  claim 'and none malformed' [ "$(number malformed)" = 0 ]
fi

# Each message arrives after it was sent, allowing 10 s for MPI to notice its completion; with
# clocks a day apart, this requires the measured offset.
messages_in_order() {
  perl -e 'while (<>) {
      next unless /"ts":(-?[\d.]+),"dur":([\d.]+),"bind_id":(\d+),"flow_(in|out)"/;
      $4 eq "out" ? ($s{$3} = $1) : ($f{$3} = $1 + $2) }
    for (keys %s) { exists $f{$_} or die "message $_ has not come"; $n++;
      $f{$_} + 1e7 > $s{$_} or die "message $_ left at $s{$_} and came at $f{$_}" }
    $n > 100 or die "$n messages"' "$scratch/of-a/trace.json"
}
claim 'messages come after they have left' messages_in_order
hello() { grep -m 1 -o "\"$2\":[0-9-]*" "$scratch/of-a/rank$1.json" | grep -o '[0-9-]*$'; }
if [[ -n $time_namespaces ]]; then
  echo "clocks are aligned to within $(hello 2 clock_uncertainty_ns) ns"
  for rank in 0 1; do claim "rank $rank has rank 0's clock" [ "$(hello $rank clock_uncertainty_ns)" = 0 ]; done
  for rank in 2 3; do
    error=$(($(hello $rank clock_offset_ns) - $(hello 0 clock_offset_ns) - day * 1000000000))
    claim "rank $rank's clock is known as well as is said (wrong by ${error#-} ns)" \
      [ "${error#-}" -le "$(hello $rank clock_uncertainty_ns)" ]
    claim "and that is not perfectly" [ "$(hello $rank clock_uncertainty_ns)" -gt 0 ]
  done
  claim 'ranks of one host have one clock' [ "$(hello 2 clock_offset_ns)" = "$(hello 3 clock_offset_ns)" ]
else
  echo "no time namespaces here: both hosts have one clock"
fi

run on a "$lesson" --data "$scratch/text" --launch mpi --hosts 10.77.0.1:1,10.77.0.2:1 --ranks 2 --trace "$runs/list" \
  --steps 2 --parity off
claim 'hosts are named on the command line too' ended 0
claim 'and are where ranks are' says 'on 2 hosts: host-a (rank 0), host-b (rank 1)'
run on a mpirun --hostfile "$scratch/hosts" -n 4 "$lesson" --data "$scratch/text" --launch mpi --trace "$runs/direct" \
  --steps 2 --parity off
claim 'without our wrapper it is the same' ended 0
claim 'with its hosts' says 'on 2 hosts: host-a (ranks 0, 1), host-b (ranks 2, 3)'
for rank in 0 1 2 3; do claim "and rank $rank's trace" on a test -s "$runs/direct/rank$rank.json"; done

# --- Errors without a second host -----------------------------------------------------------------

run on a "$lesson" --data "$data/only_on_a" --launch mpi --hostfile "$scratch/hosts" --trace "$runs/refused" --steps 2
claim 'a file that only one host has: exit code 2' ended 2
claim 'and one line' complains_in_one_line
claim 'that names it' complains only_on_a

# --- Endings -------------------------------------------------------------------------------------

start() { # NAME FLAGS...
  trace=$runs/$1
  shift
  on a setsid "$lesson" --data "$scratch/text" --launch mpi --hostfile "$scratch/hosts" --trace "$trace" \
    --steps 1000000 --parity off "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
  run=$!
  within 60 is_under_way
  claim 'a run is under way' is_under_way
}
is_under_way() {
  on a test -s "$trace/rank0.json" && [[ $(on b stat -c %s "$trace/rank2.json" 2>/dev/null) -ge 20000 ]]
}
rank_process() { # RANK
  local process
  for process in $(processes); do
    tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -x "OMPI_COMM_WORLD_RANK=$1" >/dev/null && echo "$process" && return
  done
}
for victim in 1 3; do
  start "kill-$victim"
  host=$([[ $victim == 1 ]] && echo host-a || echo host-b)
  began=$(date +%s%N)
  kill -KILL "$(rank_process $victim)"
  await
  echo "rank $victim killed: over after $((($(date +%s%N) - began) / 1000000)) ms"
  claim "rank $victim killed: exit code 1" ended 1
  claim "rank $victim killed: named, with its host and signal" complains "rank $victim on $host exited on signal 9"
  claim "rank $victim killed: told once" [ "$(grep -c 'the run failed' <<<"$err")" = 1 ]
  for rank in 0 1 2 3; do
    [[ $rank == "$victim" ]] && continue
    claim "rank $victim killed: what rank $rank was doing" \
      grep -qE "^  rank $rank on host-[ab]:\$" <<<"$err"
  done
  claim "rank $victim killed: where the others' traces are" complains "and that of ranks 2, 3 in $trace on host-b"
  claim "rank $victim killed: nobody stays" within 30 nobody
  for rank in 0 1; do claim "rank $victim killed: rank $rank's trace is there" on a test -s "$trace/rank$rank.json"; done
  claim "rank $victim killed: with what is here merged" on a test -s "$trace/trace.json"
done

start interrupted
kill -TERM "$(pgrep -o -f -- "$lesson --data $scratch/text --launch mpi --hostfile $scratch/hosts --trace $trace")"
await
claim 'interrupted: exit code 130' ended 130
claim 'interrupted: says so' complains 'interrupted; the trace up to that point is in'
claim 'interrupted: nobody stays' within 30 nobody

conclude
