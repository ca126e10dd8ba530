#!/usr/bin/env bash
# A benchmark runs, and its results appear in the table and the JSON. Prints "N passed, N failed".
#
#   test_bench.sh BENCH_COMM BENCH_TABLE
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
bench=$1 table=$2

run "$bench" --benchmark_filter=threads_send_1MB --benchmark_out_format=json --benchmark_out="$scratch/one.json"
claim "the benchmark runs" ended 0
claim "and writes its figure" grep -q '"value": ' "$scratch/one.json"

# `./lockstep bench` refuses a filter that matches none of the names in names.txt. `all` builds one of the programs,
# `./lockstep test --all` builds all of them.
names=$(dirname "${BASH_SOURCE[0]}")/../bench/names.txt
for program in "$(dirname "$bench")"/bench_*; do
  run "$program" --benchmark_list_tests
  claim "${program##*/} lists its benchmarks" [ -n "$out" ]
  claim "names.txt has those of ${program##*/}" [ -z "$(grep -vxFf "$names" <<<"$out")" ]
done

cat >"$scratch/two.json" <<'END'
{"context": {"num_cpus": 3}, "benchmarks": [
  {"name": "good/iterations:1", "real_time": 5.0, "time_unit": "ns", "value": 2.5, "at_least": 2.0},
  {"name": "slow", "real_time": 5.0, "time_unit": "ns", "value": 1.5, "at_most": 1.25, "sheep": 7.0},
  {"name": "plain", "real_time": 5.0, "time_unit": "ns"}]}
END
: >"$scratch/none.json"
run "$table" "$scratch/all.json" "$scratch/none.json" "$scratch/one.json" "$scratch/two.json"
claim "the table is made" ended 0
row() { grep -Eq "$1" <<<"$out"; }
claim "a figure of the program" row '^threads_send_1MB +[0-9.]+ '
claim "a bound that is met" row '^good +2.5 +>= 2(\.0)? +met$'
claim "a bound that is missed" row '^slow +1.5 +<= 1.25 +MISSED$'
claim "what else is known" row '^ +sheep 7$'
claim "a plain benchmark has its time" row '^plain +5 ns'
claim "all are in the JSON" [ "$(grep -c '"name":' "$scratch/all.json")" = 4 ]
fails_on_full_stdout 'the table' "$table" "$scratch/all.json" "$scratch/two.json"

echo '{"context": {}, "benchmarks": [{"name": "bad", "error_occurred": true, "error_message": "why"}]}' >"$scratch/bad.json"
run "$table" "$scratch/all.json" "$scratch/bad.json"
claim "a benchmark that failed is said" row '^bad +failed: why'
claim "and is no success" ended 1
run "$table" "$scratch/all.json" "$scratch/none.json"; claim "nothing makes no table" ended 2

conclude
