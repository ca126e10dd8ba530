# The steps of tests/gpu/run that measure speed.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/gpu/run shares its variables

# Trains GPT-2 124M with a vocabulary and collects the figures. The emulator trains a tiny model instead.
train() { # STEP NAME VOCABULARY FLAG...
  local flags=(--vocab "$3" --steps "$(limit 40 100)") result
  [[ -z $tiny ]] || flags=(--vocab "$3" --steps 2 --layers 2 --hidden 32 --heads 2 --sequence 16 --batch 2 --traced 1)
  check "$1" "$2" "$(limit 45 300)" "$(program bench_training)" "${flags[@]}" "${@:4}"
  result=$?
  figures "$1"
  return $result
}
# GPT-2's vocabulary; the emulator's is smaller.
vocabulary() { echo $(($1 - (${tiny:+1} + 0) * 50000)); }
# The line with which bench_training ends a run: the checksum of its parameters.
parameters() { [[ ! -e $log ]] || grep -m 1 '^CRC-32 ' "$log"; }

step_training() {
  local v first again name
  v=$(vocabulary 50257) name="GPT-2 124M, V $v"
  start_sampling
  CUDA_MODULE_LOADING=LAZY train training "$name" "$v"
  first=$(parameters)
  clock_figures training
  CUDA_MODULE_LOADING=EAGER train training "$name, eager loading" "$v" --traced 0 --variant 'eager loading'
  again=$(parameters)
  if [[ -z $first || -z $again ]]; then
    note training 'two runs' skipped 0 "one of them printed no checksum"
  elif [[ $first == "$again" ]]; then
    note training 'two runs' ok 0 "bitwise equal: $first"
  else
    note training 'two runs' FAILED 0 "they differ: $first, and ${again##* }"
  fi
  # A head with 50257 rows suits tensor cores badly; 50304, the next multiple of 128, suits them.
  train training "GPT-2 124M, V $(vocabulary 50304)" "$(vocabulary 50304)"
  # So little work per kernel that the host, which issues the kernels, may be the limit.
  train training "$name, batch 4" "$v" --batch 4 --traced 0 --variant 'batch 4'
}

# Measures cuBLASLt's proposals for each matrix product of the step, and runs the step with the fastest.
step_products() {
  local v table=$results/products
  v=$(vocabulary 50257)
  rm -f "$table"
  export LOCKSTEP_PRODUCTS=$table
  if attempt products 'proposals measured' "$(limit 60 600)" "$(program bench_training)" --vocab "$v" --steps 1 --traced 0 \
    ${tiny:+--layers 2 --hidden 32 --heads 2 --sequence 16 --batch 2} && succeeded products 'proposals measured'; then
    note products 'proposals measured' ok "$took" "$(awk 'NR > 1 {++n; if ($1 > 0) ++other}
      END {printf "%d products; for %d of them, the first proposal is not the fastest", n, other}' "$table")"
    train products "GPT-2 124M, V $v, tuned products" "$v" --variant 'tuned products'
  fi
  unset LOCKSTEP_PRODUCTS
}

# --- Nsight Compute ------------------------------------------------------------------------------

# The kernels of which the step ncu profiles one launch each, and what the table calls them.
PROFILED=('forward=attention forward' 'backward_keys=attention backward dk, dv' 'backward_queries=attention backward dq'
  'layernorm_kernel=layernorm forward' 'backward_input_kernel=layernorm backward'
  'loss_kernel=cross-entropy forward' 'backward_kernel=cross-entropy backward')
# The metrics of its report that become figures.
METRICS=('Duration' 'Compute (SM) Throughput' 'Memory Throughput' 'DRAM Throughput' 'Theoretical Occupancy'
  'Achieved Occupancy' 'Registers Per Thread' 'Dynamic Shared Memory Per Block')

find_ncu() {
  command -v ncu ||
    find "${CUDA_HOME:-/usr/local/cuda}/bin" /opt/nvidia/nsight-compute -name ncu -perm -u+x 2>/dev/null | head -n 1
}

