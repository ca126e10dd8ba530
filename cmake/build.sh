# Packages, build and tests for the command ../lockstep, which sources this file. `need` installs packages, `build`
# builds targets (and configures first if necessary), and `check_layout` and `run_tests` run tests and count the
# results.
#
# shellcheck shell=bash disable=SC2154  # the command sets root, build, preset, install and me

# Each line: the group, Debian's name of the package, and a way to find the package if dpkg does not know it.
PACKAGES='
required cmake              tool:cmake
required ninja-build        tool:ninja
required g++                tool:c++
required pkg-config         tool:pkg-config
PRODUCTS
required libcli11-dev       header:CLI/CLI.hpp
required libfmt-dev         header:fmt/core.h
required nlohmann-json3-dev header:nlohmann/json.hpp
required libsimdjson-dev    header:simdjson.h
mpi      libopenmpi-dev     module:ompi-c
mpi      openmpi-bin        tool:mpirun
viewer   libimgui-dev       module:imgui
viewer   libglfw3-dev       module:glfw3
viewer   libgl-dev          header:GL/gl.h
viewer   libstb-dev         header:stb/stb_image_write.h
viewer   libarchive-dev     module:libarchive
viewer   fonts-dejavu-core  file:/usr/share/fonts/*/dejavu/DejaVuSans.ttf
tests    doctest-dev        header:doctest/doctest.h
tests    xvfb               tool:Xvfb
tests    xauth              tool:xauth
tests    libgl1-mesa-dri    file:/usr/lib*/dri/swrast_dri.so
bench    libbenchmark-dev   header:benchmark/benchmark.h
what_if  patch              tool:patch'
# The library that computes the CPU's matrix products (Gemm.cmake explains the choice).
case $(uname -m) in
  x86_64) PACKAGES=${PACKAGES/PRODUCTS/required libdnnl-dev        header:oneapi/dnnl/dnnl.hpp} ;;
  *) PACKAGES=${PACKAGES/PRODUCTS/required libopenblas-dev    module:openblas} ;;
esac

# --- Packages ------------------------------------------------------------------------------------

# Sets `missing` to lines of "group package". First asks dpkg about all packages at once. Packages that dpkg does not
# know may have been installed in other ways: modules, Spack, conda, or by hand.
find_missing() {
  local group package probe prefix prefixes names installed=''
  local -x CPATH=${CPATH-} PKG_CONFIG_PATH=${PKG_CONFIG_PATH-}
  IFS=: read -ra prefixes <<<"${CMAKE_PREFIX_PATH-}:${CONDA_PREFIX-}"
  for prefix in "${prefixes[@]}"; do
    CPATH+=:$prefix/include PKG_CONFIG_PATH+=:$prefix/lib/pkgconfig:$prefix/lib64/pkgconfig
  done
  if command -v dpkg-query >/dev/null; then
    mapfile -t names < <(awk 'NF {print $2}' <<<"$PACKAGES")
    installed=$(dpkg-query -W -f '\n${Package} ${db:Status-Abbrev}' "${names[@]}" 2>/dev/null) || true
  fi
  missing=''
  while read -r group package probe; do
    [[ -z $group || $installed == *$'\n'"$package ii"* ]] || is_there "$probe" ||
      missing+="$group $package"$'\n'
  done <<<"$PACKAGES"
}

is_there() {
  local what=${1#*:}
  case $1 in
    tool:c++) command -v "${CXX:-c++}" ;;
    tool:*) command -v "$what" ;;
    module:*) pkg-config --exists "$what" ;;
    header:*) printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$what" | "${CXX:-c++}" -E -x c++ - ;;
    file:*) compgen -G "$what" ;;
  esac >/dev/null 2>&1
}

missing_of() { # GROUP...: the missing packages of these, on one line
  awk -v groups=" $* " 'index(groups, " " $1 " ") {printf "%s%s", n++ ? " " : "", $2}' <<<"$missing"
}

list_missing() { # GROUP...
  local group
  local -A what=([required]='to build and run' [mpi]='for ranks as processes'
                 [viewer]='for the viewer' [tests]='for the tests'
                 [bench]='for the benchmarks' [what_if]="for the lessons' what-ifs")
  for group in "$@"; do
    [[ -z $(missing_of "$group") ]] || say "  ${what[$group]}: $(missing_of "$group")"
  done
}

