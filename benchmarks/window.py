"""The window as a process beside a server: its start, what it takes at rest, and how long it is busy at once.

It is started as its user would start it, with a probe inside that tells by lines of JSON what it sees; drawn
by software, on no screen. Its last part has a thousand simulated clients report while a run of a million
episodes is open and an agent is watched. The table of the clients alone is `benchmarks.clients_table`.

python -m benchmarks.window [--json] [--quick]
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np

from benchmarks.report import Measured, beside, run
from benchmarks.telemetry import RUN, record
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.gui.shell.runner_link import server_place
from soulsgui.system import hold_back
from tests.end_to_end.server import RunningServer, wait_for

_WIDTH, _HEIGHT = 1200, 600
_ALLOWED = {"start": 0.8, "plot": 1.2, "rest": 0.01, "training": 0.05, "memory": 150.0, "gap": 50.0}
"""Seconds, parts of a core, MB and milliseconds: what a window may take (PERFORMANCE)."""
_TRAINS = (
    "--preset", "cartpole_dqn", "--local-clients", "4", "--set", "stop.mean_return=null",
    "--set", "client.step_delay=0.01",
)  # fmt: skip


class Window:
    """A window beside a server, and what its probe tells.

    Args:
        server: The server that it shows.
        looks_at: What its probe looks at again and again, which keeps it from resting: `plot` until there is
            one; `gaps` of its event loop, too; empty for nothing.
    """

    def __init__(self, server: RunningServer, looks_at: str = "") -> None:
        config, data = server.folder / "config", server.data
        # Before its imports, as the command `gui` does.
        code = "import gc; gc.disable(); from benchmarks.window_probe import main; main()"
        self._began = time.time()
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, config, data, looks_at],
            env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def told(self, name: str) -> Any:
        """Return the next thing of that name that the probe tells."""
        return self._line(name)[name]

    def _line(self, name: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found: dict[str, Any] = json.loads(line)
            if name in found:
                return found
        raise RuntimeError(f"the window has ended with {self._process.wait()} before it told of {name}")

    def after_s(self, name: str) -> float:
        """Return after how many seconds it told something that it tells once."""
        return float(self.told(name)) - self._began

    def show(self, **wanted: object) -> None:
        """Have it show a page, a player, or another theme."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()

    def seconds(self, name: str, count: int) -> list[float]:
        """Return what it tells in each of so many seconds."""
        return [float(self.told(name)) for _ in range(count)]

    def gaps_ms(self, count: int) -> tuple[list[float], list[float]]:
        """Return each second's longest gap of its event loop, by the clock and by the processor."""
        found = [self._line("gap_ms") for _ in range(count)]
        return [line["gap_ms"] for line in found], [line["busy_ms"] for line in found]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def _server(folder: Path, *words: str) -> Iterator[RunningServer]:
    server = RunningServer(folder, words, draws=True)
    # As one that a window starts. The simulated clients are not: they stand for other computers.
    hold_back(server.process.pid, nice=server_place(Folders(server.folder, server.data)).nice)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def _window(server: RunningServer, looks_at: str = "") -> Iterator[Window]:
    window = Window(server, looks_at)
    try:
        yield window
    finally:
        window.close()


def _start_s(server: RunningServer, until: str) -> float:
    with _window(server, "plot") as window:
        return window.after_s(until)


def _import_s() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import PySide6.QtWidgets, pyqtgraph"], check=True)
    return time.perf_counter() - began


_LIBRARIES = """
import numpy, psutil, pyqtgraph
from PySide6.QtNetwork import QNetworkAccessManager
from PySide6.QtSvg import QSvgRenderer
import aiohttp, pydantic, qasync

app = pyqtgraph.mkQApp()
plot = pyqtgraph.PlotWidget()
plot.show()
plot.plot(numpy.arange(1000.0))
app.processEvents()
print(psutil.Process().memory_info().rss / 1e6)
"""


def _libraries_mb() -> float:
    words = [sys.executable, "-c", _LIBRARIES]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def _share_of_core(server: RunningServer, seconds: int) -> float:
    """Return which part of a core a window takes that nobody touches, once it has settled."""
    with _window(server) as window:
        window.seconds("cpu_s", 10)
        taken = window.seconds("cpu_s", seconds + 1)
        return (taken[-1] - taken[0]) / seconds


