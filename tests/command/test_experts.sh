#!/usr/bin/env bash
# Lesson 12 on the command line: its output, checkpoints that another number of ranks loads, and the flags it refuses.
# Prints "N passed, N failed".
#
#   test_experts.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

text=$scratch/text
for ((i = 0; i < 600; ++i)); do echo "token $((i % 7)) chooses expert $((i * i % 11)) now"; done >"$text"
lesson() { # FLAGS...: with a small model and no trace, unless FLAGS say otherwise
  local flag small=()
  for flag in '--trace none' '--clock modelled' '--layers 2' '--batch 12' '--hidden 32' '--sequence 24'; do
    # shellcheck disable=SC2206  # a flag and its value
    [[ " $* " == *" ${flag% *} "* ]] || small+=($flag)
  done
  run "$folder/lesson_12_expert_parallel" --data "$text" "${small[@]}" "$@"
}
shows() { grep -qE -- "$1" <<<"$out"; }

for launch in "$@"; do
  portion "$(per_launch 6 2)" '--ep 2 --experts 4 --top-k 1' '--ranks 4 --dp 2 --tp 2 --experts-over tp --capacity 1.25' \
    '--ranks 3 --experts 9 --capacity 1 --microbatches 2 --tied' '--ranks 2 --precision bf16 --balance 0.1' \
    '--ranks 4 --ep 1' '--tp 2 --experts-over tp' >"$scratch/divisions"
  while read -r flags; do
    # shellcheck disable=SC2086  # several flags
    lesson --launch "$launch" --steps 6 $flags
    claim "$flags ($launch) ends well" ended 0
    claim "$flags ($launch): bytes and memory are as predicted" as_predicted
    claim "$flags ($launch) prints its parity" says 'parity with one device over 6 steps'
    claim "$flags ($launch) prints how close the choices were to a tie" shows '^routing: '
    claim "$flags ($launch): the load of each expert and layer" shows '^  1  .* -> '
  done <"$scratch/divisions"
done
for routing in balanced zipf; do
  for flags in '' '--capacity 1.25' '--tp 4 --experts-over tp'; do
    # shellcheck disable=SC2086  # several flags, or none
    lesson --device meta --ranks 4 --steps 2 --routing "$routing" $flags
    claim "--routing $routing $flags ends well" ended 0
    claim "--routing $routing $flags: bytes and memory are as predicted" as_predicted
  done
done

# The trace counts the tokens of each expert: over ranks, microbatches and steps, as many as the report.
for flags in '--ranks 4' '--ranks 4 --ep 2 --capacity 1 --microbatches 2 --batch 16' \
  '--ranks 4 --dp 2 --tp 2 --experts-over tp --capacity 1'; do
  # shellcheck disable=SC2086  # several flags
  lesson $flags --steps 2 --quiet --trace "$scratch/counted" --report "$scratch/report"
  claim "$flags with a trace ends well" ended 0
  perl -MJSON::PP -ne 'if (/"name":"tokens per expert"/) {
      s/,\s*$//;
      my $args = decode_json($_)->{args};
      for my $series (grep { /^expert (\d+)/ } keys %$args) {
        my ($expert) = $series =~ /(\d+)/;
        $chosen{$args->{layer}}[$expert] += $args->{$series};
        $kept{$args->{layer}}[$expert] += $args->{$series} unless $series =~ /dropped/;
      }
    }
    END { print "$_: @{$chosen{$_}} | @{$kept{$_}}\n" for sort keys %chosen }' \
    "$scratch/counted/trace.json" >"$scratch/counts"
  perl -MJSON::PP -0777 -ne 'print "$_->{layer}: @{$_->{chosen}} | @{$_->{kept}}\n"
      for @{decode_json($_)->{results}{experts}}' "$scratch/report" >"$scratch/reported"
  claim "... with two layers ($flags)" test "$(wc -l <"$scratch/counts")" -eq 2
  claim "... and the trace counts the tokens of each expert ($flags)" cmp "$scratch/counts" "$scratch/reported"
done

