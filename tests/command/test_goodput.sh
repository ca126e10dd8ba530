#!/usr/bin/env bash
# `./lockstep goodput`: what it prints, that its sentences hold, and what it refuses. Prints "N passed, N failed".
#
#   test_goodput.sh PROGRAM
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
program=$1
goodput() { run "$program" "$@"; }
line() { grep -F -- "$1" <<<"$out" | head -n 1; }
number() { sed -n "s/.*$1.*/\\1/p" <<<"$out" | head -n 1; }
near() { # NUMBER NUMBER SHARE
  awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { exit !(a != "" && b != "" && a - b <= most * b && b - a <= most * b) }'
}
refuses() { # WHAT WORDS FLAG...
  local what=$1 words=$2
  shift 2
  goodput "$@"
  is_refused "$what"
  claim "$what: it says '$words'" complains "$words"
}

goodput --report "$scratch/all.json"
claim "it ends well" ended 0
claim "it has a row for each number of ranks" test "$(grep -cE '^ +(8|64|512|4096|16384) ' <<<"$out")" = 5
difference=$(number 'differ by at most \([0-9.]*\) %')
claim "simulation and formula differ by at most 2 %" awk -v d="$difference" 'BEGIN { exit !(d != "" && d <= 2) }'
claim "... as in the report" python3 - "$scratch/all.json" "$difference" <<'END'
import json, math, sys
report = json.load(open(sys.argv[1]))
points = report['points']
assert len(points) == 35 and all(sum(v for k, v in p['microseconds'].items() if k != 'total') ==
                                 p['microseconds']['total'] for p in points)
# Daly's formula again, from the values that the help lists.
delta, restart = 60, 600
for p in points:
    m, tau = report['device_mtbf_seconds'] / p['ranks'], p['interval_seconds']
    assert math.isclose(m, 54 * 86400 * 16384 / 419 / p['ranks'])
    assert math.isclose(p['formula'], tau / (m * math.exp(restart / m) * (math.exp((tau + delta) / m) - 1)))
    assert math.isclose(p['goodput'], p['microseconds']['useful'] / p['microseconds']['total'])
    assert math.isclose(p['first_order'], 1 - delta / tau - (tau / 2 + restart) / m)
largest = max(abs(p['goodput'] / p['formula'] - 1) for p in points)
assert abs(100 * largest - float(sys.argv[2])) <= 0.051, largest
END

# What it says about an assumption is what a run with the assumption says.
goodput --ranks 4096
usual=$(number 'differ by at most \([0-9.]*\) %')
for broken in '--law weibull --shape 0.5' '--hidden 40min'; do
  # shellcheck disable=SC2086  # several words
  goodput --ranks 4096 $broken
  claim "$broken: simulation and formula differ" says 'The formula assumes'
  claim "... but not with the assumption restored" test "$(number 'The formula assumes.* at most \([0-9.]*\) %')" = "$usual"
done
goodput --ranks 4096 --law weibull --shape 1
claim "Weibull with shape 1 is exponential" test "$(number 'differ by at most \([0-9.]*\) %')" = "$usual"

# The published figures come out of runs with the solved inputs, through other flags.
goodput --published torchpass
claim "published figures: it ends well" ended 0
row=$(line ' 0 ms ')
read -r _ _ step _ restart _ torchft _ <<<"$row"
claim "a row without takeover" test -n "$torchft"
base=(--ranks 64 --every 45min..75min --steps 3000 --interval 100 --runs 400 --seed 9 --checkpoint 0s --detect 0s)
goodput "${base[@]}" --strategy spares --step "${step}s" --takeover 0s --spares 100
claim "spares take 405 min" near "$(number ': \([0-9.]*\) h on average')" 6.75 0.005
goodput "${base[@]}" --strategy restart --step "${step}s" --restart "${restart}min"
claim "restarts take 818 min" near "$(number ': \([0-9.]*\) h on average')" 13.633 0.01
goodput "${base[@]}" --strategy quorum --step "${torchft}s" --heal 0s --replicas 4
claim "torchft takes 930 min" near "$(number ': \([0-9.]*\) h on average')" 15.5 0.005
goodput --published llama3
claim "Llama 3: a failure every 3.09 h" says 'an unexpected one every 3.09 h'
checkpoint=$(awk '$1 == 5 && $2 == "min" { print $3 $4 }' <<<"$out")
goodput --ranks 16384 --device-mtbf "$(awk 'BEGIN { print 54 * 24 * 16384 / 466 }')h" --detect 0s --restart 5min --checkpoint "$checkpoint"
claim "... and its affordable checkpoint leaves 90 %" test "$(awk '$3 ~ /min|s/ && $5 > best { best = $5 } END { print best }' \
  <<<"$(grep -E '^ +[0-9]+ ' <<<"$out")")" = 90.0

goodput --ranks 16384 --strategy all
for strategy in restart memory quorum spares; do claim "all strategies: $strategy" test -n "$(line "$strategy ")"; done
goodput --ranks 131072 --device-mtbf 1000h --interval 1000
claim "a job that never ends is given up" says 'gave up'
claim "... which is no failure" ended 0
goodput --help
claim "the help ends well" ended 0
for flag in --ranks --strategy --interval --law --every --published --report; do claim "... and lists $flag" says "$flag"; done

refuses 'a time without a unit' 'with a unit' --step 6
refuses 'a negative time' 'with a unit' --step -6s
refuses 'a step of length 0' 'at least 1ms' --step 0s
refuses 'an unknown unit' 'with a unit' --restart 3weeks
refuses 'ranks that are none' "'x'" --ranks 8,x
refuses 'no ranks' 'at least 1' --ranks 0
refuses 'an unknown strategy' 'must be one of' --strategy prayer
refuses 'all strategies at several ranks' 'give one' --strategy all
refuses 'replicas that do not divide the ranks' 'do not divide' --strategy quorum --ranks 100
refuses 'a shape without Weibull' 'only --law weibull' --shape 2
refuses 'a shape that is none' 'from 0.2 to 10' --law weibull --shape 0
refuses 'a range that goes down' 'must go up' --every 75min..45min
refuses 'a range that is none' 'a range such as' --every 45min
refuses 'two laws' 'either one or the other' --every 1h..2h --law weibull
refuses 'runs without steps' 'also give --steps' --runs 3
refuses 'a run of millennia' 'less than 3,000 years' --steps 200000000 --step 1d
refuses 'an unknown flag' 'did you mean --ranks' --rank 8
refuses 'a flag of another strategy' 'does not use it' --spares 3
refuses 'a flag beside published runs' 'their own values' --published llama3 --ranks 8
refuses 'an unknown publication' 'must be one of' --published gpt5
refuses 'a report into nowhere' "can't be written" --report "$scratch/no/such/folder"
fails_on_full_stdout goodput "$program" --ranks 8
fails_on_full_stdout 'goodput --help' "$program" --help
conclude
