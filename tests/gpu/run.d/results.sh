# Runs programs with a time limit and collects their results: rows, figures and logs, which $folder keeps from one call
# of tests/gpu/run to the next. Writes the table, its JSON and the log of all programs.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/gpu/run shares its variables

# --- Programs ------------------------------------------------------------------------------------

started=$SECONDS
left() { echo $((${seconds:-100000} - (SECONDS - started))); }
# limit QUICK FULL: a time limit in seconds.
limit() { if [[ -n $quick ]]; then echo "$1"; else echo "$2"; fi; }

program() { [[ ! -d $build ]] || find "$build/" -type f -name "$1" -perm -u+x -print -quit; }

# attempt STEP NAME LIMIT COMMAND...: runs the command for at most LIMIT seconds; its output goes to a file in $logs. Sets
# `code` (an exit code, or `late` if the time was up), `log` and `took`. Returns false if the command did not run.
attempt() {
  local step=$1 name=$2 limit=$(($3 * load)) begin=$EPOCHREALTIME
  shift 3
  log=$(new_log "$step-$name") took=0
  if [[ -z $1 ]]; then    # `program` found nothing
    note "$step" "$name" skipped 0 "not built"
    code=skipped
    return 1
  elif (( $(left) < 10 )); then
    note "$step" "$name" skipped 0 "no time left"
    code=skipped
    return 1
  fi
  (( limit <= $(left) )) || limit=$(left)
  # In the background, so that the trap can end the command when this script gets a signal.
  timeout -k 5 "$limit" "$@" >"$log" 2>&1 </dev/null &
  running=$!
  wait "$running"
  code=$?
  running=''
  took=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f", b - a}')
  # A program that something else kills, for lack of memory for example, is not late.
  if [[ $code == 124 || $code == 137 ]] && (( ${took%.*} >= limit )); then code=late; fi
  if (( $(stat -c %s "$log") > 2000000 )); then
    shortened "$log" 1000000 >"$log.part" && mv "$log.part" "$log"
  fi
}
# Logs are numbered, so that they sort in the order of the programs.
new_log() {
  local last
  last=$(find "$logs" -name '*.log' -printf '%f\n' | sort | tail -n 1)
  last=${last%%-*}
  printf '%s/%03d-%s.log' "$logs" "$((10#${last:-0} + 1))" "${1//[^a-zA-Z0-9]/-}"
}
# Prints a file, or its first and last BYTES.
shortened() { # FILE BYTES
  local size
  size=$(stat -c %s "$1")
  if (( size <= 2 * $2 )); then cat "$1"; return; fi
  head -c "$2" "$1"
  printf '\n... %d bytes left out ...\n' $((size - 2 * $2))
  tail -c "$2" "$1"
}
# The last line of a log that is not empty.
last_words() { grep -v '^[[:space:]]*$' "$log" | tail -n 1 | cut -c1-160; }

# Whether the last attempt succeeded. If not, notes its result; exit code 2 means skipped.
succeeded() { # STEP NAME
  case $code in
    0) return 0 ;;
    2) note "$1" "$2" skipped "$took" "$(last_words)" ;;
    late) note "$1" "$2" late "$took" "not done after $took s$(passed_so_far)" ;;
    *) note "$1" "$2" FAILED "$took" "exit code $code: $(failed_cases)" ;;
  esac
  return 1
}
# check STEP NAME LIMIT COMMAND...: like attempt, and notes the result.
check() { attempt "$@" && succeeded "$1" "$2" && note "$1" "$2" ok "$took" "$(summary)"; }
# The numbers of doctest's cases and assertions; empty for other programs.
summary() { sed -n 's/^\[doctest\] \(test cases\|assertions\): *\([0-9]*\) .*/\2 \1/p' "$log" | paste -sd, | sed 's/,/, /'; }
# Of doctest with --duration=true: the number of test cases that have ended.
passed_so_far() { grep -cE '^[0-9.]+ s: ' "$log" | sed -n '/^0$/d; s/.*/; & test cases had ended/p'; }
# The names of the test cases that failed; for other programs, the last words.
failed_cases() {
  local cases
  cases=$(awk '/^TEST CASE: / {sub(/^TEST CASE: */, ""); name = $0} / (FATAL )?ERROR: / {print name}' "$log" |
    sort -u | head -n 8 | paste -sd';')
  echo "${cases:-$(last_words)}"
}

