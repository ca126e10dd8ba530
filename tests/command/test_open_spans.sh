#!/usr/bin/env bash
# Every span that a lesson's trace announces as open is closed or withdrawn in that trace; otherwise
# a viewer shows it as running forever. Paced modelled time makes ranks wait long enough to be
# announced.
#
#   test_open_spans.sh LESSON_BINARY...
set -euo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
seq 1 2000 >"$scratch/text"

# announced
# unclosed FILES: identifies spans by rank, lane, start and name.
spans() {
  awk -v want="$1" '
    function field(name) {
      return match($0, "\"" name "\":\"?[^,\"}]*") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) : ""
    }
    { place = field("pid") " " field("tid") " " }
    /^{"ph":"X"/ { delete open[place field("ts") " " field("name")] }
    /^{"ph":"i".*"name":"(open|withdrawn)"/ {
      name = $0; sub(/.*"args":{"name":"/, "", name); sub(/".*/, "", name)
      key = place field("start") " \"" name
      if (/"name":"open"/) { open[key]; ++announced } else delete open[key]
    }
    END { for (key in open) ++unclosed; print want == "announced" ? announced + 0 : unclosed + 0 }' "${@:2}"
}

for lesson in "$@"; do
  name=$(basename "$lesson")
  case $name in  # slow enough for waits of 100 ms of wall time
    *1f1b*) slow=(--time forward=2ms,backward=4ms --pace 0.02 --steps 2) ;;
    *) slow=(--pace 0.002 --steps 6) ;;
  esac
  "$lesson" --data "$scratch/text" --quiet --parity off --trace "$scratch/$name" --clock modelled \
    --ranks 4 --batch 16 "${slow[@]}"
  claim "$name: spans were announced ($(spans announced "$scratch/$name"/rank*.json))" \
    test "$(spans announced "$scratch/$name"/rank*.json)" -gt 0
  claim "$name: all of them ended or were withdrawn" \
    test "$(spans unclosed "$scratch/$name"/rank*.json)" -eq 0
done
conclude
