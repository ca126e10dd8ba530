#!/usr/bin/env bash
# `./lockstep check` on a small project with two exercises of its own: what it says at each step, from the stub to the
# last solved exercise, and what it writes. Prints "N passed, N failed".
#
#   test_check.sh SUPERVISE CHECK_COMMAND     the program that judges, and the verb's own
set -uo pipefail
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
unset LOCKSTEP_PRESET
export SUPERVISE=$1 CHECK_COMMAND=$2 SOURCE_DIR=$source_dir
house="$scratch/a path with spaces"

mkdir -p "$house"/{cmake,lessons,exercises/01_two,exercises/02_three}
cp "$source_dir/lockstep" "$source_dir/CMakePresets.json" "$house"
cp "$source_dir/cmake/build.sh" "$house/cmake"
cat >"$house/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(house LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
add_subdirectory(exercises)
END
cat >"$house/exercises/CMakeLists.txt" <<'END'
add_custom_target(supervise COMMAND ${CMAKE_COMMAND} -E create_symlink $ENV{SUPERVISE} supervise)
add_custom_target(check_command COMMAND ${CMAKE_COMMAND} -E create_symlink $ENV{CHECK_COMMAND} check_command)
file(GLOB answers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} */answer.cpp)
foreach(exercise 01_two 02_three)
  add_custom_target(shared_${exercise} COMMAND ${CMAKE_COMMAND} -E true COMMENT "Building CXX object shared.cpp.o")
  if(${exercise}/answer.cpp IN_LIST answers)
    add_executable(exercise_${exercise} ${exercise}/answer.cpp main.cpp
      $ENV{SOURCE_DIR}/exercises/frame/report.cpp)
    target_include_directories(exercise_${exercise} PRIVATE $ENV{SOURCE_DIR})
    target_link_libraries(exercise_${exercise} PRIVATE fmt)
    target_compile_options(exercise_${exercise} PRIVATE -g -fsanitize=address,undefined -fno-sanitize-recover=all)
    target_link_options(exercise_${exercise} PRIVATE -fsanitize=address,undefined)
  endif()
endforeach()
END
# Stands for a check (exercises/frame/main.cpp).
cat >"$house/exercises/main.cpp" <<'END'
#include <cstdio>
#include <cstdlib>

#include "exercises/frame/report.h"

using namespace lockstep::exercises;
int answer(int input);
int main(int count, char** words) {  // FLAGS --report PATH
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  Reporter reporter{words[count - 1], rank ? std::atoi(rank) : 0, rank ? most_ranks : 1};
  reporter.try_case("2 ranks");
  const int result = answer(1);
  for (int i = 1; i < count - 2; ++i) std::puts(words[i]);
  const int code = result == 0 ? not_written_code : result == 2 ? right_code : wrong_code;
  reporter.give_verdict(code, code == right_code ? "2 cases are right."
                                                 : "2 ranks: should be 2\n\nOne rank is missing.");
  return code;
}
END
for exercise in 01_two 02_three; do
  folder=$house/exercises/$exercise
  printf '# The number %s\n\nText.\n\nIn PyTorch: `torch.%s`.\n' "${exercise#*_}"{,} >"$folder/README.md"
  echo 'int answer(int input);' >"$folder/task.h"
  echo 'int answer(int) { return 0; }' >"$folder/stub.cpp"
  printf 'One\n\n---\n\nTwo\n\n---\n\nThree\n' >"$folder/hints.md"
done
lockstep() { out=$(cd "$house" && timeout 300 ./lockstep "$@" 2>&1 </dev/null); code=$?; }
says_no() { [[ $out != *"$1"* ]]; }
write() { printf '%s\n' "$2" >"$house/exercises/$1/answer.cpp"; } # EXERCISE CODE
files() { (cd "$house" && find . -path ./build -prune -o -type f -print | sort); }
before=$(files)

lockstep check --fast
claim 'an unknown flag: exit code 2' ended 2
claim 'an unknown flag: named' says "check has no flag '--fast'; './lockstep check --help' lists them"
lockstep check --fast
claim 'an unknown flag: builds nothing a second time' [ "$(wc -l <<<"$out")" = 1 ]
lockstep check list
claim 'list: both, none solved' [ "$out" = \
  $'  01_two                      The number two\n  02_three                    The number three' ]
