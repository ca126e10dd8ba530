#!/usr/bin/env bash
# Tests of the ./lockstep command: on a small project of its own, in a path with spaces, whose
# lessons are scripts that print their arguments. Prints "N passed, N failed" last.
set -uo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
trap 'cleanup' EXIT
house="$scratch/a path with spaces"
unset LOCKSTEP_PRESET CMAKE_PREFIX_PATH CONDA_PREFIX PAGER
export TERM=dumb

cleanup() {
  [[ ! -e $scratch/viewer.pid ]] || xargs -r kill <"$scratch/viewer.pid" 2>/dev/null
  rm -rf "$scratch"
}

# --- A project with three lessons and a viewer, and the tools that it may see
# ----------------------

make_house() {
  mkdir -p "$house"/{cmake,lessons/08_gpipe,lessons/09_1f1b,lessons/10_broken} "$scratch/bin"
  cp "$source_dir/lockstep" "$source_dir/CMakePresets.json" "$house"
  cp "$source_dir/cmake/build.sh" "$house/cmake"
  ln -s "$house/lockstep" "$scratch/link"
  cat >"$house/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(house LANGUAGES CXX)
message(STATUS "Lockstep: MPI not found, left out")
foreach(name 08_gpipe 09_1f1b)
  add_custom_target(lesson_${name} ALL COMMENT "Building lesson_${name}"
    COMMAND install -D ${CMAKE_SOURCE_DIR}/lesson ${CMAKE_BINARY_DIR}/lessons/lesson_${name})
endforeach()
add_custom_target(lesson_09_1f1b-what_if-no_flush COMMENT "Building a what-if"
  COMMAND install -D ${CMAKE_SOURCE_DIR}/lesson ${CMAKE_BINARY_DIR}/lessons/lesson_09_1f1b-what_if-no_flush)
add_executable(lesson_10_broken EXCLUDE_FROM_ALL lessons/10_broken/main.cpp)
add_custom_target(lockstep_view ALL COMMENT "Building lockstep_view"
  COMMAND install -D ${CMAKE_SOURCE_DIR}/view ${CMAKE_BINARY_DIR}/viz/lockstep_view)
foreach(name bench_good bench_bad lockstep_bench_table lockstep_measure)
  add_custom_target(${name}
    COMMAND install -D ${CMAKE_SOURCE_DIR}/bench ${CMAKE_BINARY_DIR}/tests/bench/${name})
endforeach()
add_custom_target(lockstep_everything)
add_custom_target(lockstep_bench DEPENDS bench_good bench_bad lockstep_bench_table)
enable_testing()
add_test(NAME good COMMAND sh -c "[ -z $LOCKSTEP_TEST_DURATIONS ] || echo '1.500000 s: adds up'")
add_test(NAME slow COMMAND true)
set_tests_properties(slow PROPERTIES LABELS slow)
add_test(NAME left_out COMMAND sh -c "exit 77")
set_tests_properties(left_out PROPERTIES SKIP_RETURN_CODE 77)
if(EXISTS ${CMAKE_SOURCE_DIR}/ghost)
  add_test(NAME ghost COMMAND ${CMAKE_BINARY_DIR}/not_built)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/bad)
  add_test(NAME bad COMMAND false)
endif()
END
  # With --needs, the fake lesson says what the flags here ask for, as the real ones do.
  cat >"$house/lesson" <<'END'
#!/bin/bash
if [[ $1 == --needs ]]; then
  p=4 m=8
  while shift; (($#)); do
    case $1 in
      --nope) echo '--nope: no such flag' >&2; exit 2 ;;
      --help) echo help; exit ;;
      --microbatches) m=$((10#$2)) ;;
      --view) [[ ${2-} == [0-9]* ]] && port=$((10#$2)); echo "viewer 127.0.0.1:${port:-7077}" ;;
      --view=far) echo 'viewer elsewhere' ;;
      --device=cuda) echo 'gpu here' ;;
      --device) [[ $2 != cuda ]] || echo 'gpu here' ;;
    esac
  done
  printf 'ranks %d\nmicrobatches %d\n' $p $m
  exit
fi
printf 'lesson %s in %s with' "${0##*/lesson_}" "$PWD"
printf ' <%s>' "$@"; echo
echo $$ >"$SCRATCH/lesson.pid"
while (($#)); do
  case $1 in --exit) exit "$2" ;; --sleep) sleep "$2" & echo $! >"$SCRATCH/sleep.pid"; wait ;; esac
  shift
