#!/usr/bin/env bash
# Runs whose viewer misbehaves: it accepts and never reads, never accepts, sends garbage, hangs up, or
# refuses. Each run must end as usual, soon after its last step, with every span in its files. Also checks that the
# viewer's token is on no process's command line. Prints "N passed, N failed".
#
#   test_viewers.sh LESSON_BINARY
set -uo pipefail
lesson=$1
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
command -v perl >/dev/null || { echo "skipped: there is no perl"; exit 77; }
listeners=()
trap 'kill "${listeners[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT

# Starts a server of the given kind, which writes its port to a file.
serve() { # KIND
  timeout 200 perl -MIO::Socket::INET -e '
    my ($kind, $file) = @ARGV;
    $SIG{PIPE} = "IGNORE";
    my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 16) or die;
    open F, ">", "$file.new"; print F $listener->sockport; close F; rename "$file.new", $file;
    sleep 1000 if $kind eq "unaccepting";
    my @kept;
    while (my $peer = $listener->accept) {
      next if $kind eq "hanging-up";
      if ($kind eq "garbage") { my $junk = join "", map { chr int rand 256 } 1 .. 65536;
        $junk =~ tr/\n/x/; while (syswrite $peer, $junk) {} next }
      push @kept, $peer;
      next if $kind eq "silent";
      my $hello = <$peer>;
      syswrite $peer, "refused: another run is shown\n" if $kind eq "refusing";
      syswrite $peer, "resume 0\n" if $kind eq "deaf";
      syswrite $peer, "resume 17x\n" if $kind eq "babbling";
    }' "$1" "$scratch/port-$1" &
  listeners+=($!)
  within 60 test -s "$scratch/port-$1"
}
emitted() { grep -h '"name":"end"' "$1"/rank*.json | grep -o '"spans":[0-9]*' | awk -F: '{s += $2} END {print s}'; }
written() { cat "$1"/rank*.json | grep -c '"ph":"X"'; }

# Under mpi, one process per rank streams just as one process with all ranks does, so two kinds suffice.
kinds_of() { if [ "$1" = mpi ]; then echo silent garbage; else echo "${kinds[@]}"; fi; }
kinds=(unaccepting silent deaf garbage hanging-up babbling refusing)
launches=(threads)
if command -v mpirun >/dev/null; then launches+=(mpi); fi
for kind in "${kinds[@]}"; do serve "$kind"; done
# Starts all runs at the same time, because most of them wait some seconds for their viewer at the end.
declare -A running
for launch in "${launches[@]}"; do
  for kind in $(kinds_of $launch); do
    { timeout 120 "$lesson" --launch "$launch" --ranks 2 --steps 3 --quiet --parity off --kernels \
        --trace "$scratch/$launch-$kind" --view "127.0.0.1:$(<"$scratch/port-$kind")" \
        >"$scratch/out-$launch-$kind" 2>&1 </dev/null; } &
    running[$launch-$kind]=$!
  done
done
for launch in "${launches[@]}"; do
  for kind in $(kinds_of $launch); do
    wait "${running[$launch-$kind]}"
    code=$? out=$(<"$scratch/out-$launch-$kind") err=''
    claim "$launch, $kind viewer: the run ends as usual" ended 0
    trace=$scratch/$launch-$kind
    claim "$launch, $kind viewer: every span is in its files" \
      [ "$(emitted "$trace")" = "$(written "$trace")" ]
    case $kind in
      unaccepting | silent) claim "$launch, $kind viewer: says so" says 'has not read the whole trace' ;;
      refusing) claim "$launch, $kind viewer: says so" says 'refused this run: refused: another run' ;;
    esac
  done
done

# Passes the token in each of the three ways. It may appear only on the command line of `timeout`, which this test
# starts.
secret=s3cr3t$RANDOM
(umask 077 && echo "$secret" >"$scratch/token")
port=$(<"$scratch/port-unaccepting")
for launch in "${launches[@]}"; do
  for way in $([ "$launch" = mpi ] || [ "${#launches[@]}" = 1 ] && echo file variable) flag; do
    trace=$scratch/token-$launch-$way given=()
    case $way in
      flag) given=(--view-token "$secret") ;;
      file) given=(--view-token-file "$scratch/token") ;;
      variable) export LOCKSTEP_VIEW_TOKEN=$secret ;;
    esac
    timeout 100 "$lesson" --launch "$launch" --ranks 2 --steps 1000000 --pace 0.005 --quiet \
      --parity off --trace "$trace" --view "127.0.0.1:$port" "${given[@]}" \
      >"$scratch/out" 2>"$scratch/err" </dev/null &
    run=$!
    unset LOCKSTEP_VIEW_TOKEN
    within 60 test -s "$trace/rank1.json"
    claim "$launch, token by $way: the run is under way" test -s "$trace/rank1.json"
    cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -a -c -F -f "$scratch/token" >"$scratch/shown"
    own=$(tr '\0' '\n' <"/proc/$run/cmdline" | grep -c -F -f "$scratch/token")
    claim "$launch, token by $way: no other process shows it" [ "$(<"$scratch/shown")" = "$own" ]
    kill -TERM "$run"
    await
    grep -rqF -f "$scratch/token" "$trace"
    claim "$launch, token by $way: nor do the files" [ $? = 1 ]
  done
done
conclude