out=$(cd "$house" && ./lockstep check list 2>&1 >/dev/full) code=$?
claim 'list: a full device as stdout: exit code 1' ended 1
claim 'list: a full device as stdout: one line' [ "$out" = "lockstep: can't write to stdout: No space left on device" ]
printf '# lessons\n00_first - 02_three\n01_last 00 01_two\n' >"$house/lessons/course.txt"
lockstep check list
claim 'list: in the order of the course, by lesson' [ "$out" = \
  $'lesson 00_first\n  02_three                    The number three\n\nlesson 01_last\n  01_two                      The number two' ]
for word in first 0 00_First; do
  lockstep check list "$word"
  claim "list $word: a lesson" [ "$out" = $'lesson 00_first\n  02_three                    The number three' ]
done
lockstep check list 1
claim 'list 1: the exercise and the lesson with this number, not titles' [ "$out" = \
  $'lesson 01_last\n  01_two                      The number two' ]
sed -i 's/two$/two, or three/' "$house/exercises/01_two/README.md"
lockstep check list three
claim 'list: a name wins over a word in a title' [ "$out" = $'lesson 00_first\n  02_three                    The number three' ]
lockstep check list 'OR THREE'
claim 'list: searched' [ "$out" = $'lesson 01_last\n  01_two                      The number two, or three' ]
sed -i 's/, or three$//' "$house/exercises/01_two/README.md"
lockstep check hint
claim 'the first of the course is next' says 'Exercise 02, hint 1'
claim 'hint of the next one: how to get more' says $'check hint'
claim 'hint of the next one: without its number' says_no 'check hint 02'
lockstep check hint 1
claim 'hint of another: how to get more' says 'check hint 01'
echo '02_three attempts=1 hints=0 solved=2026-11-28T22:36:41Z' >"$house/exercises/progress"
for next in 01_two 02_three; do
  rm -rf "$house/build" "$house"/exercises/*/answer.cpp
  lockstep check
  claim "a fresh clone: names exercise $next before it builds" [ "${out%%$'\n'*}" = \
    "The next exercise is ${next%%_*}. Read exercises/$next/README.md while Lockstep builds the check." ]
  claim "a fresh clone: says what is built" says 'Building what all checks share, once (log: '
  rm -f "$house/exercises/progress"
done
rm -f "$house"/exercises/*/answer.cpp "$house/lessons/course.txt"
rm -rf "$house/build/release/answers"
lockstep check
claim 'at first: not solved' ended 1
claim 'at first: which exercise' says 'Exercise 01: The number two'
claim 'at first: what to read' says 'read    exercises/01_two/README.md'
claim 'at first: what to write' says 'write   exercises/01_two/answer.cpp'
claim 'at first: what to do once all is built' says $'\nEverything is built. Write your answer, and check it with ./lockstep check'
claim 'at first: the files are announced' says 'Created exercises/*/answer.cpp'
claim 'the answers are all that was written' [ "$(files)" = \
  "$(printf '%s\n' "$before" ./exercises/01_two/answer.cpp ./exercises/02_three/answer.cpp | sort)" ]

write 01_two 'int answer(int) { return 1; }'
lockstep check
claim 'wrong: exit code 1' ended 1
claim 'wrong: what and why' says $'✗ 2 ranks: should be 2\n\nOne rank is missing.'
lockstep check --seed 7
claim 'the seed goes through' says $'  --seed\n  7'
if command -v mpirun >/dev/null; then
  lockstep check --launch mpi
  claim '--launch mpi goes through' says $'  --launch\n  mpi'
  claim '--launch mpi: the verdict' says $'✗ 2 ranks: should be 2\n\nOne rank is missing.'
