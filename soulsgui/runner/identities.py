"""Who our services are: a record of each process, so that a later runner finds what an earlier one left.

A process is signalled only after its record was found to be wholly right; a pid alone proves nothing.
"""

import contextlib
import json
import logging
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import psutil

from soulsgui.system import (
    ProcessIdentity,
    kill_group,
    make_private,
    new_session_kwargs,
    same_process,
    started_process_identity,
    terminate_group,
    write_private,
)

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_GREATEST_PID = 2**31 - 1
_GREATEST_TIME = 2**63


@dataclass(frozen=True)
class ServiceRecord:
    """The identity of a service's process, as written right after it was started.

    Attributes:
        name: Name of the service.
        argv: Command line it was started with.
        identity: Which process it is.
    """

    name: str
    argv: tuple[str, ...]
    identity: ProcessIdentity

    @property
    def pid(self) -> int:
        """The process id, good for anything only while `lives()`."""
        return self.identity["pid"]

    def lives(self) -> bool:
        """Whether this very process still runs."""
        return same_process(self.identity)


class Identities:
    """The records of all services of one runner: one private file each.

    Args:
        state_dir: Folder of the runner; the records lie in `services/` below it.
    """

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "services"

    def write(self, name: str, argv: Sequence[str], pid: int) -> ServiceRecord | None:
        """Record a process that was just started.

        Returns:
            None when it has ended already.
        """
        identity = started_process_identity(pid)
        if identity is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        make_private(self._folder)
        record = {"name": name, "argv": list(argv), **identity}
        write_private(self._path(name), json.dumps(record).encode())
        return ServiceRecord(name, tuple(argv), identity)

    def read(self, name: str) -> ServiceRecord | None:
        """Return the record of a service, or None where there is no readable one."""
        return _read(self._path(name))

    def all(self) -> list[ServiceRecord]:
        """Return every readable record, by name."""
        found = (_read(path) for path in sorted(self._folder.glob("*.json")))
        return [record for record in found if record is not None]

    def forget(self, name: str) -> None:
        """Remove the record of a service that has ended."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} can't be the name of a service")
        return self._folder / f"{name}.json"


def _read(path: Path) -> ServiceRecord | None:
    try:
        fields = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    # The name of the file counts, not what a forged record says of itself.
    if not isinstance(fields, dict) or not _NAME.fullmatch(path.stem):
        return None
    identity = _identity(fields)
    argv = _strings(fields.get("argv"))
    if identity is None or argv is None:
        return None
    return ServiceRecord(path.stem, tuple(argv), identity)


def _identity(fields: Mapping[str, object]) -> ProcessIdentity | None:
    pid, start, boot = fields.get("pid"), fields.get("start_time"), fields.get("boot_id")
    cmdline = _strings(fields.get("cmdline"))
    if not isinstance(pid, int) or not isinstance(start, (int, float)) or not isinstance(boot, str):
        return None
    if cmdline is None or abs(pid) > _GREATEST_PID or not abs(start) < _GREATEST_TIME:
        return None
    return ProcessIdentity(pid=pid, start_time=float(start), boot_id=boot, cmdline=cmdline)


def _strings(value: object) -> list[str] | None:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return value
    return None


class ServiceProcess(Protocol):
    """A process that can be watched and ended, whoever started it."""

    pid: int
    """Its process id; it leads its process group."""

    started: float
    """When it was started, seconds since the epoch."""

    def ended(self) -> bool:
        """Whether it has ended."""

    def code(self) -> int | None:
        """Its return code as `subprocess` gives it; None when nobody can tell."""

    def terminate(self) -> None:
        """Ask it and its group to stop."""

    def kill(self) -> None:
        """End it and everything it started, at once; also when it has ended before its children."""


class OwnChild:
    """A process that this runner started and whose end it is told.

    Args:
        argv: Command line.
        output: Open file that becomes its standard output and error.
        env: Its whole environment.

    Raises:
        OSError: It can't be started.
    """

    def __init__(self, argv: Sequence[str], output: IO[bytes], env: Mapping[str, str]) -> None:
        self._child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            **new_session_kwargs(),
        )
        self.pid = self._child.pid
        self.started = time.time()

    def ended(self) -> bool:
        """Whether it has ended."""
        return self._child.poll() is not None

    def code(self) -> int | None:
        """Its return code; below zero for a signal."""
        return self._child.poll()

    def terminate(self) -> None:
        """Ask it and its group to stop."""
        if not self.ended():
            terminate_group(self.pid)

    def kill(self) -> None:
        """End it and everything it started, at once."""
        if self.ended():
            kill_leftovers(self.pid)
        else:
            kill_family(self.pid)


class Adopted:
    """A process that an earlier runner started: it is known by its record alone.

    Args:
        record: Its record. When that is not wholly right at this moment, nobody will ever be signalled.
    """

    def __init__(self, record: ServiceRecord) -> None:
        self._record = record
        self.pid = record.pid
        # Fetched first, proved right afterwards: from then on this object means this very process.
        process = _process(record.pid)
        self._process = process if record.lives() else None
        self.started = self._process.create_time() if self._process is not None else time.time()

    def ended(self) -> bool:
        """Whether it has ended."""
        return not self._record.lives()

    def code(self) -> int | None:
        """None: only the parent of a process is told its return code."""
        return None

    def terminate(self) -> None:
        """Ask it and its group to stop."""
        if self._record.lives():
            terminate_group(self.pid)

    def kill(self) -> None:
        """End it and everything it started, at once."""
        if self._process is None:
            return
        if self._record.lives():
            kill_family(self.pid)
        elif self._process.is_running():
            # Ended, but its parent has not fetched its code: the pid is still its own.
            kill_group(self.pid)
        else:
            kill_leftovers(self.pid)


def kill_family(pid: int) -> None:
    """End a living group leader, its group, and those of its descendants that left the group.

    Args:
        pid: A process that was started in a session of its own and is known to live.
    """
    try:
        # Each of these objects knows its start time: a reused pid is never signalled.
        family = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        family = []
    kill_group(pid)
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.kill()


def kill_leftovers(pid: int) -> None:
    """End what is left of the group of a process that has ended.

    While a member of the group lives, the system gives the group's number to nobody else; a process that has
    this pid now shows that the group is gone and the pid was reused.
    """
    if not psutil.pid_exists(pid):
        kill_group(pid)


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except (psutil.Error, ValueError):
        return None
