#!/usr/bin/env bash
# Lesson 19 on the command line: uneven pipelines and replicas on real ranks, the search, and the flags that the lesson
# refuses. Prints "N passed, N failed".
#
#   test_unlike.sh LESSON PLANNER RETIME LAUNCH...      three programs; LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
program=$1 planner=$2 retime=$3
shift 3

text=$scratch/text
seq 1 2000 >"$text"
# Rank 1 is fast, rank 2 slow, and ranks 4 and 5 have little memory.
cat >"$scratch/three.json" <<'END'
{"name": "three", "nodes": 4, "ranks_per_node": 3, "flops": 1e12, "memory_bandwidth": 2e12, "launch_seconds": 1e-9,
 "within": {"latency_seconds": 1e-9, "bandwidth": 1e11}, "between": {"latency_seconds": 1e-8, "bandwidth": 1e10},
 "groups": [{"name": "fast", "ranks": [1], "flops": 4e12}, {"name": "slow", "ranks": [2], "flops": 3e11},
            {"name": "small", "ranks": [4, 5], "memory": 600000, "flops": 2e12}]}
END
lesson() { # FLAGS...: with a small model and no trace, unless FLAGS say otherwise
  local flag small=()
  for flag in '--trace none' '--layers 7' '--hidden 32' '--sequence 16' '--steps 3' '--batch 16' \
    '--microbatches 4' "--report $scratch/report.json"; do
    # shellcheck disable=SC2206  # a flag and its value
    [[ " $* " == *" ${flag% *} "* ]] || small+=($flag)
  done
  run "$program" --data "$text" "${small[@]}" "$@"
}
# Whether a condition holds for the report $r, its divisions' results $d, and the division of this run, $this.
holds() { # PERL
  perl -MJSON::PP -0777 -e 'my $condition = shift; my $r = decode_json(<>); my $d = $r->{results}{divisions};
    my $this = $d->{this}; exit !eval $condition' "$1" "$scratch/report.json"
}
# The last step of the run took exactly the time that the lesson foresaw.
# shellcheck disable=SC2016  # Perl
as_foreseen() { holds '$d->{observed_step_picoseconds} == $this->{predicted_step_picoseconds}'; }

cases=('--dp 2 --pp 2 --shares 6,2 --place 1,0 --split 2,5'
  '--search --tied --clip 0.5'
  "--dp 2 --pp 3 --search --cluster $scratch/three.json"
  '--dp 3 --pp 1 --shares 1,4,7 --batch 24 --clip 1'
  '--dp 2 --pp 3 --shares 7,1 --place 2,0,1 --split 1,1,5 --tied --order tp,cp,pp,dp --cluster classroom --slow 3=2.5'
  '--dp 1 --pp 4 --ranks 4 --search --slow 0=4')
for launch in "$@"; do
  portion "$(per_launch 6 3)" "${cases[@]}" >"$scratch/cases"
  while read -r flags; do
    # shellcheck disable=SC2086  # several flags
    lesson --launch "$launch" --clock modelled $flags
    claim "$flags ($launch): parity" ended 0
    claim "$flags ($launch): bytes and memory are as predicted" as_predicted
    claim "$flags ($launch): the step takes the time foreseen" as_foreseen
    claim "$flags ($launch): names the rank that sets the pace" says 'sets the pace: rank'
  done <"$scratch/cases"
  lesson --launch "$launch" --dp 1 --pp 3 --place 2,0,1 --split 1,4,2 --clip 0.5
  claim "a pipeline alone ($launch): the bits of one device" says 'bitwise equal'
done

# The search.
lesson --device meta
claim "the even division is the default" ended 0
# shellcheck disable=SC2016  # Perl
claim "... with equal shares and splits" holds '"@{$this->{shares}} @{$this->{split}}" eq "4 4 2 2 2 1"'
claim "... and takes the time foreseen" as_foreseen
lesson --device meta --search
claim "a search ends well" ended 0
claim "... its step takes the time foreseen" as_foreseen
# shellcheck disable=SC2016
claim "... and less than the even one" holds '$this->{predicted_step_picoseconds} < 0.8 * $d->{even}{predicted_step_picoseconds}'
claim "... and says so" says 'the even division takes'
lesson --device meta --search --dp 2 --pp 3 --cluster "$scratch/three.json"
# shellcheck disable=SC2016
claim "small memories: the even division does not fit" holds '(grep { $_ > 600000 } @{$d->{even}{peaks}}[4, 5]) > 0'
# shellcheck disable=SC2016
claim "... and the one found does" holds '(grep { $_ > 600000 } @{$this->{peaks}}[4, 5]) == 0'
lesson --device meta --search --slow 0=50,1=50 --cluster classroom --dp 1 --pp 3
# shellcheck disable=SC2016
claim "--slow: slow ranks get one block each" holds 'join(" ", sort @{$this->{split}}) eq "1 1 5"'
lesson --device meta --alone --layers 4
claim "each kind alone" says '4 x a100 alone'
# shellcheck disable=SC2016
claim "... in the report" holds '$r->{results}{kinds_alone_picoseconds}{"all 8, searched"} <= $r->{results}{kinds_alone_picoseconds}{"all 8, evenly"}'

# On the wall clock, the division is executed, but not timed.
lesson --clock wall --dp 2 --pp 2 --shares 3,5
claim "the wall clock: parity" ended 0
claim "the wall clock: no times of a cluster" eval '[[ $out != *"sets the pace"* ]]'

# A checkpoint goes on with another division, and retime keeps the division.
lesson --quiet --save "$scratch/even" --clip 1
claim "a checkpoint of the even division" ended 0
lesson --quiet --load "$scratch/even" --search --clip 1
claim "... goes on with the division found" ended 0
lesson --trace "$scratch/run" --search --steps 2
run "$retime" retime "$scratch/run" --cluster classroom
claim "retime says that the division was chosen by time" says '--search'

lesson_refuses --search --split 2,2,2,1 -- '--search with --split 2,2,2,1' 'leave one of them out'
lesson_refuses --search --place 0,1,3,2 -- '--search with --place 0,1,3,2'
lesson_refuses --search --shares 4,4 -- '--search with --shares 4,4'
lesson_refuses --search --clock wall -- '--search on the wall clock' '--clock modelled'
lesson_refuses --search --layers 2 --pp 2 -- '--search with --layers 2' '--layers 3'
lesson_refuses --place 0,1,2 -- '--place 0,1,2' 'must list each of the 4 positions in a pipeline once'
lesson_refuses --shares 4 -- '--shares 4 with the default --dp 2' 'one number of microbatches per replica'
lesson_refuses --shares 8,0 -- 'at least one microbatch'
lesson_refuses --shares 4,5 -- '9 microbatches' '8 together'
lesson_refuses --time forward=1ms -- '--time' 'the same on every device'
sed 's/600000/1000/' "$scratch/three.json" >"$scratch/tiny.json"
lesson_refuses --search --dp 2 --pp 3 --cluster "$scratch/tiny.json" -- 'no division that fits in memory' 'of 1.0 kB'
run "$planner" --model llama2-7b --ranks 32 --cluster mixed
is_refused "plan on unlike ranks"
claim "plan on unlike ranks names the cluster" complains '--cluster mixed: its ranks differ'
conclude
