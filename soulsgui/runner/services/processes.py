"""The processes of services: started or adopted, ended with all they started, and what they use.

Each has a record on disk, so that a later runner finds what an earlier one left.

A process is signalled only after its record was found to be wholly right; a pid alone proves nothing.
"""

import contextlib
import json
import logging
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
from pydantic import ConfigDict, Field

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
from soulsgui.wire.messages.base import Message

logger = logging.getLogger(__name__)

TOKEN = "SOULSGUI_SERVICE_TOKEN"
"""Variable in the environment of a service: tells it from every other process before it is recorded."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_GREATEST_PID = 2**31 - 1
_GREATEST_TIME = 2**63
_SAMPLE_S = 1.0
# Looking for children reads the whole process table.
_CHILDREN_EVERY_S = 10.0


@dataclass(frozen=True)
class ServiceRecord:
    """The identity of a service's process, and what it was started with, as written right after that."""

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
    """The records of all services of one runner: one private file each, in `services/` below its folder."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "services"

    def announce(self, name: str, argv: Sequence[str], binding: str = "") -> str:
        """Record a process that is about to be started; return the `TOKEN` by which it is found."""
        token = secrets.token_hex(16)
        self._store(name, {"name": name, "argv": list(argv), "binding": binding, "token": token})
        return token

    def write(self, name: str, argv: Sequence[str], pid: int, binding: str = "") -> ServiceRecord | None:
        """Record a process that was just started; None when it has ended already."""
        identity = started_process_identity(pid)
        if identity is None:
            return None
        self._store(name, {"name": name, "argv": list(argv), "binding": binding, **identity})
        return ServiceRecord(name, tuple(argv), identity, binding)

    def recover(self) -> list[ServiceRecord]:
        """Record the processes that an earlier runner announced, started, and could not record any more."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            kept = _read(path)
            if kept is None or kept.pid is not None or not (kept.argv and kept.token):
                continue
            pid = find_marked(kept.token, kept.argv)
            record = self.write(path.stem, kept.argv, pid, kept.binding) if pid is not None else None
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
        return _record(self._path(name))

    def all(self) -> list[ServiceRecord]:
        """Return every readable record, by name."""
        found = (_record(path) for path in sorted(self._folder.glob("*.json")))
        return [record for record in found if record is not None]

    def forget(self, name: str) -> None:
        """Remove the record of a service that has ended; one that stays names a process that is no more."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            logger.warning("the record of %s can't be removed: %s", name, error)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} can't be the name of a service")
        return self._folder / f"{name}.json"


class _StoredRecord(Message):
    """What stands in the file of a record; without `pid` the process is only announced."""

    model_config = ConfigDict(strict=True)

    argv: list[str]
    binding: str = ""
    token: str = ""
    pid: int | None = Field(None, ge=-_GREATEST_PID, le=_GREATEST_PID)
    start_time: float = Field(0.0, gt=-_GREATEST_TIME, lt=_GREATEST_TIME)
    boot_id: str = ""
    cmdline: list[str] = Field(default_factory=list)


def _read(path: Path) -> _StoredRecord | None:
    try:
        # The name of the file counts, not what a forged record says of itself.
        return _StoredRecord.read(path.read_bytes()) if _NAME.fullmatch(path.stem) else None
    except OSError:
        return None


def _record(path: Path) -> ServiceRecord | None:
    kept = _read(path)
    if kept is None or kept.pid is None:
        return None
    identity = ProcessIdentity(
        pid=kept.pid, start_time=kept.start_time, boot_id=kept.boot_id, cmdline=kept.cmdline
    )
    return ServiceRecord(path.stem, tuple(kept.argv), identity, kept.binding)


def find_marked(token: str, argv: Sequence[str]) -> int | None:
    """Return the process that was started with a token in its environment, None where there is none.

    Its own children have the token as well: it is the one with the arguments it was started with that leads a
    process group, and where several do (a launcher that stays) the one that was started first. A launcher may
    have put another program before the arguments.
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


class OwnChild:
    """A process that this runner started: `output` takes what it says, `env` is its environment."""

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
        """Its return code as `subprocess` gives it: below zero for a signal."""
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
            kill_group(self.pid)


