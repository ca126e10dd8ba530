#!/usr/bin/env bash
# Impossible or invalid flags for lessons and the viewer: exit code 2, one line on stderr that names
# the fault, nothing on stdout, no run folder, no delay. Prints "N passed, N failed".
#
#   test_bad_input.sh LESSON [VIEWER]      LESSON is a pipeline's, such as lesson_09_1f1b
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$1 viewer=${2-}

text=$scratch/text
seq 1 2000 >"$text"
trace=$scratch/run

# refuse FLAG VALUE WORDS...: `lesson FLAG VALUE` must fail with a line that contains FLAG, VALUE
# and WORDS.
refuse() {
  local flag=$1 value=$2 launch word
  shift 2
  for launch in threads mpi; do
    local flags=(--data "$text" --trace "$trace" --launch "$launch")
    # A flag that is given replaces ours.
    [[ $flag != --data && $flag != --trace && $flag != --launch ]] || flags=(--launch "$launch")
    [[ $flag != --launch ]] || flags=(--data "$text" --trace "$trace")
    [[ $flag == --trace ]] && flags+=(--data "$text")
    [[ $flag == --data ]] && flags+=(--trace "$trace")
    if [[ $value == - ]]; then run "$lesson" "${flags[@]}" "$flag"; else
      # shellcheck disable=SC2086  # `VALUE --another VALUE` is several words
      run "$lesson" "${flags[@]}" "$flag" $value
    fi
    is_refused "$flag $value ($launch)"
    for word in "$flag" "$@"; do claim "$flag $value ($launch): says $word" complains "$word"; done
    claim "$flag $value ($launch) leaves no folder" [ ! -e "$trace" ]
  done
}

refuse --nope - 'no such flag'
refuse stray - 'no such flag'
refuse --steps - 'value'
for flag in ranks steps batch layers hidden heads sequence microbatches; do
  for value in 0 -3 x 1e3 2.5 99999999999999999999; do refuse --$flag $value "$value"; done
done
refuse --steps '2 --steps 3' 'once'
refuse --lr nan 'above 0'
refuse --lr 0 'above 0'
refuse --seed -1 'at least 0'
refuse --vocab 100 '100' '256'
refuse --layers 3 '4 pipeline stages'
refuse --heads 7 '--hidden 64' '--hidden 70'
refuse --batch 13 '--microbatches 8' '--batch 8'
refuse --microbatches 1,,2 '1,,2'
refuse --sequence 1000000 'one sample'
refuse --hidden 1048576 'at least' 'available' '--device meta'
refuse --hidden 268435456 'too large'
refuse --layers 268435456 'too large'
refuse --dp 2 '--dp 2' 'pp axis'
refuse --ep 2 '--ep 2' 'pp axis'
refuse --pp '3 --ranks 4' 'multiply to 4'
refuse --order a,b 'tp,cp,dp,pp'
refuse --launch ssh 'threads, mpi'
refuse --clock sun 'modelled'
refuse --clock 'wall --time forward=1ms' '--time forward=1ms'
for value in 0 -1 x; do refuse --timeout $value 'above 0'; done
refuse --time forward=soon 'soon' '1.5ms'
refuse --clock 'wall --pace 2' '--pace 2'
refuse --compare -1 'at least 0'
refuse --device tpu 'cpu, cuda, meta'
refuse --launch 'mpi --device meta' '--device meta' '--launch threads'

# Flags that nobody gave are named as defaults, or with the flag that sets them.
refuse --batch 13 '--batch 13 with the default --microbatches 8: '
refuse --microbatches 5 'the default --batch 16 with --microbatches 5: '
refuse --model 'gpt3-175b' '--layers 96 --hidden 12288 --vocab 51200 of --model gpt3-175b: '
refuse --model 'gpt3-175b --layers 64' '--layers 64 --hidden 12288 --vocab 51200 of --model gpt3-175b: '
run "$lesson" --trace none --defaults '--batch 13'
claim 'a value of --defaults is a default' complains 'the default --batch 13 with the default --microbatches 8: '

# An argument of two lines, or with an escape sequence, is quoted in one line.
for flag in --schedule --model --order --slow --nope; do
  run "$lesson" --trace none "$flag" $'\e[31mred\nline'
  is_refused "$flag with control characters"
  claim "$flag with control characters: they are escaped" complains '\x1b[31mred\nline'
done

has_no_escapes() { [[ $err != *[[:cntrl:]]* ]]; }