fi
lockstep check --launch fibers
claim 'another --launch is refused' ended 2
claim 'and what would do is said' says "--launch needs threads or mpi, not 'fibers'"
lockstep check --device tpu
claim 'another --device is refused' says "--device needs cpu or cuda, not 'tpu'"
[[ -e /dev/nvidia0 ]] || { lockstep check --device cuda; claim 'no GPU: says so' says 'there is no GPU here'; }
write 01_two 'int answer(int) { return missing + 1; }'
lockstep check
claim 'a compiler error: exit code 1' ended 1
claim 'a compiler error: at its line' says 'exercises/01_two/answer.cpp:1:26: error:'
claim 'a compiler error: no path of the machine' says_no "$house/exercises/01_two/answer.cpp:1"
claim 'a compiler error: where the others are' says '(all messages: build/release/build.log)'
does_not_compile() { # WHAT CODE LINE...: the answer with this code is rejected, and the messages have these lines
  write 01_two "$2"
  lockstep check
  claim "$1: exit code 1" ended 1
  local line
  for line in "${@:3}"; do claim "$1: says $line" says "$line"; done
  claim "$1: no path of the machine" says_no "$house"
}
does_not_compile 'a missing header' '#include "missing.h"' \
  $'does not compile:\nexercises/01_two/answer.cpp:1:10: fatal error: missing.h'
does_not_compile 'an error in a template of the library' $'#include <algorithm>\n#include <vector>
struct S {};\nint answer(int) {\n  std::vector<S> all(3);\n  std::sort(all.begin(), all.end());\n  return 2;\n}' \
  $'does not compile:\n/' ": error: no match for 'operator<'" \
  $'This comes from exercises/01_two/answer.cpp:6:\n  std::sort(all.begin(), all.end());\n'
echo 'int answer(int input' >"$house/exercises/01_two/task.h"
does_not_compile 'an error in a header of Lockstep' '#include "task.h"' $'does not compile:\nexercises/01_two/task.h:1:' \
  $'This comes from exercises/01_two/answer.cpp:1:\n#include "task.h"\n'
cp "$house/exercises"/{02_three,01_two}/task.h
does_not_compile 'a missing brace' $'int answer(int) {\n  return 2;\n' \
  "answer.cpp:2:12: error: expected '}' at end of input" "answer.cpp:1:17: note: to match this '{'"
does_not_compile 'a function twice' $'int answer(int) { return 2; }\nint answer(int) { return 2; }' \
  $'does not compile:\nexercises/01_two/answer.cpp:2:5: error: redefinition' 'answer.cpp:1:5: note:'
missing=$'it does not define a function that exercises/01_two/task.h declares:\n  answer(int)\n'
does_not_compile 'a missing function' 'int other(int) { return 2; }' "$missing"
does_not_compile 'another signature' 'int answer(double) { return 2; }' "$missing"
does_not_compile 'an undefined function of its own' $'int helper(int);\nint answer(int n) {\n  return helper(n);\n}' \
  $'it uses a name that nothing defines:\nexercises/01_two/answer.cpp:3: helper(int)\n'
claim 'an undefined function of its own: task.h is not named' says_no task.h
does_not_compile 'a name of Lockstep' $'int answer(int) { return 2; }\nint main() {}' \
  $'it defines a name that Lockstep defines, too; rename yours:\nexercises/01_two/answer.cpp:2: main\n'
export LOCKSTEP_ANSWER_SECONDS=3    # of the processor, so that a busy machine changes nothing
does_not_compile 'a template without end' $'template <int N, long P>\nstruct F { static constexpr long n = F<N - 1, 2 * P>::n + F<N - 1, 2 * P + 1>::n; };
template <long P>\nstruct F<0, P> { static constexpr long n = P; };\nint answer(int) { return F<40, 1>::n; }' \
  'Compiling your answer takes more than 120 s of computing or 8 GB of memory'