# Ensures that the packages of these groups are there: installs missing packages if that is possible and allowed, and
# continues without optional ones.
need() { # GROUP...
  local why=''
  find_missing
  [[ -n $(missing_of "$@") ]] || return 0
  if [[ -z $install ]]; then why='--no-install'
  elif ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then why='no apt here'
  elif (( EUID != 0 )) && ! command -v sudo >/dev/null; then why='neither root nor sudo here'
  fi
  if [[ -z $why ]]; then
    say "Packages that are not here yet:"
    list_missing "$@"
    install_missing "$@"
    find_missing
  elif [[ -n $(missing_of required) ]] || ! is_configured; then    # otherwise an earlier command has reported it
    say "Not found, and not installed ($why); the names are Debian's:"
    list_missing "$@"
  fi
  if [[ -n $(missing_of required) && ! -e $build/build.ninja ]]; then
    say "Libraries that only CMake would find: configure once by hand, with"
    say "'cmake --preset $preset -DCMAKE_PREFIX_PATH=...', and run this again."
    fail "can't build without $(missing_of required)"
  fi
}

install_missing() { # GROUP...
  local group names log=$root/build/packages.log apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y)
  if (( EUID != 0 )); then
    [[ -t 0 ]] || apt=(-n "${apt[@]}")    # there is no terminal on which to type a password
    apt=(sudo "${apt[@]}")
  fi
  mkdir -p "$root/build"
  say "Installing them: ${apt[*]} install (log: build/packages.log)"
  if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then "${apt[@]}" update; fi >"$log" 2>&1 || true
  read -ra names <<<"$(missing_of "$@")"
  "${apt[@]}" install --no-install-recommends "${names[@]}" >>"$log" 2>&1 && return
  # The package lists are outdated, or lack one of the packages: update the lists, then install group by group.
  "${apt[@]}" update >>"$log" 2>&1 || true
  for group in "$@"; do
    read -ra names <<<"$(missing_of "$group")"
    if (( ${#names[@]} )) && ! "${apt[@]}" install --no-install-recommends "${names[@]}" >>"$log" 2>&1; then
      say "Could not install ${names[*]}: $(tail -n 1 "$log")"
    fi
  done
}

# --- Build ---------------------------------------------------------------------------------------

# Prints a description of the environment that the build is configured for. If this environment changes (other packages,
# another CUDA Toolkit, a GPU added or removed), the build is configured again.
configuration() {
  printf '%s\n%s%s' "$root" "$missing" "$(command -v "${CUDACXX:-nvcc}")"
  ! compgen -G '/dev/nvidia[0-9]*' >/dev/null || printf ' with a GPU'
}

# A verb that needs the kernels for every architecture sets this to `all`. A build that has them keeps them.
architectures=''

# `yes` if the GPU part is to be built: its target is, or a verb sets this. Finding nvcc takes several seconds, longer than the rest of
# configuring, so a build looks for nvcc only when it is first needed, unless the user has set LOCKSTEP_CUDA.
gpu_part=''

in_cache() { grep -qs "^$1:[A-Z]*=$2\$" "$build/CMakeCache.txt"; } # VARIABLE VALUE

is_configured() {
  [[ -e $build/build.ninja && -e $build/configured_for ]] &&
    [[ $(<"$build/configured_for") == "$(configuration)" ]] &&
    { [[ -z $architectures ]] || in_cache LOCKSTEP_CUDA_ARCHITECTURES "$architectures"; } &&
    { [[ -z $gpu_part ]] || ! in_cache LOCKSTEP_CUDA when_wanted; }
}

configure() {
  local version flags=(-DLOCKSTEP_TESTS="$([[ $missing == *doctest-dev* ]] && echo OFF || echo ON)")
  ! is_configured || return 0
  [[ -z $architectures ]] || flags+=(-DLOCKSTEP_CUDA_ARCHITECTURES="$architectures")
  version=$(cmake --version | awk 'NR == 1 {print $3}')
  [[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) == 3.25 ]] ||
    fail "CMake $version is here, and 3.25 is needed: 'pip install cmake', or https://apt.kitware.com"
  version=$("${CXX:-c++}" -dumpfullversion 2>/dev/null) || version=99    # not GCC
  (( ${version%%.*} >= 11 )) || fail "GCC $version is here, and 11 is needed: 'CXX=g++-12 $me ...'"
  # If the build was configured before the checkout was moved, nothing in it can be used.
  [[ ! -e $build/configured_for || $(head -n 1 "$build/configured_for") == "$root" ]] || flags+=(--fresh)
  if [[ -n $gpu_part ]]; then
    ! in_cache LOCKSTEP_CUDA when_wanted || flags+=(-DLOCKSTEP_CUDA=ON)
  elif [[ ! -e $build/CMakeCache.txt || " ${flags[*]} " == *' --fresh '* ]]; then
    flags+=(-DLOCKSTEP_CUDA=when_wanted)
  fi
  say "Configuring build/$preset (log: build/$preset/configure.log)"
  if ! (cd "$root" && cmake --preset "$preset" "${flags[@]}") >"$build/configure.log" 2>&1; then
    awk '/^CMake Error/ {show = 1} /^-- / {show = 0} show' "$build/configure.log" | head -n 40 >&2
    fail "configuring failed; all that CMake said is in build/$preset/configure.log"
  fi
  sed -n 's/^-- Lockstep: \(.*left out.*\|CUDA .*\)/  \1/p' "$build/configure.log" >&2
  configuration >"$build/configured_for"
}

# Prints the number of jobs: one per core, but at most one per 1.5 GB of free memory, or of the memory that this
# container may use.
jobs_at_once() {
  { nproc; cat /sys/fs/cgroup/memory.max /proc/meminfo; } 2>/dev/null | awk '
    function at_most(n) {if (n < jobs) jobs = n}
    NR == 1 {jobs = $1} NR > 1 && /^[0-9]+$/ {at_most(int($1 / 1.5e9))}
    /^MemAvailable/ {at_most(int($2 / 1.5e6))} END {print (jobs > 0 ? jobs : 1)}'
}

# Reads Ninja's output and shows its progress: on a terminal, in one line that is redrawn every second; elsewhere, in a
# new line every PROGRESS_SECONDS. Prints nothing if there is nothing to build.
PROGRESS_SECONDS=5
progress() { # TARGETS
  local line at='' said='' begun=$SECONDS step='^\[([0-9]+/[0-9]+)\] (Building|Linking) .*[ /]([^ /]+)$'
  # Matches a unity source, which combines several files: those of a folder in core/, or of a test suite.
  local unity='/(lockstep|test)_([a-z]+)\.dir/Unity/unity_([a-z]*)_?([0-9]*)'
  while true; do
    if IFS= read -r -t 1 line; then
      [[ $line =~ $step ]] || continue
      at="${BASH_REMATCH[1]/\// of } files, ${BASH_REMATCH[3]}"
      if [[ $line =~ $unity ]]; then
        case ${BASH_REMATCH[1]} in
          test) at="${at%,*}, tests/${BASH_REMATCH[2]}, part ${BASH_REMATCH[4]}" ;;
          *) at="${at%,*}, core/${BASH_REMATCH[3]}${BASH_REMATCH[4]:+, part ${BASH_REMATCH[4]}}" ;;
        esac
      fi
    elif (( $? <= 128 )); then    # the end of the input, not just a second without a line
      break
    fi
    if [[ -t 2 ]]; then
      printf '\r\e[KBuilding %.40s: %.40s, %d s' "$1" "${at:-starting}" $((SECONDS - begun)) >&2
    elif [[ -z $said ]]; then
      say "Building $1 (log: build/$preset/build.log)"
    elif (( SECONDS - said >= PROGRESS_SECONDS )); then
      say "  ${at:-starting} after $((SECONDS - begun)) s"
    else
      continue
    fi
    said=$SECONDS
  done
  if [[ -t 2 && -n $said ]]; then printf '\r\e[K' >&2; fi
}