# Processes send their routings to rank 0 after the last step, outside the run's clock.
if (($# > 1)); then
  for launch in "$@"; do
    lesson --launch "$launch" --ranks 4 --experts 12 --steps 3 --trace "$scratch/$launch" --quiet --report "$scratch/report"
    claim "a run with a trace ($launch) ends well" ended 0
    perl -MJSON::PP -0777 -ne 'my $r = decode_json($_);
      print JSON::PP->new->canonical->encode([@$r{qw(phases losses)}, $r->{results}{experts}])' \
      "$scratch/report" >"$scratch/$launch.parts"
  done
  claim "$1 and $2: the same modelled times, routings and losses" cmp "$scratch/$1.parts" "$scratch/$2.parts"
fi

# A checkpoint of four ranks, each with 3 of 12 experts, goes on with the experts divided among two and three ranks, on
# one rank, and over the tensor-parallel group.
lesson --ranks 4 --experts 12 --steps 6 --quiet --report "$scratch/all.json"
losses "$scratch/all.json" | tail -n 3 >"$scratch/uninterrupted"
lesson --ranks 4 --experts 12 --steps 3 --quiet --save "$scratch/half"
claim 'a checkpoint is saved' ended 0
for flags in '--ranks 4 --ep 4' '--ranks 4 --ep 2' '--ranks 3 --ep 3' '--ranks 1' '--tp 2 --experts-over tp'; do
  rm -f "$scratch/then.json"
  # shellcheck disable=SC2086  # several flags
  lesson $flags --experts 12 --steps 3 --load "$scratch/half" --report "$scratch/then.json"
  claim "a checkpoint of 4 ranks goes on with $flags" ended 0
  claim "... and says where ($flags)" says "resumes after the 3 steps of $scratch/half"
  losses "$scratch/then.json" >"$scratch/then"
  claim "... with the losses of the uninterrupted run ($flags)" are_close 1e-5 "$scratch/uninterrupted" "$scratch/then"
  [[ $flags != *'--ep 4' ]] || claim '... bit for bit' cmp -s "$scratch/uninterrupted" "$scratch/then"
done
lesson --ranks 4 --experts 8 --load "$scratch/half"
claim 'another number of experts cannot load it' ended 2
claim '... in one line' complains_in_one_line
claim '... that names a tensor' complains 'transformer.h.0.moe.'

lesson --ranks 4 --steps 2 --follow 23
claim "--follow shows a token's way to its experts" shows '^  1 .* rank [0-3] +[0-9]+ of [0-9]+$'

lesson_refuses --experts 6 -- '--experts 6 with the default --ep 4' '--experts 4 or --experts 8'
lesson_refuses --experts 2 -- '--experts 2 with the default --ep 4' 'use --experts 4'
lesson_refuses --experts 0 -- '--experts 0' 'use --experts 1'
lesson_refuses --experts many -- '--experts many'
lesson_refuses --top-k 9 -- '--top-k 9 with the default --experts 8' 'use --top-k 8'
lesson_refuses --top-k 0 -- '--top-k 0 with the default --experts 8' 'use --top-k 1'
lesson_refuses --capacity 9 -- '--capacity 9' 'from 0 (dropless) to 8'
lesson_refuses --balance -1 -- '--balance -1' 'at least 0'
lesson_refuses --routing zipf -- '--routing zipf' 'use --device meta, or --routing learned'
lesson_refuses --routing random -- '--routing' 'learned, balanced, zipf'
lesson_refuses --ranks 6 --ep 4 -- '--ep 4' 'equal groups of 4'
lesson_refuses --experts-over ep -- '--experts-over' 'dp, tp'
lesson_refuses --experts-over tp -- '--experts-over tp' 'use --tp 2'
lesson_refuses --tp 2 -- '--tp 2 with the default --experts-over dp' '--experts-over tp'
lesson_refuses --tp 2 --dp 2 --ep 2 --experts-over tp -- '--ep 2 with --experts-over tp' 'use --ep 1'
lesson_refuses --tp 4 --experts 6 --experts-over tp -- '--experts 6 with --tp 4' '--experts 4 or --experts 8'
lesson_refuses --follow 72 -- '--follow 72' 'use --follow 71'
lesson_refuses --follow 0 --device meta -- '--follow 0' 'use --device cpu'
lesson_refuses --follow 0 --tp 2 --experts-over tp -- '--follow 0' 'use --experts-over dp'
lesson_refuses --pp 2 -- '--pp 2' 'leave it out'
lesson_refuses --clip 1 -- '--clip 1' 'leave it out'
conclude