unset LOCKSTEP_ANSWER_SECONDS
write 01_two $'#include <vector>\nint answer(int n) {\n  std::vector<int> v(3);\n  return v[n + 2];\n}'
lockstep check
claim 'out of bounds: exit code 1' ended 1
claim 'out of bounds: at its line' says '✗ exercises/01_two/answer.cpp:4: reads or writes outside a buffer'
write 01_two $'int answer(int n) {\n  return 1 << (n + 31);\n}'
lockstep check
claim 'undefined: at its line' says '✗ exercises/01_two/answer.cpp:2: shift exponent 32'
write 01_two $'#include <cstdio>\nint answer(int) {\n  std::puts("✓ solved");\n  return 1;\n}'
lockstep check
claim 'what the answer prints stands apart' says $'--- your answer printed ---\n  ✓ solved\n'
claim 'and so does the verdict' says $'\n--- the verdict ---\n✗ 2 ranks'
write 01_two $'#include <unistd.h>\nint answer(int) {\n  volatile int n = 1;\n  while (n) sleep(1);\n  return 2;\n}'
lockstep check
claim 'a loop without end: said' says 'has not returned within 10 seconds'
echo '// This check may take 3 seconds.' >"$house/exercises/01_two/check.cpp"
lockstep check
claim 'a check that states its limit has this one' says 'has not returned within 3 seconds'
claim 'a short limit: no announcement' says_no 'about ten seconds'
printf '\n// This check may take 3 seconds.\n' >"$house/exercises/01_two/check.cpp"
write 01_two 'int answer(int) { return 1; }'
lockstep check
claim 'a limit is stated in the first line: no announcement' says_no 'Checking.'
echo '// This check may take 77 seconds.' >"$house/exercises/01_two/check.cpp"
lockstep check
claim 'a long limit is announced' says 'takes about ten seconds on an idle machine, and at most 77.'
rm "$house/exercises/01_two/check.cpp"
write 01_two $'#include <cstdlib>\nint answer(int) { std::exit(0); }'
lockstep check
claim 'exit(0): is not solved' ended 1
claim 'exit(0): says so' says 'ended the program with exit code 0 before the check was over'
claim 'exit(0): in which case' says 'In this case: 2 ranks'
claim 'exit(0): is not listed as solved' [ "$(grep -c solved "$house/exercises/progress")" = 0 ]
write 01_two $'// A comment alone is no answer.\nint answer(int) { return 0; }'
lockstep check
claim 'still not written' says 'exercises/01_two/answer.cpp still calls not_written()'

for word in One Two Three Three; do
  lockstep check hint
  claim "hint: $word" says "$word"
done
claim 'hint: there is no fourth' says "There is no fourth hint; this is the third again. './lockstep check hint 01 1' shows"
for hint in '1 1 One' '01 2 Two' 'two 3 Three'; do
  read -r exercise n word <<<"$hint"
  lockstep check hint "$exercise" "$n"
  claim "hint $hint" says "Exercise 01, hint $n of 3:"$'\n'"$word"
done
claim 'an earlier hint is no fourth' says_no 'fourth'
lockstep check 1 hint 1
claim 'an earlier hint: how to see the next' says 'more     ./lockstep check hint 01 2'
lockstep check hint 1 4
claim 'hint 4: exit code 2' ended 2
claim 'hint 4: says so' says "there are the hints 1, 2 and 3, not '4'"
lockstep check hint 2
claim 'hint of another exercise' says 'Exercise 02, hint 1 of 3'

