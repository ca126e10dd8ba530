"""Runs the commands of a page in a copy of the tree. ./lockstep is the real script. It uses the given
build, to which only the programs of what-ifs are added. Runs write to a temporary folder."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Only the programs of what-ifs are built here, because a normal build does not include them. ctest
# or the user has already built and installed everything else.
STUB = '''need() { :; }
build() {
  [[ $* == *-what_if-* ]] || return 0
  local folder log
  folder=$(readlink -f "$build") log=$(mktemp)
  flock "$folder/lock" cmake --build "$folder" --target "$@" >"$log" 2>&1 || fail "$(cat "$log")"
  rm "$log"
}
'''

# Commands that no test of a page can run, with reasons.
NOT_RUN = [
    (r'--device[ =]cuda', 'needs a GPU'),
    (r'tests/gpu/(run|pack|variants/run)', 'needs a GPU, or packages from the network'),
    (r'--hosts?(file)? |--token-file|srun |ssh ', 'needs other hosts'),
    (r'docker |cmake ', 'builds everything'),
    (r'\./lockstep test', 'runs the tests, of which this is one'),
    (r'\./lockstep bench', 'needs an idle machine'),
    (r'\./lockstep accuracy', 'the tests accuracy, accuracy_steps and accuracy_published run it'),
    (r'\./lockstep check', "checks the reader's own answers"),
    (r'\./lockstep view( --listen.*)?$', 'waits for a run'),
]


class Runner:
    def __init__(self, tree, build, timeout=3600):
        self.timeout, self.outputs = timeout, {}
        self.root = Path(tempfile.mkdtemp(prefix='lockstep-pages-'))
        self.viewer = build / 'viz/lockstep_view'
        for folder in ('build', 'cmake', 'runs'):
            (self.root / folder).mkdir()
        (self.root / 'cmake/build.sh').write_text(STUB)
        (self.root / 'build/release').symlink_to(build)
        shutil.copy(tree / 'lockstep', self.root)
        for path in tree.iterdir():
            if path.name not in ('build', 'runs', 'cmake', 'lockstep') and not path.name.startswith('.'):
                (self.root / path.name).symlink_to(path)
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ('DISPLAY', 'WAYLAND_DISPLAY', 'LOCKSTEP_PRESET')}
        # oneDNN's code for AVX-512 adds in a different order than its code for AVX2. In 16-bit
        # training, this difference changes digits that a page shows.
        self.environment['ONEDNN_MAX_CPU_ISA'] = 'AVX2'

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def reason_not_to_run(self, command):
        if command.not_run:
            return command.not_run
        for pattern, reason in NOT_RUN:
            if re.search(pattern, command.text):
                return reason
        if re.match(r'\./lockstep view', command.text) and not (self.viewer.exists() and shutil.which('xvfb-run')):
            return 'needs the viewer and Xvfb'
        return ''

    def run(self, text):
        """Returns (output, exit code); a repeated command runs only once, except cmp."""
        if text in self.outputs:
            return self.outputs[text]
        actual = text
        if re.match(r'\./lockstep view', text) and not re.search('--screenshot|--summary', text):
            actual += ' --screenshot picture.png'
        # The pages show tables, and say that a run prints them with --verbose.
        if not re.search(r'--(verbose|detail|quiet|help|what-if$)', text):
            actual = re.sub(r'(\./lockstep lesson \S+)', r'\1 --verbose', actual)
        begun, run = time.monotonic(), len(list((self.root / 'runs').iterdir()))
        # Sets the trace folder with the variable that a launcher passes to its ranks, unless the command sets it.
        environment = dict(self.environment)
        if '--trace ' not in text:
            environment['LOCKSTEP_RUN'] = f'{run}\n{self.root}/runs/{run}'
        process = subprocess.Popen(['bash', '-c', actual], cwd=self.root, env=environment, text=True,
                                   errors='replace', stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, code = process.communicate(timeout=self.timeout)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, code = process.communicate()[0], 124
        except BaseException:    # interrupted: leave no process behind
            os.killpg(process.pid, signal.SIGKILL)
            raise
        print(f'  {time.monotonic() - begun:6.1f} s  {text}', file=sys.stderr, flush=True)
        if not text.startswith('cmp'):
            self.outputs[text] = output, code
        return output, code
