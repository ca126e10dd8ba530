#!/usr/bin/env bash
# Measures how long a user waits for the compiler: for a clean build of everything (and which sources take longest), and
# for a lesson's first line of output after an edit. Seconds depend on the machine, so its cores and load are printed
# too. For the build, its CPU time is also printed, which other processes on the same cores affect less.
#
#   build_time.sh [--edit]       --edit: measures only the latter
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
lesson=09_1f1b
export CCACHE_DISABLE=1
unset CMAKE_CXX_COMPILER_LAUNCHER

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "%.1f", b - a}'; }
load() { echo "$(nproc) cores, load $(cut -d ' ' -f 1-3 /proc/loadavg)"; }

clean_build() {
  local folder
  local TIMEFORMAT='  took %R s, with %U s (user) and %S s (system) of the processor; bound 180 s'
  folder=$(mktemp -d)
  # shellcheck disable=SC2064  # that folder
  trap "rm -rf '$folder'" EXIT
  echo "Clean build: configure and build everything, without a cache ($(load) before)"
  time {
    cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$folder/configure.log"
    cmake --build "$folder" --parallel "$(nproc)" >"$folder/build.log" || { tail "$folder/build.log"; exit 1; }
  }
  echo "  ($(load) after)"
  echo "  what took longest, in seconds (each beside others, so that they add up to more):"
  awk 'NR > 1 {printf "  %6.1f  %s\n", ($2 - $1) / 1000, $4}' "$folder/.ninja_log" | sort -rn | head -n 25
}

edit_and_run() {
  local start line
  "$root/lockstep" --no-install lesson "${lesson%%_*}" --steps 1 --trace none --quiet >/dev/null 2>&1
  echo "After an edit of lessons/$lesson/main.cpp, to its first line ($(load))"
  for _ in 1 2 3; do
    touch "$root/lessons/$lesson/main.cpp"
    start=$(now)
    # The pipe closes after one line, so the lesson may be ended by SIGPIPE.
    line=$("$root/lockstep" --no-install lesson "${lesson%%_*}" --steps 1 --trace none 2>/dev/null | head -n 1) || true
    echo "  $(since "$start") s; bound 5 s  (${line:0:60})"
  done
}

[[ ${1-} == --edit ]] || clean_build
edit_and_run
