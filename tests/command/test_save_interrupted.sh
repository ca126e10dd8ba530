#!/usr/bin/env bash
# Runs that are interrupted while they save: the place of --save then holds the old checkpoint or the
# new one, complete, and it loads. Prints "N passed, N failed".
#
#   test_save_interrupted.sh LESSON COUNT [LAUNCH...]    LESSON is lesson_03_zero_1, in which all ranks write;
#                                                        interrupts COUNT runs per LAUNCH (threads, mpi): half
#                                                        with SIGKILL, a quarter with SIGTERM, and a quarter
#                                                        with two SIGTERMs, the second of which does not wait
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$(realpath "$1") count=$2
shift 2

text=$scratch/text
seq 1 2000 >"$text"
flags=(--data "$text" --trace none --parity off --quiet --ranks 2 --steps 1 --batch 2 --sequence 8 --layers 2
  --hidden 128 --clock modelled)

# Prints the names and checksums of a folder's files, except unfinished ones, in one line.
contents() { (cd "$1" 2>/dev/null && cksum -- * | grep -v '\.partial$' | tr '\n' ' '); }

# Starts the command, waits until FOLDER.partial or a *.partial within FOLDER exists, waits another MICROSECONDS, sends
# the signal to the command, and waits until all its processes are gone. If no signal is given, prints how long the
# partial folder existed, in microseconds.
cat >"$scratch/interrupt" <<'END'
use Time::HiRes qw(time usleep);
my ($folder, $signal, $delay, @command) = @ARGV;
my $child = fork();
if ($child == 0) { setpgrp(0, 0); open STDERR, '>>', "$folder.err"; exec @command; }
my ($began, $over);
my $is_saving = sub { my @inside = glob("$folder/*.partial"); -e "$folder.partial" || @inside };
until ($over = waitpid($child, 1) > 0) {
  if ($is_saving->()) {
    $began //= time;
    if ($signal ne 'none' && time - $began >= $delay / 1e6) {
      kill 'TERM', $child and usleep(2000) if $signal eq 'TWICE';
      kill $signal eq 'TWICE' ? 'TERM' : $signal, $child;
      last;
    }
  } elsif ($began && $signal eq 'none') { last }
  usleep($began ? 50 : 500);
}
print int((time - $began) * 1e6) if $signal eq 'none' && $began;
waitpid($child, 0) unless $over;
# A rank under mpirun ends a little later than the process that started it.
for (1 .. 600) {
  last if system("pgrep -f -- '^(mpirun|$command[0]) .*--save $folder ' >/dev/null") != 0;
  usleep(50_000);
}
END

for launch in "$@"; do
  place=$scratch/place
  run "$lesson" "${flags[@]}" --launch "$launch" --save "$scratch/old" --seed 1
  claim "a run saves ($launch)" ended 0
  cp -r "$scratch/old" "$place"
  took=$(perl "$scratch/interrupt" "$place" none 0 "$lesson" "${flags[@]}" --launch "$launch" --load "$place" --save "$place" --seed 2)
  claim "the time of saving is known ($launch): ${took:-none} µs" [ "${took:-0}" -gt 0 ]
  cp -r "$place" "$scratch/new"
  old=$(contents "$scratch/old") new=$(contents "$scratch/new")
  claim "the two checkpoints differ" [ "$old" != "$new" ]

  RANDOM=14    # the same delays each time
  found_old=0 found_new=0 mixed=0 lost=0 unloadable=0 range=$took
  for ((i = 0; i < count; ++i)); do
    rm -rf "$place" "$place.partial" "$place.previous"
    cp -r "$scratch/old" "$place"
    signals=(KILL TERM KILL TWICE)
    signal=${signals[i % 4]}
    # The range of random delays depends on the machine's speed, so that both outcomes occur.
    perl "$scratch/interrupt" "$place" "$signal" $(((RANDOM * 32768 + RANDOM) % (range + 1))) "$lesson" "${flags[@]}" \
      --launch "$launch" --load "$place" --save "$place" --seed 2 >/dev/null
    # Between two renames, the old folder has another name.
    where=$place
    [[ -d $place ]] || where=$place.previous
    case $(contents "$where") in
      "$old") found_old=$((found_old + 1)) range=$((range * 5 / 4)) ;;
      "$new") found_new=$((found_new + 1)) range=$((range * 4 / 5)) ;;
      *) mixed=$((mixed + 1)) ;;
    esac
    # The first SIGTERM lets the run save.
    [[ $signal != TERM || $(contents "$place") == "$new" ]] || lost=$((lost + 1))
    run "$lesson" "${flags[@]}" --load "$place"
    ended 0 || unloadable=$((unloadable + 1))
  done
  out='' err=$(tail -n 3 "$place.err" 2>/dev/null)
  claim "no folder is a mixture ($launch): $mixed of $count; $found_old old, $found_new new" [ "$mixed" = 0 ]
  claim "a run that gets SIGTERM while it saves, saves ($launch): $lost do not" [ "$lost" = 0 ]
  claim "every folder loads ($launch): $unloadable of $count do not" [ "$unloadable" = 0 ]
  printf '%s: %d runs killed while saving (%d µs): %d left the old checkpoint, %d the new one, %d a mixture\n' \
    "$launch" "$count" "$took" "$found_old" "$found_new" "$mixed"
  # The next run must not be affected by files that a killed run left behind.
  run "$lesson" "${flags[@]}" --launch "$launch" --load "$place" --save "$place"
  claim "the next run saves there ($launch)" ended 0
  claim "and leaves nothing beside it ($launch)" [ "$(cd "$scratch" && echo place*)" = "place place.err" ]
  rm -rf "$scratch/old" "$scratch/new" "$place" "$place".*
done
conclude