done
END
  # One script stands for the benchmarks, the table program and the measurement; it records its arguments. bench_bad
  # fails if $BENCH_FAILS is set.
  cat >"$house/bench" <<'END'
#!/bin/bash
name=${0##*/}
case $name in
  bench_*) [[ $name != bench_bad || -z ${BENCH_FAILS-} ]] || { echo 'no memory'; exit 1; }
    for word in "$@"; do case $word in --benchmark_out=*) echo '{}' >"${word#*=}" ;; esac; done
    echo "$name: $*" >>"$SCRATCH/bench" ;;
  lockstep_bench_table) [[ -z ${NO_MATCH-} ]] || exit 2; echo "table of $(($# - 1)) into ${1##*/}" ;;
  *) printf '%s with' "$name"; printf ' <%s>' "$@"; echo ;;
esac
END
  mkdir -p "$house/tests/bench"
  touch "$house/tests/bench"/bench_{good,bad,left_out}.cpp
  # The fake viewer listens as the real one does, and ends after a minute at the latest.
  cat >"$house/view" <<'END'
#!/usr/bin/perl
use IO::Socket::INET;
open F, '>>', "$ENV{SCRATCH}/viewer.pid"; print F "$$\n"; close F;
if ("@ARGV" =~ /--listen (\S+)/ && !$ENV{VIEWER_FAILS}) {
  $s = IO::Socket::INET->new(Listen => 1, LocalAddr => $1, ReuseAddr => 1) or die "taken: $1\n";
  print "viewer @ARGV\n"; close STDOUT; sleep 60;
} elsif ($ENV{VIEWER_FAILS}) { print "can't open a window\n"; exit 1 }
else { print "viewer <", join('> <', @ARGV), ">\n" }
END
  chmod +x "$house/lesson" "$house/view" "$house/bench"
  printf '# GPipe\n\nHow many microbatches\n**fill** a pipeline? More.\n' >"$house/lessons/08_gpipe/README.md"
  printf '# 1F1B\n\nWhy hold so much?\n\nGrows from: 08_gpipe\n' >"$house/lessons/09_1f1b/README.md"
  printf 'int main() { return 8; }\n' >"$house/lessons/08_gpipe/main.cpp"
  printf 'int main() { return 9; }\n' >"$house/lessons/09_1f1b/main.cpp"
  printf 'int gpipe();\n' >"$house/lessons/08_gpipe/gpipe.h"
  printf 'int one_f_one_b();\n' >"$house/lessons/09_1f1b/one_f_one_b.h"
  mkdir "$house/lessons/09_1f1b/what_if"
  printf 'No flush follows a batch.\n\n--- a/x.h\n+++ b/x.h\n@@ -1 +1 @@\n-flush();\n+\n' >"$house/lessons/09_1f1b/what_if/no_flush.patch"
  printf 'Too short.\n' >"$house/lessons/09_1f1b/what_if/short_warm_up.patch"
  printf 'int main() { return undeclared; }\n' >"$house/lessons/10_broken/main.cpp"
  # A dpkg with everything installed except what $LACKING names; nothing here may reach the real
  # apt.
  cat >"$scratch/bin/dpkg-query" <<'END'
#!/bin/bash
for name in "${@:4}"; do
  [[ " ${LACKING-} " == *" $name "* && ! -e $SCRATCH/installed ]] || printf '\n%s ii ' "$name"
done
END
  cat >"$scratch/bin/apt-get" <<'END'
#!/bin/bash
echo "apt-get $*" >>"$SCRATCH/apt"
[[ -z ${APT_FAILS-} ]] || { echo 'E: Unable to fetch some archives'; exit 100; }
[[ "$*" != *install* ]] || touch "$SCRATCH/installed"
END
  cat >"$scratch/bin/sudo" <<'END'