def _frames_ms(episodes: int, repeats: int) -> Iterator[tuple[float, float]]:
    """Yield what a picture of a curve of episodes takes: of ours, and of pyqtgraph's own curve."""
    import pyqtgraph as pg
    from PySide6.QtWidgets import QApplication

    from soulsgui.gui.plotting.plot import Plot
    from soulsgui.gui.plotting.series import Series
    from soulsgui.telemetry.store import query_history
    from soulsgui.wire.control import HistoryQueryParams

    app = QApplication.instance() or QApplication([])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "telemetry.sqlite"
        record(path, episodes)
        history = query_history(path, HistoryQueryParams(points=episodes // 100))
    plot, series = Plot(), Series(RUN)
    series.load(history)
    plot.resize(_WIDTH, _HEIGHT)
    plot.show()
    plot.show_series([(series, "run", 0)])
    values = np.random.default_rng(0).integers(1, 500, episodes).astype(float)
    plain = pg.PlotWidget()
    plain.resize(_WIDTH, _HEIGHT)
    plain.show()
    curve = plain.plot(values)
    curve.setDownsampling(auto=True, method="peak")
    curve.setClipToView(True)
    app.processEvents()

    def draw() -> None:
        series.load(history)
        plot._draw()

    def picture(draw: Callable[[], object], widget: Any) -> float:
        began = time.perf_counter()
        draw()
        widget.grab()
        return 1e3 * (time.perf_counter() - began)

    for _ in range(repeats):
        yield picture(draw, plot), picture(lambda: curve.setData(values), plain)


def _hand_gaps_ms(server: RunningServer) -> Iterator[tuple[str, float]]:
    """Yield what its user does, and how long the window is busy at once with it."""
    with _window(server, "gaps") as window:
        window.told("plot")
        window.seconds("gap_ms", 3)
        for page in ("clients", "plots", "runs", "config", "logs"):
            window.show(page=page, where={})
            yield f"the page {page} is opened", max(window.seconds("gap_ms", 3))
        for theme in ("dark", "light"):
            window.show(theme=theme)
            yield f"the theme becomes {theme}", max(window.seconds("gap_ms", 3))


def _loaded(folder: Path, quick: bool) -> tuple[list[float], list[float], float]:
    """Return each second's longest gap under load, of the clock and of processor, and the memory in MB."""
    with _server(folder, *_TRAINS) as server:
        server.wait_updates(50)
        large = RunFolder(server.data / "runs" / RUN)
        now = RunFolder(server.data / "runs" / server.status().run.id)
        large.root.mkdir()
        for part in (now.config, now.root / "run.json", now.root / "spaces.json"):
            (large.root / part.name).write_bytes(part.read_bytes())
        record(large.store, 50_000 if quick else 1_000_000)
        server.spawn("client", "--simulate", "100" if quick else "1000", "--rate", "1")
        wait_for(lambda: len(server.status().clients) > (100 if quick else 1000), "all clients report", 300)
        with _window(server, "gaps") as window:
            window.told("plot")
            window.show(page="plots", where={"run": RUN, "metric": "return"})
            window.show(player=server.status().run.id)
            window.seconds("gap_ms", 10)
            gaps_ms, busy_ms = window.gaps_ms(5 if quick else 60)
            return gaps_ms, busy_ms, float(window.told("memory_mb"))


def measure(quick: bool) -> list[Measured]:
    """Measure it, each beside what is allowed or what takes as long by itself."""
    repeats, rests_s = (1, 5) if quick else (5, 20)
    found = []

    def allow(name: str, unit: str, ours: Callable[[], float], what: str, times: int = repeats) -> None:
        found.append(beside(name, unit, ours, "allowed", lambda: _ALLOWED[what], times))

    with tempfile.TemporaryDirectory() as folder, _server(Path(folder), "--idle") as server:
        start = partial(_start_s, server, "shown")
        found.append(beside("start to a window", "s", start, "import Qt and pyqtgraph", _import_s, repeats))
        allow("start to a window", "s", start, "start")
        allow("at rest, nothing runs", "of a core", partial(_share_of_core, server, rests_s), "rest", 1)
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder), *_TRAINS) as server:
        server.wait_updates(50)
        to_plot, share = partial(_start_s, server, "plot"), partial(_share_of_core, server, rests_s)
        allow("at rest, four clients play", "of a core", share, "training", 1)
        allow("start to its plot, four clients play", "s", to_plot, "plot")
        server.api.command("run.pause", {})
        wait_for(lambda: server.status().run.state == "paused", "the run pauses")
        allow("start to its plot, the run is paused", "s", to_plot, "plot")
        for what, gap_ms in _hand_gaps_ms(server):
            allow(f"gap of the event loop, {what}", "ms", lambda value=gap_ms: value, "gap", 1)  # type: ignore[misc]
    episodes = 100_000 if quick else 1_000_000
    pairs = _frames_ms(episodes, repeats)
    ours, plain = (iter(side) for side in zip(*pairs, strict=True))
    name = f"a picture of {episodes:,} episodes"
    found.append(
        beside(name, "ms", lambda: next(ours), "pyqtgraph, downsampled", lambda: next(plain), repeats)
    )
    with tempfile.TemporaryDirectory() as folder:
        gaps_ms, busy_ms, memory = _loaded(Path(folder), quick)
    for name, value in (
        ("longest", max(gaps_ms)),
        ("median of each second's longest", float(np.median(gaps_ms))),
        ("longest of processor", max(busy_ms)),
    ):
        allow(f"gap of the event loop under load, {name}", "ms", lambda value=value: value, "gap", 1)  # type: ignore[misc]
    allow("memory under load", "MB", lambda: memory, "memory", 1)
    libraries = "the libraries and an empty plot"
    found.append(beside("memory under load", "MB", lambda: memory, libraries, _libraries_mb, 1))
    return found


if __name__ == "__main__":
    run(measure)
