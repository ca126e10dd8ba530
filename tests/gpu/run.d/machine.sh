# Describes the machine for tests/gpu/run: its GPUs, driver and CPU; and the GPU's clocks and power while a program runs.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/gpu/run shares its variables

# Looks for GPUs before anything is built for them.
find_gpus() {
  gpus=0 gpu_names=''
  if [[ -n ${LOCKSTEP_GPU_LIBRARY-} ]]; then
    gpus=${LOCKSTEP_EMULATED_GPUS:-1} gpu_names="of $LOCKSTEP_GPU_LIBRARY"
  elif command -v nvidia-smi >/dev/null && gpu_names=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null); then
    gpus=$(grep -c . <<<"$gpu_names")
    gpu_names=$(sort <<<"$gpu_names" | uniq -c | awk '{n = $1; $1 = ""; print n " x" $0}' | paste -sd,)
  else
    gpus=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l) gpu_names="$gpus, of unknown name (no nvidia-smi)"
  fi
  (( gpus > 0 )) || refuse "there is no GPU here (no nvidia-smi that names one, no /dev/nvidia0)." \
    "'./lockstep test' runs the tests that need none."
}

ask_driver() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }

step_here() {
  local driver limits
  note here GPUs ok 0 "$gpu_names"
  driver=$(ask_driver driver_version)
  note here driver ok 0 "${driver:-unknown}"
  limits=$(ask_driver clocks.max.sm,clocks.max.mem,power.limit)
  note here 'GPU limits' ok 0 "${limits:-unknown} (SM clock, memory clock, power)"
  note here CPU ok 0 "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(awk '/MemTotal/ {printf "%d GB", $2 / 1e6}' /proc/meminfo)"
  note here system ok 0 "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null), Linux $(uname -r), $("${CXX:-c++}" --version 2>/dev/null | head -n 1)"
  nvidia-smi topo -m >"$(new_log here-topology)" 2>&1 || true
}

# The GPUs that CUDA sees, which depend on CUDA_VISIBLE_DEVICES and the driver. Returns false if there are none.
see_gpus() {
  attempt here 'as CUDA sees it' 60 "$(program bench_gpu)" --list || return 0
  if [[ $code != 0 ]]; then
    note here 'as CUDA sees it' FAILED "$took" "$(last_words)"
    return 1
  fi
  gpus=$(($(grep -c . "$log") - 1))
  versions=$(head -n 1 "$log")
  note here 'as CUDA sees it' ok "$took" "$gpus GPUs; $versions"
}

# --- Clocks --------------------------------------------------------------------------------------

# Samples the clocks of the first GPU in the background, until stop_sampling. If this script is killed, timeout ends the
# sampler.
start_sampling() {
  local gpu=${CUDA_VISIBLE_DEVICES:-0} fields=utilization.gpu,clocks.sm,clocks.mem,power.draw,temperature.gpu
  : >"$scratch/clocks"
  command -v nvidia-smi >/dev/null || return 0
  # Newer drivers call the last field clocks_event_reasons.active, but know its old name.
  timeout 600 nvidia-smi -i "${gpu%%,*}" -lms 100 --format=csv,noheader,nounits \
    --query-gpu=$fields,clocks_throttle_reasons.active >"$scratch/clocks" 2>&1 </dev/null &
  sampler=$!
}
stop_sampling() {
  [[ -n $sampler ]] || return 0
  kill "$sampler" 2>/dev/null
  wait "$sampler" 2>/dev/null
  sampler=''
}

# The reasons why a GPU's clocks are below their maximum, by bit (NVML's nvmlClocksEventReasons). The first is that it
# has no work.
THROTTLE_REASONS=(gpu_idle applications_clocks_setting sw_power_cap hw_slowdown sync_boost sw_thermal_slowdown
  hw_thermal_slowdown hw_power_brake_slowdown display_clock_setting)

# Collects the figures of the samples in which the GPU had work.
clock_figures() { # STEP
  local busy=$scratch/busy samples seen=0 held=0 mask bit reasons=''
  stop_sampling
  cp "$scratch/clocks" "$(new_log "$1-clocks")"
  awk -F', *' 'NF == 6 && $1 >= 50' "$scratch/clocks" >"$busy"
  samples=$(wc -l <"$busy")
  if (( samples == 0 )); then
    note "$1" clocks skipped 0 "nvidia-smi gave no sample in which the GPU had work"
    return
  fi
  while read -r mask; do
    [[ $mask =~ ^0x[0-9a-fA-F]+$ ]] || continue
    seen=$((seen | mask))
    (( (mask & ~1) == 0 )) || held=$((held + 1))
  done < <(awk -F', *' '{print $6}' "$busy")
  for bit in "${!THROTTLE_REASONS[@]}"; do
    (( bit == 0 || (seen >> bit & 1) == 0 )) || reasons+=", ${THROTTLE_REASONS[bit]}"
  done
  reasons=${reasons#, }
  clock_figure "$1" 'SM clock' 2 median MHz
  clock_figure "$1" 'memory clock' 3 median MHz
  clock_figure "$1" power 4 most W
  clock_figure "$1" temperature 5 most '°C'
  figure "$1" throttled "$((100 * held / samples))" % "of $samples samples: ${reasons:-no reason}"
  note "$1" clocks ok 0 "$samples samples in which the GPU had work; throttled: ${reasons:-never}"
}
# Adds the median, or the most, of a column of $scratch/busy.
clock_figure() { # STEP NAME COLUMN median|most UNIT
  awk -F', *' -v column="$3" '$column ~ /^[0-9.]+$/ {print $column}' "$scratch/busy" | sort -n |
    awk -v OFS='\t' -v step="$1" -v name="$2" -v which="$4" -v unit="$5" '{value[NR] = $1}
      END {if (NR) print step, name, value[which == "most" ? NR : int((NR + 1) / 2)], unit,
        which " of " NR " samples (" value[1] " to " value[NR] ")"}' >>"$results/figures"
}
