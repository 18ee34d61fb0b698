"""Memory of every process of a run, against a Python that has imported torch."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.report import Measured, run
from tests.end_to_end.server import RunningServer

_SERVICES = ("client-1", "trainer", "telemetry")


def torch_mb() -> float:
    """Return the memory of a Python with torch and nothing else, in MB."""
    code = "import torch, psutil; print(psutil.Process().memory_info().rss)"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(told.stdout) / 1e6


def footprints_mb(updates: int) -> dict[str, float]:
    """Return the memory of each process after some updates, in MB."""
    found = _in_a_run(updates, {}, _SERVICES)
    # Clients run this network with torch.
    torch_policy = _in_a_run(updates, {"network.name": "mlp_layer_norm"}, ("client-1",))
    return found | {"client-1, with a torch policy": torch_policy["client-1"]}


def _in_a_run(updates: int, overrides: dict[str, Any], names: Sequence[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        server = RunningServer(Path(folder), draws=True)
        try:
            server.start_run(overrides=overrides)
            server.wait_updates(updates)
            found = {name: _rss_mb(server.pid(name)) for name in names}
            return found | {"runner": _rss_mb(server.process.pid)}
        finally:
            server.close()


def _rss_mb(pid: int | None) -> float:
    return psutil.Process(pid).memory_info().rss / 1e6 if pid is not None else float("nan")


def measure(quick: bool) -> list[Measured]:
    """Measure each process of the shipped run."""
    repeats = 1 if quick else 5
    runs = [footprints_mb(20 if quick else 100) for _ in range(repeats)]
    limit = median(torch_mb() for _ in range(repeats))
    return [
        Measured(
            f"memory of {name}",
            value := median(found[name] for found in runs),
            "MB",
            limit,
            "Python with torch imported",
            value / limit,
            repeats,
        )
        for name in runs[0]
    ]


if __name__ == "__main__":
    run(measure)
