"""Faults of the viewer."""

import time

from checked_runs import GRACE, HANG, VIEWER_PATIENCE, CheckedRuns
from viewer import Viewer


class Viewers(CheckedRuns):
    def watched(self, draw, folder, viewer, manner):
        launch = draw.choice(('threads', 'mpi'))
        run, result = self.start(draw, folder, launch, '--parity', 'off', '--steps', '30', '--view',
                                 f'127.0.0.1:{viewer.port}')
        result.what += f': a viewer that is {manner}'
        return run, result

    def seen_through(self, run, result, viewer, since, allowed, complete):
        """The run must succeed and its trace must be complete; if `complete`, the viewer must hold the whole trace."""
        self.finish(run, result, since, allowed)
        self.good(run, result)
        result.problems += run.trace_problems(run.count, whole=range(run.count))
        deadline = time.monotonic() + 10    # the last bytes may still be on their way
        while complete and not viewer.drained(run, run.count) and time.monotonic() < deadline:
            time.sleep(0.01)
        if complete:
            result.check(viewer.drained(run, run.count), 'the viewer lacks a part of the trace')
        viewer.close()
        return result

    def viewer_killed(self, draw, folder):
        viewer = Viewer()
        viewer.open()
        run, result = self.watched(draw, folder, viewer, 'killed and restarted')
        for _ in range(draw.randrange(1, 5)):
            run.wait(draw.uniform(0.1, 0.5))
            if all(run.has_ended_trace(rank) for rank in range(run.count)) or run.over():
                break
            viewer.kill()
            run.wait(draw.uniform(0, 0.3))
            viewer.open()
        return self.seen_through(run, result, viewer, time.monotonic(), HANG, complete=True)

    def viewer_late(self, draw, folder):
        viewer = Viewer()
        run, result = self.watched(draw, folder, viewer, 'late')
        self.trains(run, draw.randrange(1000, 60000))
        viewer.open()
        return self.seen_through(run, result, viewer, time.monotonic(), HANG, complete=True)

    def viewer_deaf(self, draw, folder):
        return self.silent(draw, folder, 'deaf')

    def viewer_half_open(self, draw, folder):
        return self.silent(draw, folder, draw.choice(('half-open', 'backlog')))

    def silent(self, draw, folder, manner):
        viewer = Viewer(manner)
        viewer.open()
        run, result = self.watched(draw, folder, viewer, manner)
        run.until(lambda: all(run.has_ended_trace(rank) for rank in range(run.count)))
        return self.seen_through(run, result, viewer, time.monotonic(), VIEWER_PATIENCE + GRACE, complete=False)
