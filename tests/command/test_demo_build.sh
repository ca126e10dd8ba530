#!/usr/bin/env bash
# A first `./lockstep demo` without a display compiles kernels/, core/, lesson 09 and what prints its report, and none of
# the window, the tests, the benchmarks, the other lessons or CUDA. Asks Ninja and builds nothing.
#   test_demo_build.sh BUILD
set -uo pipefail

# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"

run ninja -C "$1" -t commands lesson_09_1f1b; claim "Ninja lists the demo's commands" ended 0
mapfile -t objects < <(grep -oE ' -o [^ ]+\.o( |$)' <<<"$out" | awk '{print $2}')
wanted='^(CMakeFiles/lockstep_precompiled|kernels/CMakeFiles/lockstep_(arguments|kernels)|core/CMakeFiles/lockstep_(core|framing|loopback)|lessons/CMakeFiles/lesson_09_1f1b|viz/read/CMakeFiles/lockstep_read(ing)?)\.dir/'
out=$(printf '%s\n' "${objects[@]}" | grep -vE "$wanted")
claim "the demo compiles its lesson" [ "$(printf '%s\n' "${objects[@]}" | grep -c '^lessons/.*/09_1f1b/main')" = 1 ]
claim "and nothing that it does not run" says_nothing
conclude