compile() { # TARGET...
  local target targets=() log=$build/build.log
  command -v cmake >/dev/null ||
    fail "can't build: cmake is not on the PATH; install it (Debian's package is cmake), or 'pip install cmake'"
  [[ " $* " != *' lockstep_cuda '* ]] || gpu_part=yes
  configure
  for target in "$@"; do    # without the viewer's packages, there is no target for it
    [[ $target == lockstep_view ]] && ! grep -q "$target" "$build/build.ninja" || targets+=("$target")
  done
  (( ${#targets[@]} )) || return 0
  if ! cmake --build "$build" --target "${targets[@]}" --parallel "$(jobs_at_once)" 2>&1 |
    tee "$log" | progress "${building:-${targets[*]}}"; then
    [[ -z ${errors-} ]] || exit 3    # a caller that reads the log itself
    # Ninja prints FAILED, then the command on the next line, and then the compiler's output.
    awk '/^\[[0-9]+\/[0-9]+\]/ {show = 0} show; /^FAILED: / {getline; show = 1}' "$log" | head -n 60 >&2
    fail "building ${targets[*]} failed; all of it is in build/$preset/build.log"
  fi
}

# `view` in one terminal and `lesson` in another may both need to build. The lock makes them build one after the other.
build() { # TARGET...
  (
    mkdir -p "$build"
    exec {lock}>"$build/lock"
    flock -n "$lock" || { say "Waiting for another build in build/$preset"; flock "$lock"; }
    compile "$@"
  )
}

# --- Tests ---------------------------------------------------------------------------------------

# Checks that every source has clang-format 14's layout (other versions' differs). Counts as one test.
check_layout() {
  local tool files wrong
  for tool in clang-format-14 clang-format ''; do
    [[ $("${tool:-true}" --version 2>/dev/null) != *'version 14.'* ]] || break
  done
  if [[ -z $tool ]]; then
    say "Layout: skipped, there is no clang-format 14 here"
    skipped=$((skipped + 1))
    return
  fi
  mapfile -d '' files < <(cd "$root" && find kernels core lessons exercises viz tests -type f \
    \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null)
  if wrong=$(cd "$root" && "$tool" --dry-run --Werror "${files[@]}" 2>&1); then
    say "Layout: ${#files[@]} sources are as clang-format writes them"
    passed=$((passed + 1))
  else
    say "Layout: to be put right by '$tool -i' on"
    sed -n 's/^\([^ :]*\):[0-9].*: error:.*/  \1/p; s/^Error.*/&/p' <<<"$wrong" | sort -u >&2
    failed=$((failed + 1))
  fi
}

run_tests() { # CTEST ARGUMENTS
  local results=$build/tests.xml status=0 ran=0 left_out=0 bad=0
  rm -f "$results"
  say "Testing build/$preset"
  # Many tests mostly wait, so two per core keep the cores busy. With a time-out, a test that hangs fails after a while
  # and does not block the others.
  (cd "$build" && ctest --output-on-failure --no-tests=error --parallel $((2 * $(nproc))) --timeout 1200 \
    --output-junit "$results" "$@") || status=$?
  if [[ -e $results ]]; then
    count() { grep -c -- "$1" "$results" || true; }
    ran=$(count ' status="run"')
    left_out=$(count '<skipped message="SKIP_\|status="disabled"')    # does not match tests whose program is missing
    bad=$(($(count '<testcase ') - ran - left_out))
  fi
  if (( status != 0 && bad == 0 )); then bad=1; fi    # ctest itself failed
  passed=$((passed + ran)) failed=$((failed + bad)) skipped=$((skipped + left_out))
}

# Lists the N files, tests and cases that took longest in the last build and the last run. Seconds are wall-clock time,
# affected by whatever else was running; those of a file are from the last time that it was compiled.
list_slowest() { # N
  local log=$build/Testing/Temporary/LastTest.log
  slowest() { sort -rn | sed -n "1,$1p"; }
  printf '\nSlowest files to compile in build/%s, in seconds:\n' "$preset"
  awk -F'\t' 'NF == 5 && $4 ~ /\.(o|gch)$/ {took[$4] = ($2 - $1) / 1000}
    END {for (file in took) {shown = file; sub(/CMakeFiles\//, "", shown); sub(/\.dir\//, " ", shown)
                             printf "%8.1f  %s\n", took[file], shown}}' "$build/.ninja_log" | slowest "$1"
  [[ -e $log ]] || return 0
  printf '\nSlowest tests:\n'
  awk '/^[0-9]+\/[0-9]+ Test: / {name = $3} /^Test time = / {printf "%8.1f  %s\n", $4, name}' "$log" | slowest "$1"
  printf '\nSlowest cases:\n'    # doctest prints these lines if LOCKSTEP_TEST_DURATIONS is set
  awk '/^[0-9]+\/[0-9]+ Test: / {name = $3}
    /^[0-9.]+ s: / {took = $1; sub(/^[0-9.]+ s: /, ""); printf "%8.1f  %s: %s\n", took, name, $0}' "$log" | slowest "$1"
  printf '\n'
}