class Adopted:
    """A process that an earlier runner started: unless its record is wholly right, nobody is signalled."""

    def __init__(self, record: ServiceRecord) -> None:
        self._record = record
        self.pid = record.pid
        # Fetched first, proved right afterwards: from then on this object means this very process.
        try:
            process = psutil.Process(record.pid)
        except (psutil.Error, ValueError):
            process = None
        self._process = process if record.lives() else None
        self.started = self._process.create_time() if self._process is not None else time.time()

    def ended(self) -> bool:
        """Whether it has ended."""
        return not self._record.lives()

    def code(self) -> int | None:
        """None: only the parent of a process learns its exit code."""
        return None

    def terminate(self) -> None:
        """Ask it and its group to stop."""
        if self._record.lives():
            terminate_group(self.pid)

    def kill(self) -> None:
        """End it and everything it started, at once."""
        if self._process is None:
            return
        # One that has ended has its pid until its parent fetches its code.
        if self._record.lives() or self._process.is_running():
            kill_group(self.pid)
        else:
            kill_leftovers(self.pid)


class ProcessTree:
    """A service's process with its children: on Windows a launcher stands between them and the program."""

    def __init__(self) -> None:
        self._known: tuple[int, int] | None = None

    def includes(self, service_pid: int | None, pid: int) -> bool:
        """Return whether `pid` is the supervised process, if there is one, or a child of it."""
        if service_pid is None or pid <= 0:
            return False
        if pid == service_pid or self._known == (service_pid, pid):
            return True
        try:
            related = psutil.Process(pid).ppid() == service_pid
        except psutil.Error:
            return False
        if related:
            self._known = (service_pid, pid)
        return related


def kill_leftovers(pid: int) -> None:
    """End what is left of the group of a process that has ended.

    While a member of the group lives, the system gives the group's number to nobody else; a process that has
    this pid now shows that the group is gone and the pid was reused.
    """
    if not psutil.pid_exists(pid):
        kill_group(pid)


@dataclass(frozen=True)
class Usage:
    """What one service and its children use."""

    # Part of one core, so that four busy threads are 400; None until measured twice.
    cpu_percent: float | None
    memory_bytes: int


class UsageMeter:
    """Measures processes, at most once a second however often it is asked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sampled_at = float("-inf")
        self._trees: dict[int, _MeasuredTree] = {}
        self._usage: dict[int, Usage] = {}

    def measure(self, pids: Collection[int]) -> dict[int, Usage]:
        """Return what each of these processes uses; those that have ended are left out."""
        now = self._clock()
        if now - self._sampled_at >= _SAMPLE_S or not self._trees.keys() >= set(pids):
            self._sampled_at = now
            self._trees = {pid: self._trees.get(pid) or _MeasuredTree(pid) for pid in pids}
            found = {pid: tree.measure(now) for pid, tree in self._trees.items()}
            self._usage = {pid: usage for pid, usage in found.items() if usage is not None}
        return self._usage


class _MeasuredTree:
    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._members: dict[int, psutil.Process] = {}
        self._counted_at = float("-inf")
        self._measured = False

    def measure(self, now: float) -> Usage | None:
        if now - self._counted_at >= _CHILDREN_EVERY_S:
            self._counted_at = now
            self._count()
        cpu_percent, memory_bytes, alive = 0.0, 0, False
        for member in list(self._members.values()):
            try:
                with member.oneshot():
                    cpu_percent += member.cpu_percent(interval=None)
                    memory_bytes += member.memory_info().rss
                alive = True
            except psutil.Error:
                del self._members[member.pid]
        if not alive:
            return None
        measured_before, self._measured = self._measured, True
        return Usage(cpu_percent if measured_before else None, memory_bytes)

    def _count(self) -> None:
        try:
            leader = self._members.get(self._pid) or psutil.Process(self._pid)
            children = leader.children(recursive=True)
        except psutil.Error:
            self._members = {}
            return
        # The objects remember the time of their last measurement: keep those we know.
        known = self._members
        self._members = {self._pid: leader} | {one.pid: known.get(one.pid, one) for one in children}


def system_memory_kills(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how many processes like ours the system has ended for want of memory; 0: it doesn't tell."""
    # Linux counts them per control group, which services share with their runner, and in all.
    with contextlib.suppress(OSError, StopIteration):
        lines = (proc / "self/cgroup").read_text().splitlines()
        group = next(line.removeprefix("0::") for line in lines if line.startswith("0::"))
        return _counter(cgroups / group.lstrip("/") / "memory.events")
    with contextlib.suppress(OSError):
        return _counter(proc / "vmstat")
    return 0


def _counter(path: Path) -> int:
    for line in path.read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return 0
