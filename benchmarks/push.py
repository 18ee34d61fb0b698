"""What a push costs the thread that steps the environments, against appending the same bytes to a deque."""

import collections
import collections.abc
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.ingest import packed, segment
from benchmarks.report import Measured, run
from soulsgui.sampling.progress import Progress
from soulsgui.sampling.uploader import Uploader
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import Address
from tests.servers import running_server

STEPS = 64


def measure(quick: bool) -> list[Measured]:
    """Measure the median and the 99th percentile of a push, in microseconds."""
    count, repeats = (2_000, 3) if quick else (20_000, 5)
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as address:
        runs = [_once(address, count) for _ in range(repeats)]
    return [_figure(name, [one[name] for one in runs]) for name in ("p50", "p99")]


def _once(address: Address, count: int) -> dict[str, tuple[float, float]]:
    """Return our time and the reference's, in microseconds, by quantile."""
    payload = packed(segment(STEPS, 1))
    progress = Progress("bench", own_instance(), 1, {})
    uploader = Uploader(address, progress, "c", 2**34, lambda: None)
    uploader.start()
    ours = _times(lambda: uploader.push_chunk(payload, STEPS), count)
    uploader.close()
    line: collections.deque[bytes] = collections.deque()
    limit = _times(lambda: line.append(payload), count)
    return {
        name: (float(np.percentile(ours, quantile)), float(np.percentile(limit, quantile)))
        for name, quantile in (("p50", 50), ("p99", 99))
    }


def _times(push: collections.abc.Callable[[], object], count: int) -> list[float]:
    """Return the microseconds of each call, with a pause between them as between steps."""
    times = []
    for _ in range(count):
        began = time.perf_counter_ns()
        push()
        times.append((time.perf_counter_ns() - began) / 1000)
        time.sleep(0.0002)
    return times


def _figure(name: str, pairs: list[tuple[float, float]]) -> Measured:
    value, limit = (float(np.median(side)) for side in zip(*pairs, strict=True))
    return Measured(f"push of a chunk, {name}", value, "µs", limit, "deque.append", value / limit, len(pairs))


if __name__ == "__main__":
    run(measure)
