"""Who our services are: a record of each process, so that a later runner finds what an earlier one left.

A process is signalled only after its record was found to be wholly right; a pid alone proves nothing.
"""

import contextlib
import json
import logging
import re
import secrets
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
    leads_group,
    make_private,
    new_session_kwargs,
    same_process,
    started_process_identity,
    terminate_group,
    write_private,
)

logger = logging.getLogger(__name__)

TOKEN = "SOULSGUI_SERVICE_TOKEN"
"""Variable in the environment of a service: tells it from every other process before it is recorded."""

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
        binding: What else it was started with (`ServiceSpec.binding`).
    """

    name: str
    argv: tuple[str, ...]
    identity: ProcessIdentity
    binding: str = ""

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

    def announce(self, name: str, argv: Sequence[str], binding: str = "") -> str:
        """Record that a process is about to be started, in case this one is killed before it can name it.

        Args:
            name: Name of the service.
            argv: Its command line.
            binding: What else it is started with.

        Returns:
            What its environment must hold under `TOKEN`: by this it is found.

        Raises:
            OSError: It can't be written.
        """
        token = secrets.token_hex(16)
        self._store(name, {"name": name, "argv": list(argv), "binding": binding, "token": token})
        return token

    def write(self, name: str, argv: Sequence[str], pid: int, binding: str = "") -> ServiceRecord | None:
        """Record a process that was just started.

        Returns:
            None when it has ended already.

        Raises:
            OSError: It can't be written.
        """
        identity = started_process_identity(pid)
        if identity is None:
            return None
        self._store(name, {"name": name, "argv": list(argv), "binding": binding, **identity})
        return ServiceRecord(name, tuple(argv), identity, binding)

    def recover(self) -> list[ServiceRecord]:
        """Record the processes that an earlier runner started and could not record any more.

        Nothing is looked for unless a start was announced and never recorded.
        """
        found = []
        for path in sorted(self._folder.glob("*.json")):
            announced = _announced(path)
            if announced is None:
                continue
            pid = find_marked(announced.token, announced.argv)
            record = None
            if pid is not None:
                record = self.write(announced.name, announced.argv, pid, announced.binding)
            if record is None:
                path.unlink(missing_ok=True)
            else:
                found.append(record)
        return found

    def _store(self, name: str, fields: Mapping[str, object]) -> None:
        path = self._path(name)
        self._folder.mkdir(parents=True, exist_ok=True)
        make_private(self._folder)
        write_private(path, json.dumps(fields).encode())

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


def _fields(path: Path) -> dict[str, object] | None:
    try:
        fields = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    # The name of the file counts, not what a forged record says of itself.
    return fields if isinstance(fields, dict) and _NAME.fullmatch(path.stem) else None


def _read(path: Path) -> ServiceRecord | None:
    fields = _fields(path)
    if fields is None:
        return None
    identity = _identity(fields)
    argv = _strings(fields.get("argv"))
    if identity is None or argv is None:
        return None
    return ServiceRecord(path.stem, tuple(argv), identity, _text(fields.get("binding")))


@dataclass(frozen=True)
class _Announced:
    name: str
    argv: tuple[str, ...]
    binding: str
    token: str


def _announced(path: Path) -> _Announced | None:
    """Return a start that was announced and never recorded, None for every other record."""
    fields = _fields(path)
    if fields is None or "pid" in fields:
        return None
    argv, token = _strings(fields.get("argv")), _text(fields.get("token"))
    if not argv or not token:
        return None
    return _Announced(path.stem, tuple(argv), _text(fields.get("binding")), token)


def find_marked(token: str, argv: Sequence[str]) -> int | None:
    """Return the process that was started with a token in its environment, None where there is none.

    Its own children have the token as well: it is the one with the arguments it was started with that leads a
    process group, and where several do (a launcher that stays) the one that was started first.

    Args:
        token: What was announced.
        argv: Its command line; a launcher may have put another program before the arguments.
    """
    arguments = list(argv[1:])
    marked = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            same = len(words) > len(arguments) and words[len(words) - len(arguments) :] == arguments
            if same and leads_group(process.pid) and process.environ().get(TOKEN) == token:
                marked.append((process.create_time(), process.pid))
        except (psutil.Error, OSError):
            continue  # it has ended, or belongs to somebody else
    return min(marked)[1] if marked else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


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
