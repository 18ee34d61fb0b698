"""Having telemetry.json and telemetry.png made, by a child process that alone imports matplotlib."""

import logging
import os
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path

from soulsgui.config.paths import RunFolder
from soulsgui.errors import SoulsGuiError
from soulsgui.process import child_env, own_command
from soulsgui.telemetry.export import write_series
from soulsgui.telemetry.figure import AHEAD, NO_MATPLOTLIB

logger = logging.getLogger(__name__)

PROGRAM = (*own_command("job"), "figure")


class Drawing:
    """At most one drawing child at a time.

    A child draws when its standard input ends: one started ahead has its imports behind it by then, and one
    whose parent was killed draws and ends by itself.

    Args:
        run_dir: The run's folder.
        every: Episodes between two drawings.
        drawn: Episodes drawn already.
        program: What draws; the run's folder is added to it.
    """

    def __init__(self, run_dir: Path, every: int, drawn: int, program: Sequence[str] = PROGRAM) -> None:
        self._run_dir = run_dir
        self._every = every
        self._drawn = drawn
        self._program = program
        self._child: subprocess.Popen[bytes] | None = None
        self._ahead = False
        self._warned = False

    def turn(self, episodes: int, ends_soon: bool) -> None:
        """Start or clear away a child when it is time.

        Args:
            episodes: Episodes stored.
            ends_soon: Whether the last drawing is near: a child is started ahead for it.
        """
        if self._child is not None and self._child.poll() is not None:
            self._cleared()
        if self._ahead and not ends_soon:
            self._go()  # a new attempt began: the end is not near any more
            self._ahead = False
        if self._child is not None:
            return
        if ends_soon:
            self._start(AHEAD)
            self._ahead = self._child is not None
        elif episodes // self._every > self._drawn // self._every:
            self._start()
            self._go()
            self._drawn = episodes

    def finish(self, limit_s: float) -> None:
        """Draw what is in the store now, and wait for it; telemetry.json is whole in any case.

        Args:
            limit_s: Longest wait; a child that takes longer is ended.
        """
        if not self._drew(limit_s):
            self._write_series()

    def _drew(self, limit_s: float) -> bool:
        """Have the last child draw; return whether it has written telemetry.json."""
        if self._child is not None and (not self._ahead or self._child.poll() is not None):
            self._child.kill()  # it may have read the store too early
            self._child.wait()
            self._go()
            self._child = None
        if self._child is None:
            self._start()
        self._go()
        if self._child is None:
            return False
        try:
            code = self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            logger.warning("the figure took longer than %.0f s: telemetry.png is left as it was", limit_s)
            self._child.kill()
            self._child.wait()
            self._child = None
            return False
        self._cleared()
        return code in (0, NO_MATPLOTLIB)

    def _write_series(self) -> None:
        try:
            write_series(RunFolder(self._run_dir))
        except (SoulsGuiError, OSError, sqlite3.Error) as error:
            logger.warning("telemetry.json is left as it was: %s", error)

    def _start(self, *arguments: str) -> None:
        command = [*self._program, str(self._run_dir), *arguments]
        try:
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | child_env())
        except OSError as error:
            self._warn(f"no figure: {error}")
        self._ahead = False

    def _go(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def _cleared(self) -> None:
        assert self._child is not None
        code = self._child.returncode
        self._go()
        self._child = None
        self._ahead = False
        if code == NO_MATPLOTLIB:
            self._warn(
                'no figure: matplotlib is missing (pip install "soulsgui[server]"); telemetry.json is written'
            )
        elif code != 0:
            self._warn(f"the figure could not be drawn: its process ended with code {code}")

    def _warn(self, what: str) -> None:
        if not self._warned:
            logger.warning("%s", what)
        self._warned = True
