#!/usr/bin/env bash
# Checkpoints of runs: a run on one mesh goes on from another mesh's checkpoint; an interrupted run
# saves and goes on as if it had not been interrupted; a GPT-2 of transformers loads into every mesh
# and gives the loss that transformers computes. Prints "N passed, N failed".
#
#   test_resume.sh FOLDER [--all] LAUNCH...   FOLDER contains the lessons' programs; LAUNCH is threads or mpi;
#                                             --all tries every ordered pair of all meshes
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lessons=$(realpath "$1")
golden=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../golden/tiny_gpt2")
shift
all=''
[[ $1 == --all ]] && all=1 && shift

text=$scratch/text
seq 1 2000 >"$text"
shape=(--layers 4 --hidden 16 --heads 2 --sequence 16)
flags=(--data "$text" --batch 12 --clock modelled --trace none --quiet)
# A lesson, its ranks, and flags that make all steps equal.
meshes=('02_data_parallel --ranks 1 --overlap overlap' '03_zero_1 --ranks 3 --bucket 4000'
  '05_zero_3 --ranks 4 --prefetch 1 --bucket 3000' '04_zero_2 --ranks 2' '08_gpipe --ranks 2 --microbatches 2'
  '09_1f1b --ranks 4 --compare 0 --microbatches 2' '15_3d --microbatches 2'
  '15_3d --microbatches 2 --zero 1 --bucket 2000 --order pp,dp,cp,tp' '15_3d --microbatches 2 --zero 2 --sequence-parallel'
  '15_3d --dp 3 --pp 2 --microbatches 2 --zero 3 --bucket 2000' '15_3d --dp 4 --tp 2 --microbatches 3 --zero 3 --shard 2')
# Lesson 16: four axes without experts, and experts over dp x cp. The meshes with experts route dropless and without a
# load-balance loss, which would depend on the mesh: it is a mean over the tokens of one rank.
meshes+=('16_all_axes --experts 0 --dp 1 --cp 4 --tp 1 --microbatches 3 --method gather'
  '16_all_axes --experts 0 --microbatches 2 --zero 1 --layout zigzag')
experts=('16_all_axes --experts 4 --balance 0 --microbatches 2 --layout zigzag'
  '16_all_axes --experts 4 --balance 0 --dp 2 --pp 1 --cp 4 --tp 1 --ep 2 --microbatches 3'
  '16_all_axes --experts 4 --balance 0 --dp 3 --pp 2 --cp 1 --tp 2 --ep 1 --microbatches 2 --order pp,dp,cp,tp'
  '12_expert_parallel --experts 4 --balance 0 --ranks 4 --ep 2')
interrupted=("${meshes[1]}" "${meshes[5]}" "${meshes[9]}" "${experts[0]}")
# Without --all, fewer of them, and fewer still under the second LAUNCH.
[[ -n $all ]] || {
  meshes=("${meshes[2]}" "${meshes[1]}" "${meshes[5]}" "${meshes[9]}" "${meshes[@]: -1}")
  experts=("${experts[@]:0:2}")
}

train() { # MESH FLAGS...: runs a lesson on a mesh
  local mesh words
  read -ra words <<<"$1"
  mesh=("${words[@]}")
  shift
  run "$lessons/lesson_${mesh[0]}" "${mesh[@]:1}" "${flags[@]}" --launch "$launch" "$@"
}