#!/bin/bash
while [[ $1 == -n ]]; do shift; done
exec "$@"
END
  chmod +x "$scratch"/bin/*
  export PATH="$scratch/bin:$PATH" SCRATCH=$scratch
}

# --- Claims --------------------------------------------------------------------------------------

# Runs the command. Sets $out to all its output and $code to its exit code.
lockstep() { out=$(cd "$house" && timeout 300 ./lockstep "$@" 2>&1 </dev/null); code=$?; }

is_silent_on() { [[ $out != *"$1"* ]]; }
has_lines() { [[ $(wc -l <<<"$out") == "$1" ]]; }
last_line() { [[ ${out##*$'\n'} == "$1" ]]; }
viewers() { [[ $(sort -u "$scratch/viewer.pid" 2>/dev/null | wc -l) == "$1" ]]; }
alive() { kill -0 "$(tail -n 1 "$1")" 2>/dev/null; }
gone() { for _ in {1..600}; do alive "$1" || return 0; sleep 0.05; done; return 1; }

make_house
files_before=$(cd "$house" && find . -type f | sort)

# Help, at every level, with no build and no packages.
lockstep; claim "without a verb, the verbs" says './lockstep demo'
claim "without a verb, all is well" ended 0
for verb in demo lesson view diff test bench measure accuracy; do
  lockstep "$verb" --help; claim "$verb --help" says "./lockstep $verb"
  claim "$verb --help ends well" ended 0
  first=$out; lockstep help "$verb"; claim "help $verb says the same" [ "$out" = "$first" ]
done
lockstep --help; claim "--help names the exit codes" says 'Exit codes'
claim "help builds nothing" [ ! -e "$house/build" ]

# Invalid requests: one line, exit code 2.
for words in 'tset' '--verbose' 'help tset' 'test --fast' 'test --slowest=x' '--preset fast test' '--preset' 'diff' 'diff 8' \
  'bench --fast' 'bench a b' 'bench --json' 'bench --json no/such/folder/x.json'; do
  # shellcheck disable=SC2086  # several words
  lockstep $words; claim "'$words' is refused" ended 2
  claim "'$words' is refused in one line" has_lines 1
done
lockstep --preset $'no such\nrelease' test; claim "a preset of two lines is refused" ended 2
claim "a preset of two lines is refused in one line" has_lines 1
lockstep lesson nonsense; claim "an unknown lesson is refused" ended 2
claim "an unknown lesson is named" says "no lesson 'nonsense'"
claim "an unknown lesson is refused in one line" has_lines 1
claim "and the verb that lists them is named" says "'./lockstep lesson' lists them"
lockstep diff 99; claim "so is one that diff names" has_lines 1
for words in tset 'lesson X' 'diff X' 'lesson 9 --what-if X' 'test X' 'bench a X' '--preset X test'; do
  word=$'\e[31m\n\x01\x7f'
  read -ra list <<<"$words"
  lockstep "${list[@]/#X/$word}"
  [[ $words != *X* ]] || claim "'$words' with control characters is refused" ended 2
  [[ $words != *X* ]] || claim "'$words' with control characters: they are escaped" says '\x1b[31m\n\x01\x7f'
  claim "'$words' with control characters: in one line" has_lines 1
done
for words in lesson 'lesson --what-if' help 'diff 9'; do
  # shellcheck disable=SC2086  # several words
  out=$(cd "$house" && ./lockstep $words 2>&1 >/dev/full); code=$?
  claim "'$words' with a full device as stdout fails" ended 1
  claim "'$words' with a full device as stdout: one line" has_lines 1
done

# Lessons.
lockstep lesson; claim "lesson lists, with heading and question" says $'08_gpipe\n      GPipe\n      How many microbatches fill a pipeline?'
claim "and stops at the question" is_silent_on 'More'
for name in 9 09 009 1f1b 1F1B 09_1f1b 09-1f1b; do
  lockstep lesson "$name" --steps 3; claim "lesson $name is 09_1f1b" says 'lesson 09_1f1b in'
done
claim "flags go through" says 'with <--steps> <3>'
claim "a second run doesn't configure" is_silent_on 'Configuring'
lockstep lesson 9 --help; claim "lesson N --help is the lesson's" says 'with <--help>'
lockstep lesson 9 --name 'two words'; claim "words with spaces stay whole" says '<--name> <two words>'
lockstep --no-install lesson 9 --preset=release --steps 1; claim "our own flags are taken out" says 'with <--steps> <1>'
lockstep lesson 9 --nope; claim "the lesson refuses a wrong flag" ended 2
claim "before it runs" is_silent_on 'lesson 09_1f1b in'
lockstep lesson 9 --exit 7; claim "the exit code is the lesson's" ended 7
out=$(cd / && "$scratch/link" lesson gpipe 2>&1); code=$?
claim "through a symlink, from elsewhere" says 'lesson 08_gpipe in / with'
exec {held}>"$house/build/release/lock"
flock "$held"
: >"$scratch/err"
(cd "$house" && exec ./lockstep lesson 9) >"$scratch/out" 2>&1 </dev/null {held}>&- &
run=$!
claim "one build at a time" within 60 grep -q 'Waiting for another build' "$scratch/out"
flock -u "$held"; await
claim "and then it runs" says 'lesson 09_1f1b'
lockstep lesson 10; claim "a lesson that does not compile fails" ended 1
claim "and shows what the compiler said" says "main.cpp:1:21: error:"
claim "but not its command line" is_silent_on ' -o CMakeFiles'

# What-ifs.
lockstep lesson 9 --what-if
claim "--what-if lists the lesson's what-ifs, each with its first line, and nothing else" \
  [ "$out" = $'  no_flush             No flush follows a batch.\n  short_warm_up        Too short.' ]
claim "and ends well" ended 0
first=$out; lockstep lesson 9 --what-if --steps 3; claim "flags after it change nothing" [ "$out" = "$first" ]
lockstep lesson --what-if; claim "without a lesson, it lists those of every lesson" says $'09_1f1b\n  no_flush'
lockstep lesson 8 --what-if; claim "a lesson without what-ifs says so" [ "$out" = 'lesson 08_gpipe has no what-ifs' ]
lockstep lesson 9 --what-if no_flsh; claim "a wrong name is refused" ended 2
claim "and all names are given" says "no what-if of this name; it has no_flush, short_warm_up"
claim "in one line" has_lines 1
for words in '8 --what-if x' '9 --what-if no_flush --what-if no_flush'; do
  # shellcheck disable=SC2086  # several words
  lockstep lesson $words; claim "'lesson $words' is refused" ended 2
  claim "'lesson $words' is refused in one line" has_lines 1
done
for words in '--what-if no_flush --steps 3' '--steps 3 --what-if=No-Flush'; do
  # shellcheck disable=SC2086  # several words
  lockstep lesson 9 $words; claim "'$words' runs the changed lesson, without the flag" says 'lesson 09_1f1b-what_if-no_flush in'
  claim "'$words' leaves the other flags" says 'with <--steps> <3>'
  claim "'$words' shows the change" says $'No flush follows a batch.\n\n--- a/x.h\n+++ b/x.h\n@@ -1 +1 @@\n-flush();\n+\n'
done
lockstep lesson 9 --what-if no_flush --exit 1; claim "the exit code is the changed lesson's" ended 1
out=$(cd "$house" && script -qec './lockstep lesson 9 --what-if no_flush' /dev/null </dev/null); code=$?
claim "on a terminal, the change is in colour" says $'\e[31m-flush();\e[m'
lockstep lesson 9 --help; claim "lesson N --help lists its what-ifs" says 'No flush follows a batch.'
lockstep lesson 8 --help; claim "or none" is_silent_on 'What-ifs'

# Build progress, without a terminal.
out=$(bash -c 'say() { printf "%s\n" "$*" >&2; }; preset=release; source "$1"; PROGRESS_SECONDS=1
  { sleep 1.2; for i in 1 2 3; do echo "[$i/9] Building CXX object x/y$i.cpp.o"; sleep 1.1; done; } |
    progress "all of it"' _ "$source_dir/cmake/build.sh" 2>&1)
claim "a build says what it builds before the first file is done" [ "${out%%$'\n'*}" = 'Building all of it (log: build/release/build.log)' ]
claim "and then how far it is" says '  2 of 9 files, y2.cpp.o after '
out=$(bash -c 'source "$1"; true | progress "all of it"' _ "$source_dir/cmake/build.sh" 2>&1)
claim "a build with nothing to do says nothing" [ -z "$out" ]

# Packages. A compiler that finds no headers simulates a machine without them.
cat >"$scratch/bin/empty-c++" <<'END'
#!/bin/bash
[[ $1 == -E ]] && exit 1
exec c++ "$@"
END
chmod +x "$scratch/bin/empty-c++"
export CXX=empty-c++ LACKING='libfmt-dev'
rm -rf "$house/build"
lockstep lesson 9 --no-install; claim "--no-install without fmt stops" ended 1
claim "and says what is missing" says "can't build without libfmt-dev"
claim "and asks apt for nothing" [ ! -e "$scratch/apt" ]
claim "and builds nothing" is_silent_on 'Configuring'
LACKING='libstb-dev doctest-dev' lockstep lesson 9 --no-install; claim "without the viewer it goes on" says 'lesson 09_1f1b'
claim "and says so" says 'for the viewer: libstb-dev'
claim "but not of what it does not need" is_silent_on 'doctest'
LACKING='libstb-dev doctest-dev' lockstep lesson 9 --no-install; claim "once" is_silent_on 'libstb-dev'
LACKING='libstb-dev' lockstep lesson 9 --no-install; claim "with other packages, it is configured again" says 'Configuring'
APT_FAILS=1 lockstep demo; claim "apt that fails is shown" says 'Could not install libfmt-dev: E: Unable'
LACKING=libstb-dev APT_FAILS=1 lockstep lesson 9; claim "and optional packages stop nothing" says 'lesson 09_1f1b'
rm -f "$scratch/apt"
lockstep lesson 9; claim "what is missing is installed" grep -q 'install --no-install-recommends libfmt-dev' "$scratch/apt"
claim "and said before" says 'to build and run: libfmt-dev'
claim "and then the lesson runs" says 'lesson 09_1f1b'
unset CXX LACKING
rm -rf "$house/build"

# dpkg reports a CMake, but there is none on the PATH.
mkdir "$scratch/tools"
find /usr/bin -maxdepth 1 -mindepth 1 ! -name 'cmake*' -exec ln -s -t "$scratch/tools" {} +
PATH=$scratch/bin:$scratch/tools lockstep lesson 9; claim "without cmake, a build fails" ended 1
claim "and says why in one line" has_lines 1
claim "and what to install" says "can't build: cmake is not on the PATH; install it"

# The demo without a display.
lockstep demo; claim "demo gives its flags" says 'with <--defaults> <--ranks 4 --layers 4 --hidden 96'
claim "demo does not look for CUDA" grep -q 'LOCKSTEP_CUDA:.*=when_wanted' "$house/build/release/CMakeCache.txt"
claim "demo says where the trace is" says 'runs/latest/trace.json'
claim "demo says what it trains" says 'as a pipeline of 4 stages with 8 microbatches per step.'
claim "and works out the next one's bubble" says "demo --microbatches 16' has a smaller bubble: 4 stages and 16 microbatches: 3/19, 16 %."
lockstep demo --microbatches 16 --steps=2; claim "the user's flags follow the demo's" says ' --detail brief> <--microbatches> <16> <--steps=2>'
claim "and has another proposal then" says "lesson 8' makes the bubble smaller"
# Bash's own glob looks for a GPU's device file, so a machine with a GPU cannot run this test.
if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null && [[ ! -e /dev/dxg ]]; then
  for words in 'lesson 9 --device cuda' 'demo --device=cuda'; do
    # shellcheck disable=SC2086  # words
    lockstep $words; claim "'$words' without a GPU is refused" ended 2
    claim "before the GPU's part is built" grep -q 'LOCKSTEP_CUDA:.*=when_wanted' "$house/build/release/CMakeCache.txt"
    claim "and says why" says 'there is no GPU here; leave the flag out to train on the CPU'
  done
fi
lockstep demo --exit 1; claim "a demo that fails ends so" ended 1
lockstep demo --nope; claim "the lesson refuses the demo's flags, too" ended 2
claim "before the demo explains itself" is_silent_on 'each row'
lockstep lesson 9 --view; claim "no display: how to look later" says 'no display here'
claim "no display: the run goes on" says 'with <--view>'
lockstep lesson 9 --view 08; claim "a port with a leading zero reaches the lesson" says 'with <--view> <08>'
claim "and is no octal number" is_silent_on 'octal'
lockstep demo --microbatches 08; claim "nor are 08 microbatches" is_silent_on 'base'
lockstep view; claim "view without a display is refused" ended 2
claim "and says what does without" says "'./lockstep view --help' lists what needs none"
claim "no viewer was started" viewers 0
lockstep view x --export y.svg; claim "with words, the viewer decides" says 'viewer <x> <--export> <y.svg>'
rm "$scratch/viewer.pid"

# With a display; the fake viewer needs none.
export DISPLAY=:99
lockstep view 'a trace.json' --port 3; claim "view passes its words on" says 'viewer <a trace.json> <--port> <3>'
rm "$scratch/viewer.pid"
lockstep demo; claim "demo streams into a viewer" says '<--view> <127.0.0.1:'
claim "which stays open" alive "$scratch/viewer.pid"
port=${out##*127.0.0.1:} port=${port%%>*}
lockstep lesson 9 --view "$port"; claim "a viewer that listens is used" viewers 1
claim "and no other is opened" is_silent_on 'The viewer is open'
lockstep lesson 9 --view=far; claim "a viewer elsewhere is nothing to open" says 'with <--view=far>'
lockstep demo; claim "a second demo has a window of its own" is_silent_on "127.0.0.1:$port>"
VIEWER_FAILS=1 lockstep demo; claim "a viewer that can't start is said" says "did not start: can't open a window"
claim "and the run goes on without" is_silent_on '<--view>'
claim "and says how to look" says 'runs/latest/trace.json'
xargs kill <"$scratch/viewer.pid" 2>/dev/null; rm "$scratch/viewer.pid"
lockstep lesson 9 --steps 2; claim "no --view, no viewer" viewers 0

# Ctrl-C in the demo ends the run and the window.
for signal in INT TERM; do
  rm -f "$scratch"/*.pid
  (cd "$house" && exec setsid ./lockstep demo --sleep 600) >/dev/null 2>&1 &
  demo=$!    # setsid makes it the leader of its group
  for _ in {1..1200}; do [[ -e $scratch/sleep.pid ]] && break; sleep 0.05; done
  claim "the run and its viewer are there" alive "$scratch/viewer.pid"
  SECONDS=0
  if [[ $signal == INT ]]; then kill -INT -- "-$demo"; else kill -TERM "$demo"; fi
  wait "$demo"; code=$? out=''
  claim "$signal ends the demo" ended 130
  claim "$signal ends it, and does not wait for its end" [ "$SECONDS" -lt 300 ]
  claim "$signal ends the lesson" gone "$scratch/lesson.pid"
  claim "$signal ends the viewer" gone "$scratch/viewer.pid"
  kill "$(<"$scratch/sleep.pid")" 2>/dev/null
done
unset DISPLAY

# diff.
lockstep diff 9; claim "diff shows main.cpp" says '+int main() { return 9; }'
claim "and the technique, whatever its name" says '-int gpipe();'
claim "without colour, off a terminal" is_silent_on $'\e['
lockstep diff 10; claim "without a word in the README, the lesson before" says '09_1f1b/main.cpp'
for lesson in 08_gpipe 09_1f1b; do    # two headers each, of which one is named after the lesson
  echo "int technique_of_${lesson#*_}();" >"$house/lessons/$lesson/${lesson#*_}.h"
  echo "int prediction_of_${lesson#*_}();" >"$house/lessons/$lesson/prediction.h"
done
lockstep diff 9
claim "the headers that lessons are named after belong together" says $'--- 08_gpipe/gpipe.h\n+++ 09_1f1b/1f1b.h\n'
claim "and nothing else is shown" is_silent_on 'prediction'
mkdir "$house/lessons/09_1f1b/experiment"
echo 'int watermark();' >"$house/lessons/09_1f1b/experiment/watermark.h"
lockstep diff 9 --all
claim "--all: also the others, by name" says $'--- 08_gpipe/prediction.h\n+++ 09_1f1b/prediction.h\n'
claim "--all: and the folders" says $'--- /dev/null\n+++ 09_1f1b/experiment/watermark.h\n'
claim "--all: each once" [ "$(grep -c '^+++ ' <<<"$out")" = 5 ]
lockstep diff --all 9; claim "--all before the lesson" says '+++ 09_1f1b/prediction.h'
rm -r "$house/lessons/09_1f1b/experiment"
lockstep diff 9 --al; claim "another flag is refused" ended 2
claim "and named" says "diff has no flag '--al'"
echo 'int gpipe();' >"$house/lessons/08_gpipe/gpipe.h"
rm "$house"/lessons/{09_1f1b/1f1b,08_gpipe/prediction,09_1f1b/prediction}.h

# bench and measure.
lockstep bench 'a|b'; claim "bench makes a table of what is built" says 'table of 2 into bench.json'
claim "bench ends well" ended 0
claim "the filter goes through" grep -q 'bench_good: --benchmark_filter=a|b ' "$scratch/bench"
lockstep bench --json "$scratch/x.json"; claim "--json names the file" says 'into x.json'
BENCH_FAILS=1 lockstep bench; claim "a benchmark that fails is named" says 'bench_bad failed: no memory'
claim "the others are shown" says 'table of 1 into'
claim "and it is no success" ended 1
rm -rf "$house/build"
printf 'all_reduce/iterations:1\n' >"$house/tests/bench/names.txt"
lockstep bench nothing; claim "a filter that no name matches is refused" ended 2
claim "a filter that no name matches is named" says "no benchmark matches 'nothing'"
claim "a filter that no name matches: nothing was built" [ ! -e "$house/build" ]
lockstep bench '^all_.*(reduce|x)/it'; claim "a filter that matches a name runs" ended 0
rm "$house/tests/bench/names.txt"
NO_MATCH=1 lockstep bench nothing; claim "a filter that nothing matches is refused" ended 2
claim "and named" says "no benchmark matches 'nothing'"
lockstep measure --launch mpi --output 'a file'; claim "measure passes its flags on" says 'lockstep_measure with <--launch> <mpi> <--output> <a file>'

# test: the last line is the summary, and the exit code the verdict.
skips=1    # left_out, and the layout check without clang-format 14
clang-format-14 --version >/dev/null 2>&1 || clang-format --version 2>/dev/null | grep -q 'version 14\.' || skips=2
lockstep test; claim "test passes" ended 0
claim "test looks for CUDA" grep -q 'LOCKSTEP_CUDA:.*=ON' "$house/build/release/CMakeCache.txt"
claim "test counts" last_line "$((3 - skips)) passed, 0 failed, $skips skipped"
claim "test leaves the slow ones out" is_silent_on 'slow'
lockstep test -- -R no_such_test; claim "no test at all is no success" ended 1
lockstep test --slowest; claim "--slowest lists files, tests and cases" says $'Slowest tests:\n'
claim "a test with its seconds" grep -q '^ *[0-9.]*  good$' <<<"$out"
claim "a case with its seconds" grep -q '^ *1\.5  good: adds up$' <<<"$out"
claim "and counts last" last_line "$((3 - skips)) passed, 0 failed, $skips skipped"
lockstep test --slowest 1; claim "--slowest 1 lists one test" [ "$(sed -n '/^Slowest tests/,/^$/p' <<<"$out" | grep -c '  ')" = 1 ]
claim "and no duration is printed otherwise" is_silent_on 'adds up: '
lockstep test -- -R good; claim "ctest's arguments go through" is_silent_on 'left_out'
touch "$house/bad" "$house/CMakeLists.txt"; lockstep test; claim "a test that fails is counted" says ' passed, 1 failed, '
claim "and fails" ended 1
lockstep test --all; claim "--all: three presets, slow ones too" says ' passed, 3 failed, '
claim "--all has the slow ones" says 'slow'
claim "--all builds the kernels for every GPU" grep -q 'LOCKSTEP_CUDA_ARCHITECTURES:.*=all' "$house/build/release/CMakeCache.txt"
rm "$house/bad"; touch "$house/ghost" "$house/CMakeLists.txt"
lockstep test; claim "a test without its program fails, it is not skipped" says " passed, 1 failed, $skips skipped"
rm "$house/ghost"; echo 'broken(' >>"$house/CMakeLists.txt"
lockstep test; claim "what does not build fails" ended 1
claim "and counts" says ' passed, 1 failed'

if (( skips == 1 )); then
  echo 'int   f( );' >"$house/lessons/09_1f1b/one_f_one_b.h"
  lockstep test; claim "a source that clang-format would change is named" says $'\n  lessons/09_1f1b/one_f_one_b.h\n'
  claim "and it alone" is_silent_on 'gpipe.h'
  claim "and counts" says ' passed, 2 failed'
fi

# Nothing is written outside build/ (and, by lessons, runs/).
out=$(cd "$house" && find . -path ./build -prune -o -type f -print | sort)
claim "no writes outside build/" [ "$out" = "$files_before" ]

conclude
