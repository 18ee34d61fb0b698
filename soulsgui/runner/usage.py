"""What the services use: processor and memory, each with everything it started."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

_SAMPLE_S = 1.0
# Looking for children reads the whole process table.
_FAMILY_S = 10.0


@dataclass(frozen=True)
class Usage:
    """What one service and its children use.

    Attributes:
        cpu_percent: Part of one core, so that four busy threads are 400; None until measured twice.
        memory_bytes: Resident memory.
    """

    cpu_percent: float | None
    memory_bytes: int


class UsageMeter:
    """Measures processes, at most once a second however often it is asked.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sampled_at = float("-inf")
        self._families: dict[int, _Family] = {}
        self._usage: dict[int, Usage] = {}

    def measure(self, pids: Collection[int]) -> dict[int, Usage]:
        """Return what each of these processes uses; those that have ended are left out."""
        now = self._clock()
        if now - self._sampled_at >= _SAMPLE_S or not self._families.keys() >= set(pids):
            self._sampled_at = now
            self._families = {pid: self._families.get(pid) or _Family(pid) for pid in pids}
            found = {pid: family.measure(now) for pid, family in self._families.items()}
            self._usage = {pid: usage for pid, usage in found.items() if usage is not None}
        return self._usage


class _Family:
    """A process and its descendants."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._members: dict[int, psutil.Process] = {}
        self._counted_at = float("-inf")
        self._measured = False

    def measure(self, now: float) -> Usage | None:
        if now - self._counted_at >= _FAMILY_S:
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
            family = {child.pid: child for child in leader.children(recursive=True)}
        except psutil.Error:
            self._members = {}
            return
        # The objects remember the time of their last measurement: keep those we know.
        self._members = {self._pid: leader} | {
            pid: self._members.get(pid, child) for pid, child in family.items()
        }


def system_memory_kills(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how many processes like ours the system has ended for want of memory; 0 where it doesn't tell.

    Linux counts them per control group, which services share with their runner, and for the whole machine.

    Args:
        proc: Where Linux shows its processes.
        cgroups: Where it shows its control groups (version 2).
    """
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
        group = next(line.removeprefix("0::") for line in lines if line.startswith("0::"))
        return _counter(cgroups / group.lstrip("/") / "memory.events")
    except (OSError, StopIteration):
        pass
    try:
        return _counter(proc / "vmstat")
    except OSError:
        return 0


def _counter(path: Path) -> int:
    for line in path.read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return 0