# --- Rows and figures ----------------------------------------------------------------------------

# Opens the table in $results: the one of earlier calls with --only or --from, if it is of the same build of the same
# commit on the same GPUs, or else a new one.
open_table() {
  local identity
  identity="$(commit) in $build on ${gpu_names}"
  mkdir -p "$results"
  if [[ -z $continues || $(cat "$results/identity" 2>/dev/null) != "$identity" ]]; then
    [[ -z $continues || ! -e $results/identity ]] ||
      say "The table starts anew: it was of $(<"$results/identity"), and this is $identity."
    rm -f "$results"/* "$logs"/*.log
    : >"$results/checks"; : >"$results/figures"; : >"$results/calls"
    echo "$identity" >"$results/identity"
  fi
  # A call that was killed may have left half a line.
  keep checks 'NF == 5'
  keep figures 'NF == 5'
  forget here 'cut off'
  printf '%s\t%s\t%s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "${quick:-no}" "${only[*]}" >>"$results/calls"
}
commit() { git -C "$root" rev-parse --short HEAD 2>/dev/null; }
keep() { # FILE CONDITION of awk [VARIABLE=VALUE ...]
  awk -F'\t' "${@:3}" "$2" "$results/$1" >"$results/$1.part" && mv "$results/$1.part" "$results/$1"
}
# Removes a row; or, without NAME, everything of a step, which is about to run again.
forget() { # STEP [NAME]
  # shellcheck disable=SC2016  # awk's fields
  if (( $# == 2 )); then
    keep checks '$1 != step || $2 != name' -v step="$1" -v name="$2"
  else
    keep checks '$1 != step' -v step="$1"
    keep figures '$1 != step' -v step="$1"
    rm -f "$logs"/[0-9][0-9][0-9]-"$1"-*.log
  fi
}

failed='' late=''    # whether this call has had such a row
# Adds a row to the table, in place of an earlier one of that name. RESULT is ok, FAILED, late, or skipped.
note() { # STEP NAME RESULT SECONDS DETAIL
  local detail=${5//[$'\t\n\r']/ }
  case $3 in FAILED) failed=yes ;; late) late=yes ;; esac
  forget "$1" "$2"
  printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$detail" >>"$results/checks"
  printf '  %-10s %-52s %-8s %6s s  %s\n' "$1" "$2" "$3" "$4" "$detail" >&2
  publish
}

# figures STEP: collects the figures in the log, lines of NAME, VALUE, UNIT, DETAIL. Ignores the emulator's.
figures() {
  [[ -n $tiny || ! -e $log ]] || awk -F'\t' -v step="$1" 'NF == 4 {print step "\t" $0}' "$log" >>"$results/figures"
}
figure() { printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$results/figures"; }    # STEP NAME VALUE UNIT DETAIL

# --- The table -----------------------------------------------------------------------------------

# The lines of a file in the order of their steps.
in_order() {
  awk -F'\t' -v steps="${STEPS[*]}" 'BEGIN {n = split(steps, step, " "); for (i = 1; i <= n; ++i) at[step[i]] = i}
    {print at[$1] "\t" $0}' "$@" | sort -s -n -k1,1 | cut -f2-
}
# All figures and the ratios of some, computed from the newest ones.
all_figures() { in_order "$results/figures" <(ratios); }
ratios() {
  local gpt2='GPT-2 124M, V 50257, bf16' way torch='PyTorch, V 50257, autocast'
  ratio products 'GPT-2 124M, tuned products, of the first proposals' "$gpt2, tuned products" "$gpt2" 'tokens/s, V 50257'
  for way in eager compiled; do
    [[ $way == eager ]] || torch+=', compiled'
    ratio pytorch "GPT-2 124M, of PyTorch $way" "$gpt2" "$torch" 'tokens/s, V 50257'
  done
  ratio bench 'GPT-2 124M, of the large product' "$gpt2, model FLOPs" 'large product bf16' 'V 50257; the goal is at least 42'
}
# Prints, as a figure, the ratio of the first two figures with these names in percent, if both were measured.
ratio() { # STEP NAME NUMERATOR DENOMINATOR DETAIL
  awk -F'\t' -v OFS='\t' -v step="$1" -v name="$2" -v a="$3" -v b="$4" -v detail="$5" '
    !($2 in value) {value[$2] = $3}
    END {
      if (a in value && b in value && value[b] > 0)
        print step, name, sprintf("%.4g", 100 * value[a] / value[b]), "%", detail
    }
  ' "$results/figures"
}

finished=false    # whether this call has come to its end
print_json() {
  local texts='function text(s) {gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); return "\"" s "\""}
    function next_one() {return NR > 1 ? ",\n" : ""}'
  printf '{\n  "when": "%s", "commit": "%s", "gpu": %s, "gpus": %d, "emulated": %s, "finished": %s,\n' \
    "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(commit)" "$(awk "$texts {printf \"%s\", text(\$0)}" <<<"$gpu_names")" \
    "$gpus" "$([[ -n $tiny ]] && echo true || echo false)" $finished
  printf '  "calls": [\n'
  awk -F'\t' "$texts"'
    {printf "%s    {\"when\": %s, \"quick\": %s, \"steps\": %s}",
      next_one(), text($1), ($2 == "yes" ? "true" : "false"), text($3)}
    END {print "\n  ],"}' "$results/calls"
  printf '  "checks": [\n'
  in_order "$results/checks" | awk -F'\t' "$texts"'
    {printf "%s    {\"step\": %s, \"name\": %s, \"result\": %s, \"seconds\": %s, \"detail\": %s}",
      next_one(), text($1), text($2), text(tolower($3)), $4, text($5)}
    END {print "\n  ],"}'
  printf '  "figures": [\n'
  all_figures | awk -F'\t' "$texts"'
    {printf "%s    {\"step\": %s, \"name\": %s, \"value\": %s, \"unit\": %s, \"detail\": %s}",
      next_one(), text($1), text($2), ($3 ~ /^[-+.0-9e]+$/ ? $3 : "null"), text($4), text($5)}
    END {print "\n  ]\n}"}'
}

print_table() {
  local calls
  printf '%-10s %-52s %-8s %8s  %s\n' step what result seconds detail
  in_order "$results/checks" | awk -F'\t' '{printf "%-10s %-52s %-8s %8s  %s\n", $1, $2, $3, $4, $5}'
  if [[ -s $results/figures ]]; then
    printf '\n%-10s %-52s %12s %-10s %s\n' step figure value unit detail
    all_figures | awk -F'\t' '{printf "%-10s %-52s %12.5g %-10s %s\n", $1, $2, $3, $4, $5}'
  fi
  awk -F'\t' '{n[$3]++}
    END {printf "\n%d ok, %d failed, %d late, %d skipped\n", n["ok"], n["FAILED"], n["late"], n["skipped"]}' "$results/checks"
  calls=$(wc -l <"$results/calls")
  (( calls == 1 )) || echo "The table of $calls calls."
  [[ $finished == true ]] || echo 'Not finished.'
}

print_logs() {
  local each
  for each in "$logs"/*.log; do
    [[ ! -s $each ]] || { printf '\n==> %s <==\n' "${each##*/}"; shortened "$each" 120000; }
  done
}

# Rewrites the files in $out. Each is complete at any time.
publish() {
  print_table >"$out/gpu.txt.part" && mv "$out/gpu.txt.part" "$out/gpu.txt"
  print_json >"$out/gpu.json.part" && mv "$out/gpu.json.part" "$out/gpu.json"
  { cat "$out/gpu.txt"; print_logs; } | head -c 15000000 >"$out/gpu.log.part"    # there is a limit to what can be brought home
  mv "$out/gpu.log.part" "$out/gpu.log"
  [[ ! -e $results/products ]] || cp "$results/products" "$out/gpu.products"
}
