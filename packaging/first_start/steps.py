"""Runs the commands of a set-up, with everything they write in the log."""

import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from first_start.failure import StepFailed, explain, this_machine
from first_start.progress import Console, Progress

CONSTRAINTS = "packaging/constraints.txt"
_GRACE_S = 10.0


def clean_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would lead Python or pip out of `.venv`."""
    leads_away = {"PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "__PYVENV_LAUNCHER__"}
    return {key: value for key, value in env.items() if key not in leads_away}


def pip_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of pip, which runs in the project's folder: relative paths bear spaces in its name."""
    return clean_environment(env) | {
        "PIP_CONSTRAINT": CONSTRAINTS,
        "PIP_BUILD_CONSTRAINT": CONSTRAINTS,
        "PIP_USER": "0",
        "PIP_NO_INPUT": "1",
        "PIP_PROGRESS_BAR": "off",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONUNBUFFERED": "1",
    }


class Steps:
    """Runs one command after the other.

    Args:
        folder: Where they run.
        log: The open log.
        console: Where to speak.
        shared: A descriptor that the commands hold too. It is the lock's: when the set-up is killed, the lock
            lives on as long as pip does.
    """

    def __init__(self, folder: Path, log: IO[str], console: Console, shared: int) -> None:
        self._folder, self._log, self._console, self._shared = folder, log, console, shared

    def run(self, command: Sequence[str], env: Mapping[str, str], progress: Progress | None = None) -> None:
        """Run a command to its end.

        Raises:
            StepFailed: It failed; says why.
        """
        self._log.write(f"\n$ {' '.join(command)}\n")
        child = subprocess.Popen(
            command,
            cwd=self._folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            pass_fds=() if sys.platform == "win32" else (self._shared,),
        )
        try:
            output = self._follow(child, progress)
        finally:
            _end(child)
        if child.returncode != 0:
            raise explain(output, this_machine())

    def works(self, command: Sequence[str], env: Mapping[str, str]) -> bool:
        """Whether a command can be started and succeeds."""
        try:
            self.run(command, env)
        except (StepFailed, OSError):
            return False
        return True

    def _follow(self, child: subprocess.Popen[str], progress: Progress | None) -> str:
        assert child.stdout is not None
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_pump, args=(child.stdout, lines), daemon=True).start()
        output: list[str] = []
        while True:
            try:
                line = lines.get(timeout=1.0)
            except queue.Empty:
                line = ""  # nothing new, but the seconds shown move
            if line is None:
                child.wait()
                return "".join(output)
            output.append(line)
            self._log.write(line)
            self._log.flush()
            if progress:
                notable = progress.feed(line)
                self._console.show(progress.text, notable=notable)


def _pump(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
