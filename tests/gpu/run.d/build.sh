# Builds Lockstep for tests/gpu/run: first what the first steps need, then the rest; without the kernel files that do not
# compile. Finds the libraries that the programs load.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/gpu/run shares its variables

# Prints what is missing if CMake's log names a library or a tool, and how to bring it.
missing_for_cmake() {
  local name
  name=$(sed -n 's/.*provided by "\([^"]*\)" with.*/\1/p; s/^ *Could NOT find \([A-Za-z0-9_]*\) .*/\1/p
    s/^ *Could not find \([a-z]*\)_\(INCLUDE_DIR\|LIBRARY\) .*/\1/p' "$log" | head -n 1)
  if [[ -n $name ]]; then
    echo "$name is missing: run tests/gpu/pack on Debian or Ubuntu, and copy build/gpu-packages here"
  elif grep -qE 'No CMAKE_C(XX)?_COMPILER|Could not find compiler|is not a full path' "$log"; then
    echo "no C++ compiler: install one, or build elsewhere and use --built"
  else
    grep -A3 -m1 '^CMake Error' "$log" | paste -sd' ' | cut -c1-200
  fi
}

configure() {
  local packages=$root/build/gpu-packages flags=() about
  if ! command -v cmake >/dev/null; then
    note build configure FAILED 0 "there is no cmake: install 3.25 or later, or build elsewhere and use --built"
    return 1
  fi
  if [[ -e $packages/packages.cmake ]]; then flags+=(-C "$packages/packages.cmake"); fi
  if command -v ninja >/dev/null; then flags+=(-G Ninja); fi
  attempt build configure 300 cmake -S "$root" -B "$build" "${flags[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CUDA_ARCHITECTURES=native -DLOCKSTEP_VIEWER=OFF -DLOCKSTEP_BENCH=OFF -DLOCKSTEP_WERROR=OFF \
    -DLOCKSTEP_UNITY=OFF -DLOCKSTEP_LEAVE_OUT_KERNELS= || return    # a unity build would not name the file that fails
  if [[ $code != 0 ]]; then
    if [[ $code == late ]]; then succeeded build configure; else note build configure FAILED "$took" "$(missing_for_cmake)"; fi
    return 1
  fi
  about=$(sed -n 's/^-- Lockstep: \(.*\)/\1/p' "$log" | grep -E '^(CUDA|NCCL|MPI)' | paste -sd';' | sed 's/;/; /g')
  cp "$log" "$build/configured"
  if [[ $about != *'CUDA found'* && -z ${LOCKSTEP_GPU_LIBRARY-} ]]; then
    note build configure FAILED "$took" "no usable CUDA Toolkit: $(sed -n 's/^-- Lockstep: CUDA //p' "$log"); or use --built"
    return 1
  fi
  note build configure ok "$took" "$about"
  # A file that does not compile must not keep the others from being built.
  go_on=(-k)
  ! grep -qs '^CMAKE_GENERATOR:INTERNAL=Ninja' "$build/CMakeCache.txt" || go_on=(-k 0)
}

# Builds a target, and as much of it as possible if a file does not compile. Then, if that is a kernel's file, builds
# again without it, because its kernels are in every program that uses a GPU.
compile() { # NAME LIMIT TARGET
  local sources programs error kernels limit begin=$SECONDS
  attempt build "$1" "$2" cmake --build "$build" --parallel "$(nproc)" --target "$3" -- "${go_on[@]}" || return
  # CMake writes __ for the folder above in the path of an object.
  sources=$(failed_outputs | grep -E '\.o$' |
    sed -E 's,CMakeFiles/[^/]*\.dir/,,; s,\.o$,,; :up; s,(^|/)[^/]+/__/,\1,; tup' | sort -u | paste -sd' ')
  programs=$(failed_outputs | grep -vE '\.o$' | paste -sd' ')
  error=$(grep -m1 -oE '(error|undefined reference)\b.*' "$log" | cut -c1-120)
  case $code in
    0) note build "$1" ok "$took" '' ;;
    late) note build "$1" late "$took" "not done after $took s${sources:+; not compiled: $sources}" ;;
    *) note build "$1" FAILED "$took" "${sources:+not compiled: $sources; }${programs:+not linked: $programs; }${error:-$(last_words)}" ;;
  esac
  [[ $code != 0 && $code != late ]] || return 0
  read -ra kernels <<<"$(tr ' ' '\n' <<<"$sources" | grep '\.cu$' | paste -sd' ')"
  if (( ${#kernels[@]} == 0 )) || ! leave_out "${kernels[@]}"; then return 0; fi
  limit=$(($2 - (SECONDS - begin)))
  compile "${1%, without them}, without them" "$((limit > 30 ? limit : 30))" "$3"
}
# Configures again, without kernel files that do not compile; the calls of their kernels throw.
leave_out() { # FILE...
  local file
  left_out+=("$@")
  attempt build 'configure again' 300 cmake -S "$root" -B "$build" \
    -DLOCKSTEP_LEAVE_OUT_KERNELS="$(IFS=';'; echo "${left_out[*]}")" || return
  if [[ $code != 0 ]]; then
    note build 'configure again' FAILED "$took" "$(missing_for_cmake)"
    return 1
  fi
  for file in "$@"; do
    note build "left out $file" FAILED "$took" \
      "does not compile; what needs it fails: $(sed -n "s,^-- Lockstep: left out $file: ,,p" "$log" | head -n 1)"
  done
}
# The files that Ninja or make could not build.
failed_outputs() {
  sed -nE 's/^FAILED: (\[code=[0-9]+\] )?([^ ]*).*/\2/p; s/.*\*\*\* \[[^]]*: ([^]]*)\] Error.*/\1/p' "$log" | sort -u
}

# Whether an earlier call has built everything for this commit.
is_built() { [[ -e $build/complete && $(<"$build/complete") == "$(commit)" ]]; }

# Builds what the steps up to bench run. The step kernels takes the GPU's time, so most cores can then compile the rest,
# until the first measurement.
build_first() {
  forget build
  rm -f "$build/complete"
  configure || return
  compile 'first targets' "$(limit 240 1800)" lockstep_gpu_first
  nice -n 19 timeout -k 5 1800 cmake --build "$build" --parallel "$(($(nproc) > 4 ? $(nproc) - 3 : 1))" \
    --target lockstep_gpu_checks -- "${go_on[@]}" >/dev/null 2>&1 </dev/null &
  background=$!
}
# Ends the build in the background, which would disturb measurements. build_rest continues it.
stop_building() {
  [[ -n $background ]] || return 0
  kill "$background" 2>/dev/null
  wait "$background"
  background=''
}
build_rest() {
  stop_building
  [[ -n $building ]] || return 0
  building=''
  compile 'the rest' "$(limit 150 1800)" lockstep_gpu_checks
  [[ $code == late || $code == skipped ]] || commit >"$build/complete"
  find_library
  find_missing_libraries
}

# The library with CUDA's part, which programs load at run time.
find_library() {
  local library
  library=$(find "$build/" -name liblockstep_cuda.so -print -quit)
  if [[ -n $tiny || -z $library ]]; then return; fi
  export LOCKSTEP_GPU_LIBRARY=$library
}

# Notes the shared libraries that the programs need and the machine lacks.
find_missing_libraries() {
  local missing
  missing=$(for each in "${LOCKSTEP_GPU_LIBRARY-}" "$(program bench_gpu)" "$(program bench_nccl)" "$(program lesson_09_1f1b)"; do
    [[ -z $each ]] || ldd "$each" 2>/dev/null
  done | awk '/not found/ {print $1}' | sort -u | paste -sd' ')
  forget here libraries
  [[ -n $missing ]] || return 0
  note here libraries FAILED 0 "missing: $missing; tests/gpu/pack, run on Debian or Ubuntu, gathers all but CUDA's into build/gpu-packages"
}
