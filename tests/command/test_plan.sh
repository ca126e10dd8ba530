#!/usr/bin/env bash
# `./lockstep plan`: what it prints, that its sentences hold, and what it refuses. Prints "N passed, N failed".
#
#   test_plan.sh FOLDER RETIME      FOLDER has the planner and lesson 17
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1 retime=$2 limit=500    # a plan of thousands of replays, on a busy machine
plan() { run "$folder/lockstep_plan" "$@"; }
line() { grep -F -- "$1" <<<"$out" | head -n 1; }
refuses() { # WHAT WORDS FLAG...
  local what=$1 words=$2
  shift 2
  plan "$@"
  claim "$what is refused" ended 2
  claim "$what: one line says why" complains_in_one_line
  claim "$what: it says '$words'" complains "$words"
}

small=(--model llama --layers 8 --hidden 512 --heads 8 --kv-heads 8 --mlp-width 1536 --sequence 512 --vocab 1024
  --ranks 16 --batch 16 --bucket 2000000)
plan "${small[@]}" --cluster h100 --top 4 --rerun --report "$scratch/plan.json"
claim "a plan ends well" ended 0
claim "it walks the decision tree" says 'Does it fit?'
claim "... and says where axes hide their communication" says 'Where does each axis hide'
claim "it ranks meshes" says 'Of each of 4 meshes, the fastest plan that was replayed'
claim "it runs the plans again" says 'Run again as lesson 17'
claim "... which changes no figure" test "$(grep -c 'planned' <<<"$out")" = 4
claim "... of any plan" bash -c '! grep -q DIFFERS <<<"$1"' _ "$out"
claim "the report has these plans" test "$(grep -c '"step_seconds"' "$scratch/plan.json")" = 12    # each, its bounds, its re-run

# What it says of a plan without the communication of an axis is what ./lockstep retime says of a run.
plan --model gpt2 --ranks 8 --cluster classroom --batch 16 --top 3 --report "$scratch/plan.json"
words=$(grep -m1 'exposed tp .* if it were free' <<<"$out")
claim "some plan is slower because of tp" test -n "$words"
free=$(sed 's/.*the step would take \([0-9.]*\) µs.*/\1/' <<<"$words")
flags=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["plans"][int(sys.argv[2]) - 1]["flags"])' \
  "$scratch/plan.json" "$(sed 's/Plan \([0-9]*\) .*/\1/' <<<"$words")")
# shellcheck disable=SC2086  # several flags
run "$folder/lesson_17_choosing" $flags --cluster classroom --parity off --quiet --trace "$scratch/run"
run "$retime" retime "$scratch/run" --change tp=free --report "$scratch/retimed.json"
claim "a run of it can be retimed with tp free" ended 0
seconds=$(sed -n 's/.*"step":0,.*"seconds":\([^}]*\)}.*/\1/p' "$scratch/retimed.json")
claim "... and then takes as long as was said" \
  awk -v a="$seconds" -v b="$free" 'BEGIN { d = a * 1e6 - b; exit !(a != "" && b != "" && d < 6e-4 && d > -6e-4) }'

plan --explain TP=8,PP=4,DP=2 --batch 64
claim "a layout is read aloud" ended 0
claim "... with its product" says '8 × 4 × 2 = 64 GPUs, on 8 nodes'
claim "... and its replicas" says '64 / 32 = 2 replicas: each trains 32 of the batch'
plan --explain tp=2,PP=4 --ranks 256 --model llama2-7b --batch 256
claim "256 GPUs, TP 2 and PP 4 have 32 replicas" says '256 / 8 = 32 replicas'
plan --explain TP=1,PP=1,zero=0 --ranks 8 --batch 8
claim "a layout that does not fit is read aloud, too" says 'it does not fit'
claim "... and one that fits is named, or none" ended 0
plan --help
claim "the help ends well" ended 0
claim "... and lists flags" says '--explain'

refuses 'a model that fits nowhere' 'on 128 GPUs, this fits' --model llama3-405b --ranks 64 --batch 512
refuses 'a model larger than the cluster' 'this would fit' --model llama2-7b --ranks 2048 --batch 2048 --cluster a100 \
  --memory 20MB --replays 1
refuses 'a batch that nothing divides' '--batch 8 works' --ranks 64 --tp 8 --pp 1 --batch 7
refuses 'more GPUs than there are' 'has only' --cluster a100 --ranks 8192
refuses 'sizes that do not divide the GPUs' 'use --ranks 64' --ranks 63 --tp 2
refuses 'an unknown model' 'must be one of' --model gpt5
refuses 'an unknown flag' 'did you mean --ranks' --rank 8
refuses 'an unknown part of a layout' 'fixes nothing' --explain TPP=8
refuses 'a layout of size 0' 'at least 1' --explain TP=0
refuses 'an unknown schedule' "there is no schedule 'foo'" --schedules foo
refuses 'a size that is none' 'such as 80GB' --memory lots
refuses 'a report into nowhere' "can't be written" "${small[@]}" --replays 1 --report "$scratch/no/such/folder"
refuses 'an unknown cluster' 'nowhere' --cluster nowhere
# A folder of transformers sets the sequence, and what Lockstep does not compute is refused.
mkdir "$scratch/model"
config() { # FIELDS
  printf '{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 2048, "vocab_size": 1000%s}' "$1" >"$scratch/model/config.json"
}
loaded=(--load "$scratch/model" --ranks 2 --batch 4 --top 1 --replays 1)
config ''
plan "${loaded[@]}"
claim "the longest sequence of config.json is assumed, in so many words" \
  says '--sequence 2048 (the maximum of its config.json)'
plan "${loaded[@]}" --sequence 512
claim "not if --sequence is given" [ "$code $(grep -c 'maximum of its' <<<"$out")" = '0 0' ]
refuses "a flag that nobody gave" "--tp 3 with --heads 4 of --load $scratch/model: " "${loaded[@]}" --tp 3
refuses "a default" 'with the default --heads 64: ' --tp 3
refuses "a schedule given twice" '1f1b is there twice' --schedules 1f1b,zb-h1,1f1b
config ', "sliding_window": 1024'
refuses "a sliding window" 'sliding_window 1024' "${loaded[@]}"
config ', "layer_types": ["chunked_attention"]'
refuses "another kind of attention" 'layer_types "chunked_attention"' "${loaded[@]}"
printf '{"model_type": "gpt2", "n_embd": 768, "n_inner": 2048}' >"$scratch/model/config.json"
refuses "a narrow MLP" 'n_inner 2048' "${loaded[@]}"
fails_on_full_stdout 'plan --help' "$folder/lockstep_plan" --help
fails_on_full_stdout plan "$folder/lockstep_plan" "${small[@]}" --top 1 --replays 1
conclude
