"""What an evaluation that somebody asked for costs the trainer: its updates a second beside one and alone.

Trainer and client take both cores of a small server, so that whatever an evaluation takes is taken from them.
A bare loop of the idle class tells how much of that is the computer's, whose cores share caches.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.report import Measured, beside, run
from soulsgui.wire.control import Job
from tests.end_to_end.server import RunningServer, wait_for

_WORDS = ("--preset", "cartpole_dqn", "--local-clients", "1", "--set", "stop.mean_return=null",
          "--set", "evaluation.every_updates=0", "--set", "stop.judged_by=training")  # fmt: skip
_WARMED_UP = 2000
_LOOP = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
_KINDS = {"played": {"episodes": 10_000}, "filmed": {"episodes": 1000, "video": "any"}}


@contextmanager
def evaluating(server: RunningServer, params: dict[str, object]) -> Iterator[None]:
    """Let an evaluation play, which is cancelled at the end."""
    asked = {"checkpoint": "newest", **params}
    job = Job.model_validate(server.api.command("checkpoint.evaluate", asked))
    wait_for(lambda: "made" in server.api.job(job.id).progress, "it plays")
    try:
        yield
        ended = server.api.job(job.id)
        if ended.state != "running":
            raise RuntimeError(f"the evaluation ended too soon: {ended}")
    finally:
        server.api.command("job.cancel", {"job": job.id})
    wait_for(lambda: server.api.job(job.id).state != "running", "it is cancelled")


@contextmanager
def looping() -> Iterator[None]:
    """Let a bare loop have what nobody else wants of the cores."""
    loop = subprocess.Popen([sys.executable, "-c", _LOOP])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def rate(server: RunningServer, seconds: float) -> float:
    """Return the trainer's updates per second, over so long."""
    before, began = server.status().run.updates, time.perf_counter()
    time.sleep(seconds)
    return (server.status().run.updates - before) / (time.perf_counter() - began)


def measure(quick: bool) -> list[Measured]:
    """Measure seven pairs of 15 seconds of each kind; three of 5 when quick."""
    repeats, seconds = (3, 5.0) if quick else (7, 15.0)

    def both(what: str, other: Callable[[], AbstractContextManager[None]]) -> Measured:
        def alone() -> float:
            return rate(server, seconds)

        def ours() -> float:
            with other():
                return alone()

        return beside(f"trainer while {what}", "updates/s", ours, "alone", alone, repeats)

    with (
        tempfile.TemporaryDirectory() as folder,
        closing(RunningServer(Path(folder), _WORDS, draws=True)) as server,
    ):
        server.wait_updates(_WARMED_UP)
        found = [both(f"a model is {kind}", partial(evaluating, server, _KINDS[kind])) for kind in _KINDS]
        if hasattr(os, "SCHED_IDLE"):
            found.append(both("a bare loop has the spare time", looping))
        return found


if __name__ == "__main__":
    run(measure)
