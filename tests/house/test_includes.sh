#!/usr/bin/env bash
# Checks which folder includes which. Fails if
#   - a top-level folder includes one above it (kernels <- core <- lessons <- exercises, viz, tests),
#   - a lesson includes a later one (lessons/schedules/ knows lessons 8 to 11; their programs and later lessons include
#     it),
#   - a folder of core/ includes one that core/README.md lists after it,
#   - a file of core/ that a build without MPI compiles includes one that needs MPI (mpi_*),
#   - folders form a cycle, at any level.
#
#   test_includes.sh [ROOT]    without ROOT: this tree, and then small trees with one fault each
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
fail=0

# Lines "FILE INCLUDED", both from the root, of every #include "..." of a file of the tree ROOT.
includes() { # ROOT
  (cd "$1" && grep -rHo --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' \
    '^#include "[^"]*"' kernels core lessons exercises viz tests 2>/dev/null || true) |
    sed -n 's/^\([^:]*\):#include "\(.*\)"$/\1 \2/p'
}

# The folders of core/ in the order of the table in core/README.md: | `comm/` | ...
order_of_core() { sed -n 's/^| `\([a-z_/]*\)\/` |.*/core\/\1/p' "$1/core/README.md"; }

check() { # ROOT: prints every fault, one line each
  local root=$1 arrows
  arrows=$(includes "$root")
  {
    order_of_core "$root" | sed 's/^/order /'
    sed 's/^/arrow /' <<<"$arrows"
  } | awk '
    function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
    function top(path) { sub(/\/.*/, "", path); return path }
    function room(path,    part) { split(path, part, "/"); return part[1] "/" part[2] }
    BEGIN { rank["kernels"] = 1; rank["core"] = 2; rank["lessons"] = 3
            rank["exercises"] = rank["viz"] = rank["tests"] = 4 }
    $1 == "order" { place[$2] = ++places; next }
    $3 !~ /\// || !(top($3) in rank) { next }   # a neighbour by its bare name, or a system header
    { from = $2; to = $3
      if (rank[top(to)] > rank[top(from)] || (rank[top(from)] == 4 && rank[top(to)] == 4 && top(from) != top(to) && top(from) != "tests"))
        print from " includes " to ": " top(from) "/ must not include " top(to) "/"
      if (top(from) == "lessons" && room(to) ~ /^lessons\/[0-9]/ && room(from) ~ /^lessons\/[0-9]/ && room(to) > room(from))
        print from " includes " to ": a lesson includes earlier ones only"
      if (top(from) == "core" && to ~ /^core\/comm\/mpi\/mpi_/ && from !~ /\/mpi_[^\/]*$/)
        print from " includes " to ": only files named mpi_* are left out of a build without MPI"
      if (top(from) == "core" && top(to) == "core" && room(from) != room(to)) {
        if (!(room(from) in place)) missing[room(from)]
        else if (!(room(to) in place)) missing[room(to)]
        else if (place[room(to)] > place[room(from)])
          print from " includes " to ": core/README.md lists " room(to) "/ after " room(from) "/"
      }
    }
    END { for (name in missing) print "core/README.md does not list " name "/" }'
  # tsort names the members of each cycle. At the deepest level, a file belongs to its own folder. No file
  # includes a main.cpp, so none can be part of a cycle.
  awk '$1 !~ /\/main\.cpp$/ && $2 ~ /^(kernels|core|lessons|exercises|viz|tests)\// {
         sub(/\/[^\/]*$/, "", $1); sub(/\/[^\/]*$/, "", $2); if ($1 != $2) print $1, $2 }' <<<"$arrows" |
    sort -u >"$scratch/folders"
  if ! tsort <"$scratch/folders" >/dev/null 2>"$scratch/cycles"; then
    sed -n 's/^tsort: \([a-z].*\/.*\)/\1/p' "$scratch/cycles" | paste -sd' ' | sed 's/^/folders form a cycle: /'
  fi
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [[ ${1-} ]]; then
  faults=$(check "$1")
  [[ -z $faults ]] || { printf '%s\n' "$faults"; exit 1; }
  exit 0
fi

faults=$(check "$here/../..")
if [[ $faults ]]; then
  printf '%s\n' "$faults"
  fail=1
fi
if (($(includes "$here/../.." | wc -l) < 500)); then
  echo "the includes of this tree were not found"
  fail=1
fi

# Trees with one fault each: the line that is expected to name the fault, then the files, each with its includes.
finds() { # EXPECTED FILE:INCLUDED...
  local expected=$1 tree=$scratch/tree pair found
  shift
  rm -rf "$tree"
  mkdir -p "$tree/core"
  printf '| `%s/` | x |\n' time device >"$tree/core/README.md"
  for pair in "$@"; do
    mkdir -p "$tree/$(dirname "${pair%%:*}")"
    printf '#include "%s"\n' "${pair##*:}" >>"$tree/${pair%%:*}"
  done
  found=$(check "$tree")
  if { [[ $expected == none && -n $found ]]; } || { [[ $expected != none && $found != *"$expected"* ]]; }; then
    printf 'expected: %s\nfound: %s\n' "$expected" "$found"
    fail=1
  fi
}
finds none core/device/a.h:core/time/b.h lessons/01_a/a.h:core/device/a.h tests/t.cpp:viz/data/d.h
finds none lessons/01_a/main.cpp:lessons/01_a/experiment/e.h lessons/01_a/experiment/e.h:lessons/01_a/a.h
finds "folders form a cycle: " lessons/01_a/a.h:lessons/01_a/experiment/e.h lessons/01_a/experiment/e.h:lessons/01_a/b.h
finds "kernels/ must not include core/" kernels/k.cu:core/time/b.h
finds "a lesson includes earlier ones only" lessons/01_a/a.h:lessons/02_b/b.h
finds none lessons/01_a/main.cpp:lessons/schedules/s.h lessons/schedules/s.h:lessons/02_b/b.h
finds "folders form a cycle: " lessons/01_a/a.h:lessons/schedules/s.h lessons/schedules/s.h:lessons/01_a/b.h
finds "core/README.md lists core/device/ after core/time/" core/time/b.h:core/device/a.h
finds "core/README.md does not list core/plan/" core/plan/p.h:core/time/b.h
finds none core/comm/mpi/mpi_a.cpp:core/comm/mpi/mpi_b.h
finds "only files named mpi_* are left out" core/comm/mpi/a.cpp:core/comm/mpi/mpi_b.h
finds "core/ must not include viz/" core/time/t.cpp:viz/read/report/report.h
finds "exercises/ must not include viz/" exercises/frame/f.cpp:viz/read/report/report.h
finds "viz/ must not include tests/" viz/v.cpp:tests/t.h
finds "folders form a cycle: " viz/app/a.h:viz/views/v.h viz/views/w.cpp:viz/app/b.h

((fail == 0)) && echo "no include points up, and no folders form a cycle"
exit $fail
