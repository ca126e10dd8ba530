#!/usr/bin/env bash
# The comparison of two runs whose pipelines take as long, but whose gradients are reduced over fast
# links in one and over slow links in the other.
#
#   test_compare_runs.sh LESSON_15_BINARY VIEWER_BINARY
set -uo pipefail
lesson=$1
viewer=$2
# shellcheck source=claims.sh disable=SC2154
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"

# The cluster `classroom` (core/time/presets.cpp), but with two ranks per node and 1 GB/s between nodes.
cat >"$scratch/slow.json" <<'END'
{"name": "two a node", "nodes": 4, "ranks_per_node": 2,
 "flops": 1.625e12, "memory_bandwidth": 2.0e12, "launch_seconds": 5.4e-10,
 "within":  {"latency_seconds": 3.3e-10, "bandwidth": 3.0e11},
 "between": {"latency_seconds": 1.1e-9, "bandwidth": 1.0e9}}
END
sed 's/two a node/all in one node/; s/"nodes": 4, "ranks_per_node": 2/"nodes": 1, "ranks_per_node": 8/' \
  "$scratch/slow.json" >"$scratch/fast.json"
for cluster in fast slow; do
  sleep 1.1  # runs of the same second would have the same name
  "$lesson" --device meta --dp 4 --pp 2 --tp 1 --batch 16 --microbatches 2 --steps 3 --hidden 256 \
    --order pp,tp,cp,dp --cluster "$scratch/$cluster.json" --trace "$scratch/$cluster" --quiet >"$scratch/log" 2>&1 ||
    { cat "$scratch/log"; exit 1; }
  env -u DISPLAY -u WAYLAND_DISPLAY "$viewer" "$scratch/$cluster" --export "$scratch/$cluster.csv"
done
env -u DISPLAY -u WAYLAND_DISPLAY "$viewer" "$scratch/fast" "$scratch/slow" --export "$scratch/compared.json"

python3 - "$scratch" <<'END' && pass=yes || pass=no
import csv, json, sys
from decimal import Decimal

folder = sys.argv[1]
# Each line of the CSV adds up to its step, exactly.
means = {}
for cluster in "fast", "slow":
    rows = list(csv.DictReader(open(f"{folder}/{cluster}.csv")))
    assert rows
    for row in rows:
        parts = {name: Decimal(value) for name, value in row.items()
                 if name not in ("step", "step_seconds", "rank", "bytes_sent")
                 and not name.endswith(("_communication", "_hidden"))}
        assert sum(parts.values()) == Decimal(row["step_seconds"]), row
    last = [row for row in rows if row["step"] == rows[-1]["step"]]
    dp = sum(Decimal(row[name]) for row in last for name in row
             if name in ("dp_transfer", "dp_latency", "dp_late_peer")) / len(last)
    means[cluster] = (float(last[0]["step_seconds"]), float(dp))

said = {each["claim"]: each for each in json.load(open(f"{folder}/compared.json"))}
print(*(each["text"] for each in said.values()), sep="\n")
(fast, dp_fast), (slow, dp_slow) = means["fast"], means["slow"]
assert slow > 1.5 * fast, means
times = said["step_times"]["values"]
assert abs(times["a"] - fast) < 1e-12 and abs(times["b"] - slow) < 1e-12, times
parts = said["changed_parts"]["values"]
assert abs(parts["difference"] - (slow - fast)) < 1e-12, parts
assert abs(parts["dp exposed"] - (dp_slow - dp_fast)) < 1e-12, parts
assert "pace" not in str(said)
END
claim "the sentences state the difference of the steps, and dp's part of it" test "$pass" = yes
conclude