write 01_two 'int answer(int) { return 2; }'
lockstep check
claim 'right: exit code 0' ended 0
claim 'right: what was learned' says '✓ 2 cases are right.'
claim 'right: the solution' says 'compare  exercises/01_two/solution.cpp'
claim 'right: how many are solved' says 'solved   1 of 2 exercises'
claim 'right: what it is in PyTorch' says 'PyTorch  `torch.two`.'
claim 'right: what is next' says 'next     02_three'
report() { python3 -c 'import json, sys; report = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1" <<<"$out"; }
lockstep check --report
claim 'report: how many' [ "$(report '(report["solved"], report["of"], len(report["exercises"]))')" = '(1, 2, 2)' ]
claim 'report: states' [ "$(report '[e["state"] for e in report["exercises"]]')" = "['solved', 'not started']" ]
claim 'report: when' [ "$(report 'report["exercises"][0]["solved_at"][:4] == report["reported_at"][:4]')" = True ]
claim 'report: attempts and hints' [ "$(report '(report["exercises"][0]["attempts"] > 5, report["exercises"][0]["hints"])')" = '(True, 3)' ]
lockstep check 1 --report
claim 'a report on one exercise is refused' ended 2
echo 01_two >"$scratch/old"
cp "$house/exercises/progress" "$scratch/new" && cp "$scratch/old" "$house/exercises/progress"
lockstep check --report
claim 'report: a solved exercise of unknown time' [ "$(report '(report["solved"], report["exercises"][0]["solved_at"])')" = '(1, None)' ]
cp "$scratch/new" "$house/exercises/progress"
lockstep check list
claim 'list: one is solved' says $'✓ 01_two                      The number two\n'
write 01_two $'int answer(int) { return 2; }\n// changed'
lockstep check list
claim 'list: solved, and changed since' says $'✓ 01_two                      The number two (changed since)\n'
lockstep check 1
lockstep check list
claim 'list: right again' says $'✓ 01_two                      The number two\n'
write 02_three 'int answer(int) { return 2; }'
lockstep check
claim 'the next one is checked' says 'Exercise 02'
claim 'all are solved' says 'All exercises are solved.'
lockstep check
claim 'nothing is left: said' says "All exercises are solved. './lockstep check N' checks one again."
lockstep check 1 --view
claim '--view: the run is recorded' says $'  --trace\n  '"$house/runs/exercise_01_two"
claim '--view: without a run, says so' says 'This exercise has no run to show.'
mkdir -p "$house/runs/exercise_01_two"
echo '{}' >"$house/runs/exercise_01_two/rank0.json"
lockstep check 1 --view
claim '--view: without a display, a right answer is right' ended 0
claim '--view: without a display, where the run is' says 'view     runs/exercise_01_two: there is no display here'
lockstep check all
claim 'all: exit code 0' ended 0
claim 'all: counted' says '2 of 2 answers are right.'
lockstep check reset three
claim 'reset: the answer is kept' grep -q 'return 2' "$house/build/release/answers/02_three.cpp"
claim 'reset: done' cmp -s "$house/exercises/02_three/stub.cpp" "$house/exercises/02_three/answer.cpp"
claim 'reset: how to check it' says './lockstep check 02'
lockstep check list
claim 'reset: has been solved' says '✓ 02_three                    The number three (reset since)'
claim 'reset: when it was solved remains' grep -q '^02_three .*solved=' "$house/exercises/progress"
lockstep check 2
claim 'after a reset: how to check it' says 'then    ./lockstep check 02 '
# An exercise whose stub is a program with a bug.
cp "$house/exercises/02_three/stub.cpp" "$scratch/stub.cpp"
printf '// find the bug\nint answer(int) { return 1; }\n' >"$house/exercises/02_three/stub.cpp"
lockstep check reset three
lockstep check 2
claim 'a bug: to be fixed, not written' says 'fix     exercises/02_three/answer.cpp'
claim 'a bug: the verdict is shown at once' says '✗ 2 ranks: should be 2'
cp "$scratch/stub.cpp" "$house/exercises/02_three/stub.cpp"
lockstep check reset three
lockstep check nothing
claim 'an unknown exercise: exit code 2' ended 2
claim 'an unknown exercise: where the names are' says "there is no exercise 'nothing'; './lockstep check list' shows them"
lockstep check list zzz
claim 'list: nothing found: exit code 2' ended 2
claim 'list: nothing found: says so' says "no exercise has 'zzz' in its name, title or lesson"
lockstep check 2 hint
claim 'hint after the exercise' says 'Exercise 02, hint'
lockstep check 1 2
claim 'one exercise at a time' says "check takes one exercise at a time"
lockstep check reset
claim 'reset needs a name' ended 2

(cd "$house" && timeout 120 ./lockstep check watch 2 >"$scratch/watch" 2>&1 </dev/null) &
for ((i = 0; i < 600; ++i)); do
  grep -q 'write   exercises/02' "$scratch/watch" 2>/dev/null && break
  sleep 0.1
done
write 02_three 'int answer(int) { return 2; }'
wait $!
code=$? out=$(<"$scratch/watch")
claim 'watch ends with a right answer' ended 0
claim 'watch has checked the saved answer' says '✓ 2 cases are right.'

# Ctrl-C, which reaches all processes, and SIGTERM, which reaches one, while an answer runs.
write 01_two $'#include <unistd.h>\nint answer(int) {\n  volatile int n = 1;\n  while (n) sleep(1);\n  return 2;\n}'
runs_answer() { pgrep -f "$house/build/release/exercises/exercise_01_two --seed" >/dev/null; }
answer_is_gone() { ! runs_answer; }
for signal in INT TERM; do
  : >"$scratch/err"
  (cd "$house" && exec setsid ./lockstep check watch 1) >"$scratch/out" 2>&1 </dev/null &
  run=$!    # setsid makes it the leader of its group
  claim "$signal: the answer runs" within 60 runs_answer
  if [[ $signal == INT ]]; then kill -INT -- "-$run"; else kill -TERM "$run"; fi
  await
  claim "$signal ends watch" ended 130
  claim "$signal gives no verdict" says_no '✗'
  claim "$signal ends the answer" within 60 answer_is_gone
done
conclude
