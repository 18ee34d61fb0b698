"""What an evaluation that somebody asked for costs the trainer: its updates a second beside one and alone.

Trainer and client take both cores of a small server, so that whatever an evaluation takes is taken from them.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.report import Measured, beside, run
from soulsgui.wire.control import Job
from tests.end_to_end.server import RunningServer, wait_for

_WORDS = ("--preset", "cartpole_dqn", "--local-clients", "1", "--set", "stop.mean_return=null",
          "--set", "evaluation.every_updates=0", "--set", "stop.judged_by=training")  # fmt: skip
_WARMED_UP = 2000
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


def rate(server: RunningServer, seconds: float) -> float:
    """Return the trainer's updates per second, over so long."""
    before, began = server.status().run.updates, time.perf_counter()
    time.sleep(seconds)
    return (server.status().run.updates - before) / (time.perf_counter() - began)


def measure(quick: bool) -> list[Measured]:
    """Measure seven pairs of 15 seconds of each kind; three of 5 when quick."""
    repeats, seconds = (3, 5.0) if quick else (7, 15.0)

    def both(kind: str) -> Measured:
        def ours() -> float:
            with evaluating(server, _KINDS[kind]):
                return rate(server, seconds)

        return beside(f"trainer while another model is {kind}", "updates/s", ours, "alone",
                      lambda: rate(server, seconds), repeats)  # fmt: skip

    with tempfile.TemporaryDirectory() as folder, closing(RunningServer(Path(folder), _WORDS)) as server:
        server.wait_updates(_WARMED_UP)
        return [both(kind) for kind in _KINDS]


if __name__ == "__main__":
    run(measure)
