"""A window with a probe in it, for `benchmarks.window`: it tells by lines of JSON what it sees.

It stands alone, so that the window's process holds nothing that a real one does not.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from PySide6.QtCore import QObject, QSocketNotifier, QTimer

from soulsgui.config.paths import Folders
from soulsgui.gui import app
from soulsgui.gui.feed import Feed
from soulsgui.gui.plotting.host import PlotHost
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.wire.control import RunSummary

_PROBE_MS = 10


def _tell(**told: object) -> None:
    print(json.dumps(told), flush=True)


class Probe(QObject):
    """Tells when the window is there, and each second what it took; a line typed says what it is to show.

    What it looks at again and again, `plot` or `gaps`, keeps the window from resting.
    """

    def __init__(self, window: MainWindow, theme: Theme, looks_at: str) -> None:
        super().__init__(window)
        self._theme = theme
        self._process = psutil.Process()
        self._window, self._gap_ms, self._busy_ms = window, 0.0, 0.0
        self._last = time.perf_counter(), time.thread_time()
        window.first_shown.connect(lambda: _tell(shown=time.time()))
        self._plot, self._beat = QTimer(self, interval=_PROBE_MS), QTimer(self, interval=_PROBE_MS)
        self._plot.timeout.connect(self._look_for_plot)
        self._beat.timeout.connect(self._look_at_gap)
        if looks_at:
            self._plot.start()
        if looks_at == "gaps":
            self._beat.start()
        self._each = QTimer(self, interval=1000)
        self._each.timeout.connect(self._tell_second)
        self._each.start()
        self._typed = QSocketNotifier(sys.stdin.fileno(), QSocketNotifier.Type.Read, self)
        self._typed.activated.connect(self._show)

    def _look_for_plot(self) -> None:
        if any(host.plot is not None for host in self._window.findChildren(PlotHost)):
            self._plot.stop()
            _tell(plot=time.time())

    def _look_at_gap(self) -> None:
        now = time.perf_counter(), time.thread_time()
        passed_s, taken_s = (after - before for before, after in zip(self._last, now, strict=True))
        self._gap_ms = max(self._gap_ms, 1e3 * passed_s - _PROBE_MS)
        self._busy_ms = max(self._busy_ms, 1e3 * taken_s)
        self._last = now

    def _tell_second(self) -> None:
        memory_mb = self._process.memory_info().rss / 1e6
        gaps = {"gap_ms": self._gap_ms, "busy_ms": self._busy_ms}
        _tell(**gaps, cpu_s=time.process_time(), memory_mb=memory_mb)
        self._gap_ms = self._busy_ms = 0.0

    def _show(self) -> None:
        wanted = json.loads(sys.stdin.readline() or "{}")
        if "page" in wanted:
            self._window.show_page(wanted["page"], **wanted["where"])
        elif "player" in wanted:
            self._window.open_player(RunSummary(id=wanted["player"]))
        elif "theme" in wanted:
            self._theme.choose(ThemeChoice(wanted["theme"]))
        else:
            self._window.close()


class Probed(MainWindow):
    """A window with a probe."""

    def __init__(self, feed: Feed, theme: Theme, *more: Any) -> None:
        super().__init__(feed, theme, *more)
        self.probe = Probe(self, theme, sys.argv[3])


def main() -> int:
    """Be that window; told by arguments are the folders of configuration and data, and what it looks at."""
    vars(app)["MainWindow"] = Probed
    return app.run_window(Folders(Path(sys.argv[1]), Path(sys.argv[2])))