step_ncu() {
  local ncu training names name='kernels of a training step' found missing=() each
  ncu=$(find_ncu)
  if [[ -z $ncu ]]; then note ncu "$name" skipped 0 "not installed"; return; fi
  training=$(program bench_training)
  names=$(printf '%s\n' "${PROFILED[@]%%=*}" | paste -sd'|')
  # The second launch of each kernel: the first one loads it. One layer has all of them, at full size.
  attempt ncu "$name" "$(limit 60 600)" "${training:+env}" LC_ALL=C CUDA_MODULE_LOADING=LAZY "$ncu" \
    --kernel-id "::regex:^($names)\$:2" --clock-control none --section SpeedOfLight --section LaunchStats \
    --section Occupancy --section WarpStateStats "$training" --layers 1 --steps 1 --traced 0 \
    ${tiny:+--hidden 32 --heads 2 --sequence 16 --batch 2 --vocab 257} || return
  if grep -q ERR_NVGPUCTRPERM "$log"; then
    note ncu "$name" skipped "$took" "no permission to read performance counters (ERR_NVGPUCTRPERM)"
    return
  fi
  succeeded ncu "$name" || return
  ncu_figures >"$scratch/ncu"
  cat "$scratch/ncu" >>"$results/figures"
  for each in "${PROFILED[@]#*=}"; do
    grep -q $'\t'"$each: " "$scratch/ncu" || missing+=("$each")
  done
  found=$((${#PROFILED[@]} - ${#missing[@]}))
  if (( ${#missing[@]} == 0 )); then
    note ncu "$name" ok "$took" "$found profiled, by $("$ncu" --version | tail -n 1)"
  else
    note ncu "$name" FAILED "$took" "$found profiled; not in the report: $(printf '%s\n' "${missing[@]}" | paste -sd';')"
  fi
}
# Prints the figures of the report in $log: for each launch a line with the kernel's signature and its context, then
# tables of name, unit and value.
ncu_figures() {
  awk -v OFS='\t' -v kernels="$(IFS=';'; echo "${PROFILED[*]}")" -v metrics="$(IFS=';'; echo "${METRICS[*]}")" '
    BEGIN {
      n = split(kernels, kernel, ";")
      m = split(metrics, metric, ";")
      for (i = 1; i <= n; ++i) {
        split(kernel[i], pair, "=")
        kernel[i] = pair[1]
        title[i] = pair[2]
      }
    }
    /, Context [0-9]+, Stream / {
      name = ""
      for (i = 1; i <= n; ++i) if ($0 ~ ("(^|[^A-Za-z0-9_])" kernel[i] "[<(]")) {name = title[i]; break}
      next
    }
    name {
      line = $0
      sub(/^ +/, "", line)
      value = $NF
      gsub(",", "", value)
      if (value !~ /^[0-9.]+$/) next
      for (i = 1; i <= m; ++i)
        if (index(line, metric[i] " ") == 1) print "ncu", name ": " tolower(metric[i]), value, $(NF - 1), ""
    }' "$log"
}

# --- Comparisons ---------------------------------------------------------------------------------

step_pytorch() {
  local way
  if [[ -n $tiny ]]; then
    note pytorch PyTorch skipped 0 "the emulator's speed can't be compared"
    return
  elif ! timeout 60 python3 -c 'import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)' 2>/dev/null; then
    note pytorch PyTorch skipped 0 "python3 has no torch with CUDA"
    return
  fi
  for way in eager compiled; do
    check pytorch "GPT-2 124M, $way" "$(limit 90 600)" python3 "$root/tests/gpu/compare_torch.py" "--$way" ${quick:+--quick}
    figures pytorch
  done
}

step_bench() {
  check bench kernels "$(limit 60 600)" "$(program bench_gpu)" --samples "$(limit 5 15)" ${tiny:+--tiny}
  figures bench
  [[ -z $tiny ]] || return 0    # the ladders' program needs CUDA
  check bench ladders "$(limit 30 300)" "$(program bench_ladder)" --samples "$(limit 5 15)"
  figures bench
}

# Weak scaling: 8 sequences of 1,024 tokens per rank, for any number of GPUs, in bf16 where the lesson has it: in f32,
# communication looks nine times cheaper beside the slow products. Ranks are threads and processes: threads
# may hang if one maps memory while another's NCCL kernel waits for it.
step_scaling() {
  local name ranks launch what microbatches compare one rate precision model=(--layers 12 --hidden 768 --heads 12 --sequence 1024)
  compare=$(program compare_runs)
  [[ -z $tiny ]] || model=(--layers 8 --hidden 16 --heads 2 --sequence 8)
  for name in 02_data_parallel 05_zero_3 09_1f1b; do
    one='' precision=(--precision bf16)
    if [[ $name == 09_* ]]; then precision=(); fi
    for ranks in 1 2 4 8; do
      (( ranks <= gpus )) || break
      microbatches=1
      if [[ $name == 09_* ]]; then microbatches=$((4 * ranks)); fi
      for launch in $(launches); do
        (( ranks > 1 )) || [[ $launch == threads ]] || continue
        what="$name, $ranks GPUs, $launch"
        attempt scaling "$what" 300 "$(program "lesson_$name")" --device cuda --ranks "$ranks" --launch "$launch" \
          --batch $((8 * ranks)) --microbatches "$microbatches" --steps 10 \
          "${model[@]}" "${precision[@]}" --clock wall --parity off --trace none --quiet --report "$scratch/scaling.json" || continue
        succeeded scaling "$what" || continue
        if [[ -n $tiny ]]; then note scaling "$what" ok "$took" "emulated: no speed"; continue; fi
        rate=$("$compare" --field tokens_per_second "$scratch/scaling.json")
        one=${one:-$rate}
        note scaling "$what" ok "$took" "$(awk -v r="$rate" -v one="$one" -v n="$ranks" \
          'BEGIN {printf "%.0f tokens/s, %.0f %% of %d times one GPU", r, 100 * r / one / n, n}')"
        figure scaling "$what" "$rate" tokens/s ''
      done
    done
  done
}
