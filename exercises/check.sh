# The verb `check` of the command ../lockstep, which sources this file: shows an exercise, builds the learner's answer,
# runs its check, and keeps the progress. Writes only to build/, exercises/progress and exercises/*/answer.cpp, and with
# --view to runs/.
#
# shellcheck shell=bash disable=SC2154  # the command sets root, build, preset, install and me

exercises() { (shopt -s nullglob; cd "$root/exercises" || exit; printf '%s\n' [0-9][0-9]_*/task.h | sed 's,/.*,,'); }
is_solved() { grep -qsx "$1" "$root/exercises/progress"; } # EXERCISE
title_of() { sed -n '1s/^# //p' "$root/exercises/$1/README.md"; } # EXERCISE
next_exercise() {    # the first that is not solved; nothing if all are
  local each
  for each in $(exercises); do is_solved "$each" || { echo "$each"; return; }; done
}

# Prints the full name of the exercise called 2, 02, token_ring or 02_token_ring. Without a name, the next one.
find_exercise() { # [N|NAME]
  local name wanted=${1//[- ]/_}
  if [[ -z $wanted ]]; then next_exercise; return; fi
  [[ ! $wanted =~ ^[0-9]+$ ]] || printf -v wanted '%02d' "$((10#$wanted))"
  for name in $(exercises); do
    case ${wanted,,} in "$name" | "${name%%_*}" | "${name#*_}") echo "$name" && return ;; esac
  done
  refuse "there is no exercise '$1'; '$me check list' shows them"
}

list_exercises() { # [WORD]
  local each sign line found=''
  for each in $(exercises); do
    sign=' '
    ! is_solved "$each" || sign='✓'
    printf -v line '%s %-24s %s' "$sign" "$each" "$(title_of "$each")"
    [[ -z ${1-} || ${line,,} == *"${1,,}"* ]] || continue
    printf '%s\n' "$line"
    found=yes
  done
  [[ -n $found ]] || refuse "no exercise has '$1' in its name or title; '$me check list' shows all"
}

# Creates the learner's files from the stubs, all at once, so that the build is configured only once.
create_answers() {
  local each created=''
  for each in $(exercises); do
    [[ -e $root/exercises/$each/answer.cpp ]] && continue
    cp "$root/exercises/$each/stub.cpp" "$root/exercises/$each/answer.cpp"
    created=yes
  done
  [[ -z $created ]] || say "Created exercises/*/answer.cpp, where your answers go. (Git ignores them.)"
}

# Shows the errors of the compiler at the learner's own lines: the first two, with their lines.
show_errors() { # EXERCISE LOG
  local shown
  shown=$(<"$2")
  shown=$(awk -v own="^exercises/$1/answer.cpp:[0-9:]+ error" '
    $0 ~ own {show = ++errors <= 2 ? 3 : 0} show-- > 0' <<<"${shown//"$root/"/}")
  if [[ -n $shown ]]; then
    say "Your answer does not compile:"
    printf '%s\n' "$shown" >&2
  elif grep -q 'undefined reference' "$2"; then
    say "Your answer compiles, but a function is missing: exercises/$1/task.h declares it, in the namespace"
    say "lockstep::exercises, and the name and the types must be the same."
  else
    say "Building failed; all of it is in ${2#"$root"/}"
  fi
}

# Builds the learner's answer. Returns 1 if it does not compile.
build_answer() { # EXERCISE
  local log=$build/build.log built=$build/answers/$1 sum
  mkdir -p "$build/answers"
  # Ninja misses a change that was saved while the file was being compiled.
  sum=$(cksum <"$root/exercises/$1/answer.cpp")
  if [[ ! -e $built || $(<"$built") != "$sum" ]]; then
    find "$build" -path "*exercise_$1.dir*" -name 'answer.cpp.o' -delete
    printf '%s\n' "$sum" >"$built"
  fi
  (
    exec {lock}>"$build/lock"
    flock "$lock"
    configure
    cmake --build "$build" --target "exercise_$1" supervise ${gpu_part:+lockstep_cuda} --parallel "$(jobs_at_once)" 2>&1 | tee "$log" |
      progress "the check of exercise $1"
  ) && return
  [[ -e $log ]] || exit 1    # configuring failed, and has said so
  show_errors "$1" "$log"
  return 1
}

# Checks one exercise. Returns 0 if it is solved, 2 if the check is impossible here, otherwise 1.
check_one() { # EXERCISE
  local exercise=$1 number=${1%%_*} folder=exercises/$1 status=0 verb='write' flags=("${check_flags[@]}")
  [[ -z $check_view ]] || flags+=(--trace "$root/runs/exercise_$exercise")
  say "Exercise $number: $(title_of "$exercise")"
  if cmp -s "$root/$folder/answer.cpp" "$root/$folder/stub.cpp"; then
    say "  read    $folder/README.md"
    # The verdict on a program with a bug is where its learner starts.
    if grep -q '^// find the bug' "$root/$folder/stub.cpp"; then verb='fix  '; fi
    say "  $verb   $folder/answer.cpp"
    say "  then    $me check          ($me check hint  gives the first of three hints)"
    # The learner reads while this is built, so that the first verdict takes no longer than the others.
    compgen -G "$build/exercises/exercise_[0-9]*" >/dev/null ||
      say "Building what all checks share, once: about a minute on two cores. Read on meanwhile."
    build_answer "$exercise" || return 1
    [[ $verb == 'fix  ' ]] || { say "Ready to check your answer."; return 1; }
  fi
  build_answer "$exercise" || return 1
  # It judges, so that nothing that the answer does can pass for a verdict.
  "$build/exercises/supervise" --source "$folder/answer.cpp" --limit "$check_limit" \
    "$build/exercises/exercise_$exercise" "${flags[@]}" >&2 || status=$?
  case $status in
    0)
      is_solved "$exercise" || echo "$exercise" >>"$root/exercises/progress"
      say "  compare  $folder/solution.cpp"
      ;;
    2) return 2 ;;
    3 | 4) ;;
    130) exit 130 ;;    # Ctrl-C
    *) say "✗ The supervisor of the check has ended with exit code $status, so there is no verdict." ;;
  esac
  return $((status != 0))
}

