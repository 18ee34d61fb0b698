"""From the command `serve` to the first update, against importing torch alone."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Measured, beside, run
from tests.end_to_end.server import RunningServer, wait_for


def first_update_s() -> float:
    """Return the seconds from starting the runner to the first update of the shipped run."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        server = RunningServer(Path(folder), (), draws=True)
        try:
            wait_for(lambda: server.status().run.updates >= 1, "the first update", 60)
            return time.perf_counter() - began
        finally:
            server.close()


def import_s(module: str) -> float:
    """Return the seconds a new Python takes to import a module."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - began


def status_s(folder: Path) -> float:
    """Return the seconds of `soulsgui status` beside a running server."""
    began = time.perf_counter()
    places = ["--config-dir", str(folder / "config"), "--data-dir", str(folder / "data")]
    subprocess.run(
        [sys.executable, "-m", "soulsgui", "status", *places], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - began


def measure(quick: bool) -> list[Measured]:
    """Measure both."""
    repeats = 3 if quick else 5
    start = beside(
        "serve to the first update", "s", first_update_s, "import torch", lambda: import_s("torch"), repeats
    )
    with tempfile.TemporaryDirectory() as folder:
        server = RunningServer(Path(folder), draws=True)
        try:
            status = beside(
                "soulsgui status",
                "s",
                lambda: status_s(Path(folder)),
                "python -c 'import json'",
                lambda: import_s("json"),
                repeats,
            )
        finally:
            server.close()
    return [start, status]


if __name__ == "__main__":
    run(measure)
