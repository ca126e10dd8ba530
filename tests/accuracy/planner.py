"""Runs the planner on configurations in which nothing is left to search."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile

BUILD = pathlib.Path(__file__).resolve().parents[2] / 'build' / 'release'


class Planner:
    """Runs several plans at a time, and remembers each under the program, its flags and the cluster."""

    def __init__(self, build=BUILD, jobs=2):
        self.program = pathlib.Path(build) / 'lessons' / 'lockstep_plan'
        self.version = hashlib.sha256(self.program.read_bytes()).hexdigest()
        self.jobs = jobs
        self.file = pathlib.Path(build) / 'plans.json'
        self.known = json.loads(self.file.read_text()) if self.file.exists() else {}

    def plans(self, configurations, cluster):
        """Returns the plan of each configuration, a dictionary of flags without their hyphens.

        The cluster is the name of a preset, a file, or a dictionary. A plan is one of those of the planner's report,
        whose other figures, those about the task, it has under "task". Memory is no limit, because published runs need no more than their
        cards have.
        """
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(cluster, dict):
                file = pathlib.Path(folder) / 'cluster.json'
                file.write_text(json.dumps(cluster))
                cluster = str(file)
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                found = list(pool.map(lambda flags: self.plan(flags, cluster, folder), configurations))
        new = self.file.with_suffix(f'.{os.getpid()}')
        new.write_text(json.dumps(self.known))
        new.replace(self.file)
        return found

    def plan(self, flags, cluster, folder):
        content = pathlib.Path(cluster).read_text() if os.path.exists(cluster) else cluster
        key = hashlib.sha256(json.dumps([self.version, flags, content]).encode()).hexdigest()
        if key not in self.known:
            report = os.path.join(folder, key)
            words = [f'--{flag}={value}' for flag, value in flags.items()]
            done = subprocess.run([self.program, *words, '--cluster', cluster, '--memory', '100TB', '--report', report],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
            with open(report) as file:
                content = json.load(file)
            plans = content.pop('plans')
            if len(plans) != 1:
                raise RuntimeError(f"{' '.join(words)} leaves {len(plans)} plans to choose from")
            self.known[key] = {**plans[0], 'task': content}
        return self.known[key]
