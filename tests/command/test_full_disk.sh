#!/usr/bin/env bash
# Runs whose trace can't be written print one warning; training, --save and the results are not affected. Prints "N
# passed, N failed".
#
#   test_full_disk.sh LESSON LAUNCH...    LESSON is a pipeline's, such as lesson_09_1f1b; LAUNCH is
#                                         threads or mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$(realpath "$1")
shift

text=$scratch/text
seq 1 2000 >"$text"
flags=(--data "$text" --ranks 4 --steps 30 --layers 4 --hidden 8 --sequence 16 --clock modelled)

whole_lines() { # FILE...
  local file
  for file; do [[ ! -s $file || $(tail -c 1 "$file" | od -An -tx1) == ' 0a' ]] || return 1; done
}
warns_once() { [[ $(grep -c "can't write" <<<"$err") == 1 ]]; }
# Prints the losses and the parity results, which do not depend on the trace.
results() { perl -MJSON::PP -0777 -ne '$r = decode_json($_);
  print JSON::PP->new->canonical->encode([@{$r}{qw(losses parity sample)}])' "$1"; }

for launch in "$@"; do
  run "$lesson" "${flags[@]}" --launch "$launch" --trace "$scratch/good" --save "$scratch/saved" --report "$scratch/good.json"
  claim "a run is good ($launch)" ended 0
  largest=$(stat -c %s "$scratch/saved"/* "$scratch/good.json" | sort -n | tail -n 1)
  smallest=$(stat -c %s "$scratch"/good/rank?.json | sort -n | head -n 1)
  blocks=$(((largest + 1023) / 1024 + 1))    # enough for the checkpoint
  claim "a trace is larger than the limit ($launch): $smallest, $blocks KiB" [ "$smallest" -gt $((blocks * 1024)) ]

  # A limit on the size of files (ulimit -f); by default, SIGXFSZ would end the run. MPI cannot start under such a
  # limit.
  if [[ $launch == threads ]]; then
    run bash -c "ulimit -f $blocks; exec \"\$@\"" - "$lesson" "${flags[@]}" --launch "$launch" --trace "$scratch/cut" \
      --save "$scratch/saved_too" --report "$scratch/cut.json"
    claim "files that may not grow: the run is good ($launch)" ended 0
    claim "and says so once ($launch)" warns_once
    claim "and why ($launch)" complains 'File too large'
    claim "and that its report has no figures from the trace ($launch)" says 'the trace is not complete'
    claim "and saves the same model ($launch)" diff -r "$scratch/saved" "$scratch/saved_too"
    claim "and has the same results ($launch)" [ "$(results "$scratch/good.json")" == "$(results "$scratch/cut.json")" ]
    claim "the trace's files end on a whole line ($launch)" whole_lines "$scratch"/cut/*.json
    claim "the trace has its beginning ($launch)" [ "$(stat -c %s "$scratch/cut/rank0.json")" -gt 10000 ]
  fi

  # A disk of 64 KiB, in a separate mount namespace. Not every system lets a user create one.
  mkdir -p "$scratch/disk"
  if unshare -rm mount -t tmpfs -o size=64k none "$scratch/disk" 2>/dev/null; then
    # shellcheck disable=SC2016  # expanded by the inner shell
    run unshare -rm bash -c 'mount -t tmpfs -o size=64k none "$0" && "$@" && cp -r "$0/run" "$0.copy"' "$scratch/disk" \
      "$lesson" "${flags[@]}" --launch "$launch" --trace "$scratch/disk/run" --save "$scratch/saved_again"
    claim "a full disk: the run is good ($launch)" ended 0
    claim "and says so once ($launch)" warns_once
    claim "and why ($launch)" complains 'No space left on device'
    claim "and saves the same model ($launch)" diff -r "$scratch/saved" "$scratch/saved_again"
    claim "the trace's files end on a whole line ($launch)" whole_lines "$scratch"/disk.copy/*.json
  else
    echo "not tested: no file system may be mounted here"
  fi
  rm -rf "$scratch"/{good,saved,cut,disk}*
done
conclude
