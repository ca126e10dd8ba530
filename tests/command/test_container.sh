#!/usr/bin/env bash
# Tests cmake/Containerfile without a container: with fakes of apt-get and rm that only record their
# arguments, its RUN line installs the packages of cmake/build.sh.
# shellcheck disable=SC2154,SC1091  # scratch is from claims.sh
set -uo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"

mkdir "$scratch/bin"
for tool in apt-get rm; do
  printf '#!/bin/bash\necho "%s $*" >>"%s/asked"\n' "$tool" "$scratch" >"$scratch/bin/$tool"
  chmod +x "$scratch/bin/$tool"
done
command=$(sed -n '/^RUN /,/[^\\]$/p' "$source_dir/cmake/Containerfile" | sed 's/^RUN //; s/\\$//' | tr '\n' ' ')
command=${command//\/tmp\/build.sh/\"$source_dir/cmake/build.sh\"}
PATH=$scratch/bin:$PATH run bash -o pipefail -c "$command"
claim "the RUN line runs" ended 0
asked=$(<"$scratch/asked")
claim "the package lists are fetched first" [ "${asked%%$'\n'*}" = 'apt-get update' ]
wanted=$(bash -c 'source "$1"; awk "NF {print \$2}" <<<"$PACKAGES"' _ "$source_dir/cmake/build.sh" | sort)
claim "build.sh lists packages" [ "$(wc -l <<<"$wanted")" -ge 15 ]
installed=$(sed -n 's/^apt-get install -y --no-install-recommends //p' <<<"$asked" | tr ' ' '\n' | sort)
out="packages of build.sh that the container lacks: $(comm -23 <(echo "$wanted") <(echo "$installed"))"
claim "every package of build.sh is installed" [ "$out" = 'packages of build.sh that the container lacks: ' ]
out=$(awk '$1 == "COPY" {print $2}' "$source_dir/cmake/Containerfile")
claim "what is copied lies in the build's context" [ -e "$source_dir/cmake/$out" ]
# shellcheck disable=SC2013  # the file's name is one word
for word in $(sed -n 's/.*docker build .*-f \([^ ]*\) .*/\1/p' "$source_dir/README.md"); do
  claim "the README names the file" [ -e "$source_dir/$word" ]
  named=yes
done
claim "the README has the command" [ -n "${named-}" ]
conclude
