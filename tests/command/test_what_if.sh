#!/usr/bin/env bash
# Tests of the lessons' what-ifs, without compiling: each patch says what it changes, changes little, applies to the
# current tree, and is run by a command on its lesson's page. (The tests of the pages compile and run all patches.)
set -uo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
command -v patch >/dev/null || { echo "skipped: there is no program patch"; exit 77; }

files_of() { sed -n 's,^+++ b/\([^[:blank:]]*\).*,\1,p' "$1"; } # PATCH
copy_files_of() { # PATCH: copies the files that it changes to $scratch/tree
  rm -rf "$scratch/tree"
  mkdir "$scratch/tree"
  (cd "$source_dir" && files_of "$1" | xargs cp --parents -t "$scratch/tree")
}
applies() { run patch --strip=1 --fuzz=0 --directory="$scratch/tree" --input="$1"; ended 0; } # PATCH
fails_to_apply() { ! applies "$1"; }
matches() { [[ $1 =~ $2 ]]; } # TEXT EXPRESSION
runs_it() { # LESSON NUMBER CHANGE; a command may continue on the next line
  sed -e ':again' -e '/\\$/{N;s/\\\n//;b again' -e '}' "$source_dir/lessons/$1"/*.md |
    grep -E -- "\./lockstep lesson $2 (.* )?--what-if $3($|[^a-z0-9_])" >/dev/null
}

patches=0
for patch in "$source_dir"/lessons/*/what_if/*; do
  name=${patch#"$source_dir/lessons/"} out='' err=''
  lesson=${name%%/*} change=$(basename "$name" .patch)
  number=$((10#${lesson%%_*})) patches=$((patches + 1))
  claim "$name: the file name has the form CHANGE.patch" matches "$name" '^[a-z0-9_]+/what_if/[a-z0-9_]+\.patch$'
  claim "$name: the first line is a sentence" matches "$(head -n 1 "$patch")" '^[A-Z].{9,97}\.$'
  claim "$name: changes at most ten lines" [ "$(grep -c '^[-+][^-+]' "$patch")" -le 10 ]
  claim "$name: changes no header of a library" [ -z "$(files_of "$patch" | grep -E '^(core|kernels)/.*\.h$')" ]
  copy_files_of "$patch"
  claim "$name: applies to the tree as it is" applies "$patch"
  claim "$name: a page of the lesson runs it" runs_it "$lesson" "$number" "$change"
done
claim "the what-ifs are found" [ "$patches" -ge 20 ]

copy_files_of "$patch"
find "$scratch/tree" -type f -exec sed -i '/^ /s/;$/; /' {} +
claim "a patch for other lines does not apply" fails_to_apply "$patch"

out=$(grep -rn 'changed code' "$source_dir"/lessons/*/*.md)
claim "the pages have what-ifs, and declare no figures of changed code" says_nothing

conclude
