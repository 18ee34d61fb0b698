"""Small real processes for the tests of supervision, and how to wait for what they do."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from soulsgui.runner.services.outcome import RestartLimits
from soulsgui.runner.services.service import Health, ServiceSpec
from tests.faults import waiting
from tests.faults.waiting import LIMIT_S

T = TypeVar("T")

QUICK = RestartLimits(first_delay_s=0.01, longest_delay_s=0.05, farewell_wait_s=0.1)

OBEDIENT = "import time; print('ready', flush=True); time.sleep(600)"
"""Ends at SIGTERM."""

POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print('goodbye', flush=True), sys.exit(0)))
print('ready', flush=True)
while True: time.sleep(600)
"""
"""Ends at SIGTERM with exit code 0."""

FAILING = "import sys; print('no such device: /dev/gpu7', file=sys.stderr); sys.exit(1)"

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'
grandchild = subprocess.Popen([sys.executable, '-I', '-S', '-c', code])
print('grandchild', grandchild.pid, flush=True)
print('ready', flush=True)
while True: time.sleep(600)
"""
"""Ignores SIGTERM, and so does the grandchild it starts in its own session."""

PARENT = """
import subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)'])
print('grandchild', grandchild.pid, flush=True)
print('ready', flush=True)
time.sleep(600)
"""
"""Has a child of its own that outlives it when it is killed."""

APART = PARENT.replace("600)'])", "600)'], start_new_session=True)")
"""Has a child with the same environment, in a session and a group of its own."""


def command(script: str) -> tuple[str, ...]:
    """Command line of a script; an isolated interpreter starts quickest."""
    return (sys.executable, "-I", "-S", "-c", script)


def spec(
    folder: Path,
    script: str = OBEDIENT,
    name: str = "worker",
    health: Callable[[], Health] | None = None,
    **fields: object,
) -> ServiceSpec:
    """A service that runs a script; it is ready when its log says so, and not killed for ending slowly."""
    log = folder / "logs" / f"{name}.log"
    usual = {"name": name, "kind": "client", "argv": command(script), "tier": 1, "log_path": log}
    usual |= {"grace_s": LIMIT_S}
    health = health or (lambda: Health(ready="ready" in text_of(log)))
    return ServiceSpec(**usual | fields, health=health)  # type: ignore[arg-type]


def text_of(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def grandchild_of(log: Path) -> int:
    """Pid that the newest process of a log named."""
    return int(text_of(log).rpartition("grandchild ")[2].split()[0])


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until(condition: Callable[[], object]) -> None:
    """Return when a condition holds; fail when it never does."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.01)


def until_now(condition: Callable[[], T], limit_s: float = LIMIT_S) -> T:
    """The same without an event loop, for what is often a request; returns what was true."""
    return waiting.until(condition, "what is awaited", limit_s, every_s=0.05)


@dataclass
class Events:
    told: list[tuple[str, str, str, str, str]] = field(default_factory=list)

    def __call__(self, level: str, what: str, cause: str, remedy: str, service: str) -> None:
        self.told.append((level, what, cause, remedy, service))

    def of(self, level: str) -> list[tuple[str, str, str, str, str]]:
        return [event for event in self.told if event[0] == level]


def kill(pid: int | None) -> None:
    assert pid is not None
    psutil.Process(pid).kill()