# Input files.
mkdir "$scratch/folder"
: >"$scratch/empty"
printf 'short' >"$scratch/short"
for data in none empty short folder; do refuse --data "$scratch/$data" "$data"; done
refuse --data /proc/self/mem '/proc/self/mem'
mkfifo "$scratch/pipe"
refuse_words() { # WORD... -- FLAGS...
  local words=() word
  for (( ; $# > 0; )); do [[ $1 == -- ]] && shift && break; words+=("$1"); shift; done
  run "$lesson" --data "$text" --trace "$trace" "$@"
  is_refused "$*"
  for word in "${words[@]}"; do claim "$*: says $word" complains "$word"; done
  claim "$* leaves no folder" [ ! -e "$trace" ]
}
refuse_words '--tokens' 'leave one out' -- --tokens "$text"
for data in /dev/zero "$scratch/pipe"; do refuse --data "$data" "$data" 'regular file'; done
printf 'not JSON' >"$scratch/words.json"
printf '{"name": "x", "nodes": 2}' >"$scratch/missing.json"
printf '{"name": "x", "nodes": 2.5, "ranks_per_node": 4, "flops": 1e12, "memory_bandwidth": null,
  "launch_seconds": 0, "within": {"latency_seconds": 0, "bandwidth": null},
  "between": {"latency_seconds": 0, "bandwidth": null}}' >"$scratch/half.json"
refuse --cluster "$scratch/none.json" 'none.json' 'classroom'
refuse --cluster "$scratch/folder" 'folder'
refuse --cluster "$scratch/words.json" 'words.json' 'not a cluster file'
refuse --cluster "$scratch/missing.json" 'missing.json' "'ranks_per_node'"
refuse --cluster "$scratch/half.json" 'half.json' "'nodes'" '2.5'
sed 's/2.5/1e309/' "$scratch/half.json" >"$scratch/huge.json"
refuse --cluster "$scratch/huge.json" 'huge.json' "'nodes': 1e309 is not a number that a double can hold"
claim 'and in our own words' [ -z "$(grep json.exception <<<"$err")" ]

# Modelled times that a clock can't hold.
sed 's/2.5/2/; s/1e12/1.5/' "$scratch/half.json" >"$scratch/slow.json"
for flags in "--cluster $scratch/slow.json" '--time forward=1000000s' '--steps 200 --slow 1=1000 --time backward=20000s'; do
  # shellcheck disable=SC2086  # several flags
  run "$lesson" --data "$text" --trace none --device meta --compare 0 --quiet $flags
  is_refused "$flags"
  claim "$flags: says that it takes too long" complains '46 days of modelled time'
done
run "$lesson" --data "$text" --trace none --device meta --quiet --cluster "$scratch/slow.json" --time forward=1ms,backward=2ms
claim "fixed times do not depend on how slow the cluster computes" ended 0

run "$lesson" --data "$text" --trace none --steps 1 --compare 0 --parity off --quiet --save "$scratch/good.safetensors"
claim "a good run is good" ended 0
claim "a good run that is --quiet says nothing" says_nothing
head -c 5 "$scratch/good.safetensors" >"$scratch/cut.safetensors"
head -c 100000 "$scratch/good.safetensors" >"$scratch/half.safetensors"
{ printf '\377\377\377\377\377\377\377\377'; tail -c +9 "$scratch/good.safetensors"; } >"$scratch/length.safetensors"
{ head -c 8 "$scratch/good.safetensors"; printf '['; tail -c +10 "$scratch/good.safetensors"; } >"$scratch/header.safetensors"
{ head -c -4 "$scratch/good.safetensors"; printf '\0\0\300\177'; } >"$scratch/nan.safetensors"
refuse --load "$scratch/nan.safetensors" 'nan.safetensors' 'tensor lm_head.weight' 'is nan'
for file in none cut half length header; do refuse --load "$scratch/$file.safetensors" "$file.safetensors"; done
refuse --load "$scratch/good.safetensors --hidden 32" 'good.safetensors' 'shape' '--hidden 32'
refuse --load "$scratch/folder" 'folder'

# Folders of --save and --export with a value that can't be, or with a pipe instead of a file.
"$lesson" --data "$text" --trace none --steps 1 --compare 0 --parity off --quiet --save "$scratch/saved" \
  --export "$scratch/exported"
manifest=$scratch/saved/manifest.json
cp "$manifest" "$scratch/manifest.json"
while read -r key value; do
  sed "s/\"$key\": 1/\"$key\": $value/" "$scratch/manifest.json" >"$manifest"
  refuse --load "$scratch/saved" 'manifest.json' "'$key': $value is not a whole number" 'load another'
done <<<'step -5
optimizer_steps -1
optimizer_steps 9223372036854775807'
sed '/"moments": {/,$d' "$scratch/manifest.json" >"$manifest"
echo '"moments": {}}' >>"$manifest"
refuse --load "$scratch/saved" "no tensors in 'moments'" '--freeze'
sed 's/"crc32":"[0-9a-f]*"/"crc32":""/' "$scratch/manifest.json" >"$manifest"
refuse --load "$scratch/saved" 'crc32' 'eight hexadecimal digits'
sed 's/"step": 1,/"step": 1, "step": 1,/' "$scratch/manifest.json" >"$manifest"
refuse --load "$scratch/saved" "'step' twice"
sed -i 's/"n_layer": [0-9]*/"n_layer": "four"/' "$scratch/exported/config.json"
refuse --load "$scratch/exported" 'config.json' "'n_layer': \"four\" is not a whole number"
rm "$scratch/exported/config.json"
mkfifo "$scratch/exported/config.json"
limit=20 refuse --load "$scratch/exported" 'config.json' 'not a regular file'

# 99 MB that are costly to parse (tests/fuzz/mutate measures the memory).
perl -e 'print pack("Q<", 99e6), "[" x 99e6' >"$scratch/deep.safetensors"
refuse --load "$scratch/deep.safetensors" 'deep.safetensors' 'list'
rm "$scratch/deep.safetensors"

# The meta device, which computes nothing.
refuse_words '--device meta' '--clock wall' '--clock modelled' -- --device meta --clock wall
refuse_words '--device meta' '--comm native' 'leave --comm out' -- --device meta --comm native
refuse_words '--device meta' '--tf32' '--device cuda' -- --device meta --tf32
for flag in --save --load --export; do
  refuse_words '--device meta' "$flag $scratch/good" '--device cpu' -- --device meta "$flag" "$scratch/good"
done

# Hosts: none of these starts a process on another host.
printf 'a slots=2\nb slots=1\n' >"$scratch/hosts"
refuse_words '--hostfile' 'none' 'no such file' -- --launch mpi --hostfile "$scratch/none"
refuse_words '--hostfile' '3 slots for --ranks 4' '--ranks 3' -- --launch mpi --hostfile "$scratch/hosts"
refuse_words '--hosts a:2,b:1' '3 slots for --ranks 4' -- --launch mpi --hosts a:2,b:1
refuse_words '--hostfile' '--launch mpi' -- --hostfile "$scratch/hosts"

# Output files.
for flag in --save --export --report; do refuse_words "$flag ''" 'empty' 'leave' -- "$flag" ''; done
refuse --report "$scratch/none/report.json" 'no folder'
refuse --report "$scratch/folder" 'name of a file'
refuse --report /proc/report.json '/proc/report.json'
"$lesson" --data "$text" --trace none --parity off --quiet --steps 1000000 --report "$scratch/one.json" &
first=$!
claim 'a run locks its report' within 60 test -s "$scratch/.one.json.lock"
refuse --report "$scratch/one.json" "process $first on " 'a run that writes there too'
kill $first
wait $first 2>/dev/null
refuse --save "$scratch/none/a.safetensors" 'no folder'
refuse --save /proc/a.safetensors '/proc/a.safetensors'
mkdir "$scratch/full"
echo mine >"$scratch/full/notes.txt"
refuse --save "$scratch/full" 'notes.txt' 'no part of a checkpoint'
refuse --save "$text" 'this is a file'
refuse --export "$scratch/none/a" 'no folder'
refuse --export "$scratch/none/a.safetensors" 'no folder'
refuse --export "$scratch/b.safetensors --save $scratch/b.safetensors" 'both would write this file'
refuse --export "$scratch/full" 'notes.txt' 'no part of a checkpoint'
refuse --export "$scratch/both --save $scratch/both" 'holds nothing else'
refuse --trace "$scratch/full" 'notes.txt' 'no run'
echo '[1, 2]' >"$scratch/full/rank0.json"
refuse --trace "$scratch/full" 'rank0.json' 'not written by Lockstep'
claim 'a file that is not a trace is still there' [ "$(<"$scratch/full/rank0.json")" = '[1, 2]' ]
refuse --trace "$text" 'text'
refuse --trace /proc/none '/proc/none'
refuse --trace /proc '/proc'
refuse --view here 'HOST:PORT'
refuse --view 127.0.0.1:0 'HOST:PORT'

# Two runs with the same --save.
"$lesson" --data "$text" --trace none --steps 1000000 --parity off --quiet --save "$scratch/shared" 2>"$scratch/err" &
holder=$!
within 60 test -s "$scratch/.shared.lock"
refuse --save "$scratch/shared" "process $holder on" 'another place'
kill "$holder"
wait "$holder"
run "$lesson" --data "$text" --trace none --steps 1 --parity off --quiet --save "$scratch/shared"
claim "a killed run holds nothing" ended 0

# Two runs with the same --trace. Even if the first run's own process is killed, its ranks under mpirun write for a while.
can_write() { run "$lesson" --data "$text" --trace "$scratch/traced" --steps 1 --parity off --quiet; ended 0; }
for launch in threads mpi; do
  rm -rf "$scratch/traced"
  "$lesson" --data "$text" --trace "$scratch/traced" --launch $launch --steps 1000000 --parity off --quiet &
  holder=$!
  claim "a run writes a trace ($launch)" within 60 test -s "$scratch/traced/rank3.json"
  refuse --trace "$scratch/traced" "$scratch/traced" "process $holder on" 'another place'
  kill -KILL "$holder"
  wait "$holder" 2>/dev/null
  claim "a killed run holds no folder ($launch)" within 60 can_write
done

# Without mpirun.
mkdir "$scratch/bin"
ln -s "$(command -v timeout)" "$scratch/bin"
PATH=$scratch/bin run "$lesson" --data "$text" --trace "$trace" --launch mpi
is_refused '--launch mpi without mpirun'
claim 'no mpirun leaves no folder' [ ! -e "$trace" ]

if [[ -n $viewer ]]; then
  "$lesson" --data "$text" --trace "$scratch/shown" --steps 6 --parity off --quiet
  fails_on_full_stdout 'view --summary' "$viewer" "$scratch/shown" --summary
  fails_on_full_stdout 'view --help' "$viewer" --help
  run "$viewer" "$scratch/none.json"
  is_refused 'viewing a file that is not there'
  claim 'it is named' complains 'none.json'
  run "$viewer" "$scratch/folder"
  is_refused 'viewing a folder without traces'
  run "$viewer" "$scratch/empty"
  is_refused 'viewing an empty file'
  run "$viewer" "$scratch/shown" --export "$scratch/x.svg" --steps 5-2
  is_refused 'steps in descending order'
  claim 'it says how to write them' complains '--steps 5-2: the range ends before it begins; give 2-5'
  for steps in x 3- -3 2-4x 1-2-3; do
    run "$viewer" "$scratch/shown" --export "$scratch/x.svg" "--steps=$steps"
    is_refused "--steps $steps"
  done
  PATH=$scratch/bin run "$viewer" "$scratch/shown" --screenshot "$scratch/x.png"
  is_refused 'a picture without a display and without xvfb-run'
  if command -v xvfb-run >/dev/null; then
    run "$viewer" "$scratch/shown" --screenshot "$scratch/x.png"
    claim 'with xvfb-run, a picture needs no display' [ -s "$scratch/x.png" ]
  fi
  printf '{\033[2J\033]0;title\a\n' >>"$scratch/shown/trace.json"
  run "$viewer" "$scratch/shown" --export "$scratch/x.svg"
  claim 'a malformed line is no error' ended 0
  claim 'it is quoted' complains '\x1b[2J'
  claim 'a terminal obeys none of it' has_no_escapes
  run "$viewer" --screenshot ''
  is_refused 'an empty name for a picture'
  run "$viewer" --nope
  is_refused 'an unknown flag of the viewer'
  run "$viewer" --listen here
  is_refused 'listening to no port'
  run "$viewer"
  is_refused 'a viewer without a display'
  claim 'it says so' complains 'display'

  perl -MIO::Socket::INET -e '
    $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:0") or die;
    open F, ">", "$ARGV[0].new"; print F $s->sockport; close F; rename "$ARGV[0].new", $ARGV[0];
    sleep 600' "$scratch/port" &
  taker=$!
  within 60 test -e "$scratch/port"
  run "$viewer" --listen "$(<"$scratch/port")"
  is_refused 'a port that is taken'
  claim 'it is named' complains "$(<"$scratch/port")"
  kill "$taker"
fi

conclude
