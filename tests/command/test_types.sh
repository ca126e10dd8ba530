#!/usr/bin/env bash
# Each type of a namespace is defined in one header only. Two definitions in one program would be an error that no
# compiler reports: the linker keeps one of the two std::vector<Type>, and the other's users break.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
twice=$(find core kernels lessons viz exercises/frame -name '*.h' -exec awk '
  /^namespace [a-z_:]+ \{/ {space = $2}
  match($0, /^(struct|class|enum class) [A-Z][A-Za-z0-9]* /) && /\{/ {
    type = space "::" substr($0, RSTART, RLENGTH)
    gsub(/(struct|class|enum class) | $/, "", type)
    if (type in file && file[type] != FILENAME) print type ": " file[type] " and " FILENAME
    file[type] = FILENAME
  }' {} +)
if [[ -n $twice ]]; then
  echo "defined in two headers:"
  echo "$twice"
  exit 1
fi
