"""Storing episodes, with and without a sink at work, and reading the curve of a long run: all, and a part.

In processor time, which other work beside it hardly changes: both sides are one thread that seldom waits.

python -m benchmarks.telemetry [--json] [--quick]
"""

import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.report import Measured, beside, run
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.telemetry.intake import Arrival
from soulsgui.telemetry.recorder import Recorder
from soulsgui.telemetry.store import query_history
from soulsgui.wire.access import Address
from soulsgui.wire.control import HistoryQueryParams
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.metrics import AttemptRow
from soulsgui.wire.messages.session import Episode

RUN = "2026-11-20_10-00-00"
_BATCH = 500
_START = AttemptRow(run_id=RUN, attempt=1, update=0, env_steps=0, episodes=0, model_id=0, time=0.0)


def _batches(count: int) -> Iterator[list[Arrival]]:
    rng = np.random.default_rng(0)
    for first in range(0, count, _BATCH):
        returns = rng.integers(1, 500, _BATCH)
        yield [
            Arrival(
                f"client-{number % 4}",
                EntryId(1000, first + number),
                Episode(
                    run_id=RUN,
                    attempt=1,
                    number=first + number,
                    env_index=0,
                    total_return=float(value),
                    length=int(value),
                    terminated=True,
                    model_id=first // 100,
                    seconds=0.1,
                ),
            )
            for number, value in enumerate(returns)
        ]


def record(path: Path, count: int) -> float:
    """Store episodes as the telemetry node does; return how many a second."""
    recorder, taken = Recorder(path, RUN, 20, None), 0.0
    recorder.record([_START], [], EntryId(1, 1), 0.0)
    for number, batch in enumerate(_batches(count)):
        began = time.process_time()
        recorder.record([], batch, EntryId(1, 1), float(number))
        taken += time.process_time() - began
    recorder.close()
    return count / taken


def _insert(path: Path, count: int) -> float:
    """Insert the same episodes into a table that has what a curve needs; return how many a second."""
    taken = 0.0
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(
            "CREATE TABLE episodes (client TEXT, entry TEXT, value REAL, length INT, UNIQUE (client, entry))"
        )
        for batch in _batches(count):
            began = time.process_time()
            db.execute("BEGIN")
            db.executemany(
                "INSERT INTO episodes VALUES (?, ?, ?, ?)",
                ((client, str(entry), one.total_return, one.length) for client, entry, one in batch),
            )
            db.execute("COMMIT")
            taken += time.process_time() - began
    return count / taken


def _record_beside_sink(path: Path, count: int) -> float:
    """Store episodes while the sink for TensorBoard, a process of its own, follows the store."""
    run = RunFolder(path.parent / RUN)
    run.root.mkdir()
    run.config.write_text(Settings().model_dump_json())
    nobody = run.root / "redis.json"
    Address("127.0.0.1", 1).write(nobody)  # without a server nobody hears how the sink is
    words = ("sink", "tensorboard", "--run", str(run.root), "--server-file", str(nobody))
    process = subprocess.Popen([sys.executable, "-m", "soulsgui", *words], stderr=subprocess.DEVNULL)
    try:
        while not run.tensorboard.exists():
            time.sleep(0.05)
        return record(run.store, count)
    finally:
        process.kill()
        process.wait()


def _in_new_file(work: Callable[[Path, int], float], count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return work(Path(folder) / "telemetry.sqlite", count)


def _query_ms(path: Path, params: HistoryQueryParams) -> float:
    began = time.process_time()
    query_history(path, params)
    return 1e3 * (time.process_time() - began)


def _select_ms(path: Path, query: str) -> float:
    with closing(sqlite3.connect(path)) as db:
        began = time.process_time()
        db.execute(query).fetchall()
        return 1e3 * (time.process_time() - began)


def measure(quick: bool) -> list[Measured]:
    """Measure storing, then reading a run of a million episodes."""
    repeats, count, stored = (3, 100_000, 10_000) if quick else (7, 1_000_000, 50_000)
    found = [
        beside(
            f"episodes stored, {_BATCH} at a time",
            "a second of processor time",
            partial(_in_new_file, record, stored),
            "bare INSERT of four of their columns",
            partial(_in_new_file, _insert, stored),
            repeats,
        )
    ]
    found.append(
        beside(
            f"episodes stored, {_BATCH} at a time, beside a sink",
            "a second of processor time",
            partial(_in_new_file, _record_beside_sink, stored),
            "the same without a sink",
            partial(_in_new_file, record, stored),
            repeats,
        )
    )
    scan = "SELECT min(total_return), max(total_return), avg(total_return) FROM episodes"
    every = "SELECT episode, env_steps, time, total_return FROM episodes"
    first = f" WHERE row <= {count // 100}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "telemetry.sqlite"
        record(path, count)
        for name, params, reference_name, reference in (
            ("the whole run", HistoryQueryParams(), "one scan of one column", scan),
            ("the whole run over steps", HistoryQueryParams(x="env_step"), "SELECT of every row", every),
            ("its first hundredth", HistoryQueryParams(end=count / 100), "SELECT of its rows", every + first),
        ):
            ours, its = partial(_query_ms, path, params), partial(_select_ms, path, reference)
            found.append(
                beside(
                    f"{name} of {count:,} episodes",
                    "ms of processor time",
                    ours,
                    reference_name,
                    its,
                    repeats,
                )
            )
    return found


if __name__ == "__main__":
    run(measure)