# Shows one more hint than the last time; after the third, all three again.
hint() { # EXERCISE
  local shown=$build/answers/$1.hint n=1
  [[ ! -e $shown ]] || n=$(($(<"$shown") % 3 + 1))
  mkdir -p "$build/answers"
  echo $n >"$shown"
  say "Exercise ${1%%_*}, hint $n of 3:"
  sed '/./,$!d' >&2 <<<"$(nth_hint "$1" $n)"
  case $n in
    1) say "  more     $me check hint" ;;
    2) say "  more     $me check hint     (the last one is nearly the answer)" ;;
  esac
}
nth_hint() { # EXERCISE N
  awk -v n="$2" 'BEGIN {at = 1} $0 == "---" {++at; next} at == n' "$root/exercises/$1/hints.md"
}

watch_answer() { # EXERCISE
  local file=$root/exercises/$1/answer.cpp before='' now
  say "Checking exercises/$1/answer.cpp whenever it is saved; Ctrl-C ends this."
  while true; do
    now=$(cksum <"$file" 2>/dev/null) || now=$before    # an editor may be replacing it
    if [[ $now != "$before" ]]; then
      before=$now
      printf '\n' >&2
      check_one "$1" && { announce_next; return; }
    fi
    sleep 0.3
  done
}

announce_next() {
  local next
  next=$(next_exercise)
  if [[ -n $next ]]; then say "  next     $next: $me check"; else say "All exercises are solved."; fi
}

show_run() { # EXERCISE
  local run=$root/runs/exercise_$1
  if [[ ! -e $run/rank0.json ]]; then
    say "  This exercise has no run to show."
  elif has_display; then
    verb_view "$run"
  else
    say "  view     ${run#"$root/"}: there is no display here. '$me view ${run#"$root/"} --screenshot FILE' takes a"
    say "           picture, and https://ui.perfetto.dev shows the trace in a browser."
  fi
}

verb_check() { # [N|NAME] | list [WORD] | hint [N|NAME] | watch [N|NAME] | reset N|NAME | all
  local what words=() exercise solved=0 count=0
  check_flags=() check_limit=10 check_view=''
  while (( $# )); do
    case $1 in
      --seed) [[ ${2-} =~ ^[0-9]+$ ]] || refuse "--seed needs a number, not '${2-}'"; check_flags+=(--seed "$2"); shift ;;
      --launch)
        case ${2-} in
          threads) ;;
          mpi) check_flags+=(--launch mpi) check_limit=60 ;;
          *) refuse "--launch needs threads or mpi, not '${2-}'" ;;
        esac
        shift
        ;;
      --device)
        case ${2-} in
          cpu) ;;
          cuda) check_flags+=(--device cuda) check_limit=60 gpu_part=yes ;;
          *) refuse "--device needs cpu or cuda, not '${2-}'" ;;
        esac
        shift
        ;;
      --view) check_view=yes ;;
      -*) refuse "check has no flag '$1'; '$me check --help' lists them" ;;
      *) words+=("$1") ;;
    esac
    shift
  done
  set -- ${words[@]+"${words[@]}"}
  case ${2-} in hint | watch | reset) set -- "$2" "$1" ;; esac    # either order
  (( $# <= 2 )) || refuse "check takes one exercise at a time: '$me check $1'"
  what=${1-}
  case $what in
    list) list_exercises "${2-}"; return ;;
    reset)
      [[ -n ${2-} ]] || refuse "reset needs an exercise; '$me check list' shows them"
      exercise=$(find_exercise "$2") || exit
      mkdir -p "$build/answers"
      if cp "$root/exercises/$exercise/answer.cpp" "$build/answers/$exercise.cpp" 2>/dev/null; then
        say "Your answer is kept in ${build#"$root/"}/answers/$exercise.cpp until the next reset."
      fi
      cp "$root/exercises/$exercise/stub.cpp" "$root/exercises/$exercise/answer.cpp"
      if is_solved "$exercise"; then sed -i "/^$exercise\$/d" "$root/exercises/progress"; fi
      say "exercises/$exercise/answer.cpp has been reset."
      return
      ;;
    hint) exercise=$(find_exercise "${2-}") || exit; [[ -z $exercise ]] || hint "$exercise"; return ;;
  esac
  create_answers
  check_gpu ${gpu_part:+--device cuda}
  need required
  case $what in
    all)
      for exercise in $(exercises); do
        count=$((count + 1))
        if cmp -s "$root/exercises/$exercise/"{answer,stub}.cpp; then
          say "Exercise ${exercise%%_*}: not started"
          continue
        fi
        ! check_one "$exercise" || solved=$((solved + 1))
      done
      say "$solved of $count exercises are solved."
      (( solved == count ))
      ;;
    watch) exercise=$(find_exercise "${2-}") || exit; [[ -n $exercise ]] && watch_answer "$exercise" ;;
    *)
      (( $# <= 1 )) || refuse "check takes one exercise at a time: '$me check $1'"
      exercise=$(find_exercise "$what") || exit
      if [[ -z $exercise ]]; then say "All exercises are solved. '$me check N' checks one again."; return; fi
      check_one "$exercise" || return
      announce_next
      [[ -z $check_view ]] || show_run "$exercise"
      ;;
  esac
}
