#!/usr/bin/env bash
# Each lesson takes each flag that its help lists: given a valid value, and the flags that this value requires, the
# flag is not refused. A shared flag that a lesson does not have is absent from its help, and refused in one line.
# With --needs, lessons check their flags without training. Prints "N passed, N failed".
#
#   test_help.sh FOLDER      FOLDER has the lessons' programs
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"

seq 1 2000 >"$scratch/text"
printf 'localhost slots=64\n' >"$scratch/hosts"
head -c 20000 /dev/zero >"$scratch/tokens"
printf 'a token of 32 characters, or more\n' >"$scratch/token"
chmod 600 "$scratch/token"

# Prints the flags and values that give FLAG a valid value other than its default. WORDS are the words that the help
# lists, as a|b|c.
valid_value() { # LESSON FLAG WORDS DEFAULT
  local lesson=$1 flag=$2 words=$3 default=$4
  case $lesson$flag in
    18*--pp) echo "--pp 4 --method 1f1b" ;;
    20*--pp) echo "--pp 4" ;;
    11*--time) echo "--time forward=1ms,backward=2ms,backward_input=1ms,backward_weight=1ms" ;;
    18*--time) echo "--time forward=1ms,backward=2ms --pp 4 --method 1f1b" ;;
    18*--steps) echo "--steps 20" ;;
    18*--split) echo "--pp 4 --method 1f1b --split 3,1,2,2" ;;
    20*--split) echo "--pp 4 --split 3,1,2,2" ;;
    18*--save) echo "--save $scratch/new --method data-parallel" ;;
    20*--flip) echo "--flip 1@7 --how thrown --faults none" ;;
    16*--cp) echo "--cp 2 --batch 64 --experts 16" ;;
    17*--cp) echo "--cp 2 --recompute selective" ;;
    16*--[pdt]p | 1[67]*--ep) echo "$flag 2 --batch 64" ;;
    00*--dp) echo "--dp 8" ;;
    *--[pdc]p | *--ep) echo "$flag 2" ;;
    12*--tp) echo "--tp 2 --experts-over tp" ;;
    12*--experts-over) echo "--experts-over tp --tp 2" ;;
    *--tp) echo "--tp 2" ;;
    *--hostfile) echo "--hostfile $scratch/hosts --launch mpi" ;;
    *--hosts) echo "--hosts localhost:64 --launch mpi" ;;
    *--timeout | *--pace | *--clip | *--lr) echo "$flag 0.5" ;;
    *--tf32) echo "--tf32 --device cuda" ;;
    *--comm) echo "--comm ring" ;;
    *--clock) echo "--clock modelled" ;;
    *--cluster) echo "--cluster a100" ;;
    *--order) echo "--order dp,tp,cp,pp" ;;
    *--time) echo "--time forward=1ms,backward=2ms" ;;
    *--slow) echo "--slow 0=1.5" ;;
    1[0157]*--export-schedule) echo "$flag $scratch/schedule.csv" ;;
    1[01]*--split) echo "--pp 2 --split 3,5 --schedule 1f1b" ;;
    12*--follow) echo "--follow 3" ;;
    14*--overflow-at) echo "--overflow-at 3 --precision f16" ;;
    16*--split) echo "--pp 2 --split 3,5 --batch 64" ;;
    19*--place) echo "--place 1,0,3,2" ;;
    19*--shares) echo "--shares 11,5" ;;
    *--routing) echo "--routing zipf --device meta" ;;
    0[67]*--ranks | 10*--ranks) echo "--ranks 2" ;;
    *--ranks) echo "--ranks 8" ;;
    *--steps) echo "--steps 8" ;;
    *--batch) echo "--batch 48" ;;
    *--microbatches) echo "--microbatches 4 --batch 48" ;;
    *--layers | *--heads) echo "$flag 16" ;;
    *--hidden | *--sequence) echo "$flag 128" ;;
    *--vocab) echo "--vocab 512" ;;
    *--model) echo "--model llama" ;;
    *--kv-heads) echo "--kv-heads 4 --model llama" ;;
    17*--documents) echo "--documents 32 --model llama --recompute selective" ;;
    *--mlp-width | *--documents) echo "$flag 32 --model llama" ;;
    *--layout) echo "--layout zigzag" ;;
    *--split) echo "--pp 2 --split 3,5" ;;
    *--freeze) echo "--freeze 0,head" ;;
    *--seed) echo "--seed 7" ;;
    *--data) echo "--data $scratch/text" ;;
    *--tokens) echo "--tokens $scratch/tokens" ;;
    *--load) echo "--load $scratch/checkpoint" ;;
    *--save | *--export | *--trace) echo "$flag $scratch/new" ;;
    *--report) echo "--report $scratch/report.json" ;;
    *--view) echo "--view 127.0.0.1:7077" ;;
    *--view-token-file) echo "--view-token-file $scratch/token" ;;
    *--view-token) echo "--view-token 0123456789abcdef0123456789abcdef" ;;
    *) if [[ -n $words ]]; then echo "$flag ${words##*|}"; else echo "$flag $default"; fi ;;
  esac
}

run "$1"/lesson_09_1f1b --steps 1 --quiet --parity off --trace none --save "$scratch/checkpoint"
claim "a checkpoint is saved" ended 0

# The flags that a lesson may lack: see LessonInfo. Their values would do in another lesson.
shared=(--pp --dp --cp --tp --ep --layout --split --time --clip --freeze --precision)
lessons=0
for program in "$1"/lesson_[0-9]*; do
  [[ $program != *what_if* && -f $program && -x $program ]] || continue
  lessons=$((lessons + 1))
  name=${program##*/lesson_}
  # FLAG, the default, and the words: "--comm auto auto|native|ring".
  listed=$("$program" --help all | perl -ne '
    next unless my ($flag, $default) = /^  (--[a-z0-9-]+)(?: [A-Z]+(?:=(\S+))?)?/;
    print join(" ", $flag, $default // "", /\(([a-z0-9|]+\|[a-z0-9|]+)\)$/ ? $1 : ""), "\n"')
  claim "lesson $name lists its flags" [ "$(wc -l <<<"$listed")" -gt 10 ]
  main=$("$program" --help | grep -o '^  \(-h,\)\?--[a-z0-9-]*' | sed 's/.*--/--/')
  claim "lesson $name: the short help lists 8 to 15 flags" [ "$(wc -l <<<"$main")" -ge 8 -a "$(wc -l <<<"$main")" -le 15 ]
  claim "... all of which the whole help lists" \
    [ -z "$(grep -vx -e --help <<<"$main" | grep -vxFf <(cut -d' ' -f1 <<<"$listed"))" ]
  while IFS=' ' read -r flag default words; do
    # shellcheck disable=SC2046  # several words
    run "$program" --needs $(valid_value "$name" "$flag" "$words" "$default")
    claim "lesson $name takes $flag, which its help lists" ended 0
  done <<<"$listed"
  for flag in "${shared[@]}"; do
    grep -q -- "^$flag " <<<"$listed" && continue
    value=$(valid_value "" "$flag" "zigzag" "")
    # shellcheck disable=SC2086  # several words
    run "$program" --needs $value
    is_refused "lesson $name: $flag, which its help does not list,"
    claim "lesson $name: names $flag" complains "$flag"
  done
done
claim "there are lessons" [ $lessons -gt 1 ]
conclude