# Trains and saves on each MESH, and goes on from the checkpoint on each other, and on the same mesh.
try_pairs() { # MESH...
  local meshes=("$@") pairs=0 i j what
  for ((i = 0; i < ${#meshes[@]}; ++i)); do
    train "${meshes[i]}" "${shape[@]}" --steps 6 --parity off --report "$scratch/all.json"
    claim "a run (${meshes[i]}, $launch)" ended 0
    losses "$scratch/all.json" | tail -n 3 >"$scratch/uninterrupted$i"
    train "${meshes[i]}" "${shape[@]}" --steps 3 --parity off --save "$scratch/saved$i" --report "$scratch/first.json"
    claim "it saves (${meshes[i]}, $launch)" ended 0
    for ((j = 0; j < ${#meshes[@]}; ++j)); do
      # Without --all: the same mesh, and the next one.
      [[ -n $all ]] || ((j == i || j == (i + 1) % ${#meshes[@]})) || continue
      what="${meshes[i]} to ${meshes[j]} ($launch)"
      train "${meshes[j]}" --load "$scratch/saved$i" --steps 3 --report "$scratch/then.json"
      claim "$what: it goes on as one device does" ended 0
      losses "$scratch/then.json" >"$scratch/then"
      claim "$what: the losses are those of the uninterrupted run" are_close 1e-5 "$scratch/uninterrupted$i" "$scratch/then"
      ((i != j)) || claim "$what: bit for bit" cmp -s "$scratch/uninterrupted$i" "$scratch/then"
      pairs=$((pairs + 1))
    done
  done
  printf '%s: %d pairs of meshes\n' "$launch" "$pairs"
}

for launch in "$@"; do
  tried=("${interrupted[@]}")
  if [[ -z $all && $launch == "$1" ]]; then
    tried=("${interrupted[2]}")
  elif [[ -z $all ]]; then
    meshes=("${meshes[@]:2:2}") experts=() tried=("${interrupted[1]}")
  fi
  # Each run compares itself with one device that loads the same checkpoint, too.
  try_pairs "${experts[@]}"
  # The last part of this test writes over the checkpoint of the second mesh.
  try_pairs "${meshes[@]}"

  # A model of transformers.
  wanted=$(perl -MJSON::PP -0777 -ne 'print decode_json($_)->{loss}' "$golden/expected.json")
  worst=0 imported=("${meshes[@]}") files=(tokens.bin tokens_plain.bin)
  [[ -n $all ]] || imported=("${meshes[0]}" "${meshes[@]: -2}")
  for mesh in "${imported[@]}"; do
    for file in "${files[@]}"; do
      flags=(--tokens "$golden/$file" --batch 12 --clock modelled --trace none --quiet)
      train "$mesh" --load "$golden" --steps 1 --report "$scratch/gpt2.json" --export "$scratch/exported"
      claim "a GPT-2 of transformers trains ($mesh, $file, $launch)" ended 0
      losses "$scratch/gpt2.json" >"$scratch/loss"
      echo "$wanted" >"$scratch/wanted"
      claim "with the loss of transformers ($mesh, $launch): $(<"$scratch/loss"), $wanted" are_close 1e-5 "$scratch/loss" "$scratch/wanted"
      worst=$(perl -e 'my $d = abs($ARGV[0] / $ARGV[1] - 1); print $d > $ARGV[2] ? $d : $ARGV[2]' "$(<"$scratch/loss")" "$wanted" "$worst")
      train "$mesh" --load "$scratch/exported" --steps 1
      claim "what it exports loads ($mesh, $launch)" ended 0
    done
    [[ -n $all ]] || files=(tokens.bin)    # one mesh has read the other kind of file
  done
  printf '%s: a loss differs from that of transformers by at most %.1e\n' "$launch" "$worst"
  flags=(--data "$text" --batch 12 --clock modelled --trace none --quiet)

  # Interruptions of a run that would take days. With --pace, a step takes a noticeable time.
  for mesh in "${tried[@]}"; do
    place=$scratch/place
    rm -rf "$place" "$scratch/trace"
    read -ra words <<<"$mesh"
    begin() { # FLAGS...: starts the run in the background
      setsid "$lessons/lesson_${words[0]}" "${words[@]:1}" --data "$text" --batch 12 --clock modelled --trace "$scratch/trace" --quiet \
        --launch "$launch" "${shape[@]}" --parity off --save "$place" --steps 1000000 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
      run=$!
    }
    has_trained() { [[ $(grep -c '"name":"step"' "$scratch/trace/rank0.json" 2>/dev/null) -ge 2 ]]; }
    begin --pace 0.01
    claim "it trains ($mesh, $launch)" within 60 has_trained
    kill -TERM "$run"
    await
    what="SIGTERM ($mesh, $launch)"
    claim "$what: exit code 130" ended 130
    claim "$what: it says what it does" complains 'saves and ends after this step'
    line=$(grep -oE "interrupted after [0-9]+ of 1000000 steps; saved in $place; --load $place --steps [0-9]+ continues" <<<"$err")
    claim "$what: it says how to go on" [ -n "$line" ]
    claim "$what: no results are shown" says_nothing
    done=$(sed -E 's/interrupted after ([0-9]+) .*/\1/' <<<"${line:-interrupted after 1 }")
    claim "$what: nothing is beside the checkpoint" [ "$(cd "$scratch" && echo place*)" = place ]
    train "$mesh" "${shape[@]}" --steps $((done + 5)) --parity off --report "$scratch/all.json" --save "$scratch/reference"
    claim "the uninterrupted run ($mesh, $launch)" ended 0
    train "$mesh" --load "$place" --save "$place" --steps 5 --parity off --report "$scratch/then.json"
    claim "$what: it resumes" ended 0
    losses "$scratch/all.json" | tail -n 5 >"$scratch/wanted"
    losses "$scratch/then.json" >"$scratch/then"
    claim "$what: after $done steps, the losses are the same, bit for bit" cmp -s "$scratch/wanted" "$scratch/then"
    claim "$what: and so is the final checkpoint" diff -r "$scratch/reference" "$place"

    # A step that takes minutes: the second interruption does not wait for it.
    cp -r "$place" "$scratch/old"
    rm -rf "$scratch/trace"
    begin --load "$place" --pace 1e-6
    begins() { [[ -s $scratch/trace/rank0.json ]]; }
    claim "it trains slowly ($mesh, $launch)" within 60 begins
    sleep 0.5
    kill -INT "$run"
    asked() { grep -q 'saves and ends after this step' "$scratch/err"; }
    claim "Ctrl-C ($mesh, $launch): it says what it does" within 60 asked
    kill -INT "$run"
    await
    claim "a second Ctrl-C ($mesh, $launch): exit code 130" ended 130
    claim "a second Ctrl-C ($mesh, $launch): the checkpoint is the old one" diff -r "$scratch/old" "$place"
    rm -rf "$scratch/old" "$scratch/reference" "$place" "$place".*
  done

  # A disk that does not take the checkpoint. (MPI cannot start under a limit on the size of files.)
  if [[ $launch == threads ]]; then
    cp -r "$scratch/saved1" "$scratch/old"
    run bash -c 'ulimit -f 8; exec "$@"' - "$lessons/lesson_03_zero_1" --ranks 3 "${flags[@]}" --load "$scratch/old" \
      --save "$scratch/saved1" --steps 2 --parity off
    claim "a checkpoint that cannot be written: exit code 1" ended 1
    claim "a checkpoint that cannot be written: it says why" complains 'could not be written completely: File too large'
    claim "a checkpoint that cannot be written: the old one is there" diff -r "$scratch/old" "$scratch/saved1"
    claim "a checkpoint that cannot be written: and nothing else" [ ! -e "$scratch/saved1.partial" ]
    rm -rf "$scratch/old"
  fi
done
conclude
