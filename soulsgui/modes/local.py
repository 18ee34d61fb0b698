"""Processes of a Python program (server, clients, inference servers), begun again when they end early.

A child ends when it is asked to, and when the program is gone, however that ended: both close the pipe that
it waits at. One that hangs (its heartbeat stands still) is ended, and begins again.
"""

import contextlib
import json
import logging
import multiprocessing
import multiprocessing.connection
import multiprocessing.util
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import redis

from soulsgui.config.paths import Folders
from soulsgui.errors import ServiceError, UsageError, printable
from soulsgui.process import child_env, own_command, stop_here, stop_on_signals
from soulsgui.system import (
    kill_tree,
    leave_terminal,
    new_session_kwargs,
    same_process,
    started_process_identity,
    starting_deaf,
    stop_signals,
    terminate_group,
)
from soulsgui.wire.beats import LATE_S, LOST_S
from soulsgui.wire.connection import AWAY, Address, Backoff, Link, Stopped, connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat

logger = logging.getLogger(__name__)

_CONTEXT = multiprocessing.get_context("spawn")  # as on Windows: nothing of the program is taken over
_HEALTHY_S = 60.0
_LOOK_EVERY_S = 0.2
_GRACE_S = 30.0
_SERVER_START_S = 1800.0  # its process imports the program first, on a busy computer for minutes
_MOST_FAILURES, _WITHIN_S = 5, 300.0
_LOOK_AT_BEATS_EVERY_S = 1.0
_TAIL_BYTES = 4096

REDIS = "redis"
_OWNER = "redis_owner.json"
_INTERRUPTED = 130  # what a shell says of Ctrl+C


@dataclass
class _Child:
    target: Callable[..., object]
    args: tuple[Any, ...]
    process: SpawnProcess | None = None
    pipe: Connection | None = None
    restarts: int = 0
    failed_at: list[float] = field(default_factory=list)  # since it was last healthy
    began: float = 0.0
    next_start: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first_s=0.5, longest_s=30.0))


class LocalProcesses:
    """Starts functions as processes, and again with growing pauses when they end by themselves.

    `multiprocessing` itself hands a function and its arguments, which are the program's own, to its child as
    a pickle, through a pipe that no other process has; nothing comes back by it.

    What a process says on its standard output and error stands in `logs`, a file for each. When one fails
    again and again, `stop` is set, and `check` says why; once `stop` is set, nothing begins again. The
    supervisor of a runner (`runner.services`) starts commands of ours alone, lives in a loop of asyncio, and
    lets them outlive it: nothing of that fits here.
    """

    def __init__(self, logs: Path, stop: threading.Event) -> None:
        self._logs, self._stop, self._failure = logs, stop, ""
        logs.mkdir(parents=True, exist_ok=True)
        self._children: dict[str, _Child] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        # Before the processes are waited for at the end of a program that forgot to close this.
        self._at_exit = multiprocessing.util.Finalize(self, self.close, exitpriority=100)
        self._thread = threading.Thread(target=self._watch, name="local processes", daemon=True)
        self._thread.start()

    def start(self, name: str, target: Callable[..., object], *args: object) -> None:
        """Start a process, whose main thread calls a function; nothing once `stop` is set.

        Raises:
            UsageError: The function or an argument can't be sent to another process.
        """
        child = _Child(target, args)
        with self._lock:
            if self._stop.is_set():
                return
            self._begin(name, child)
            self._children[name] = child

    def restarts(self) -> dict[str, int]:
        """Return how often each process was started again."""
        return {name: child.restarts for name, child in self._children.items()}

    def pids(self) -> dict[str, int]:
        """Return the process ids of those that run."""
        with self._lock:
            running = {name: child.process for name, child in self._children.items() if child.process}
            return {name: process.pid for name, process in running.items() if process.pid is not None}

    @property
    def stopping(self) -> bool:
        """Whether nothing begins any more."""
        return self._stop.is_set()

    def check(self) -> None:
        """Make sure that none of them failed again and again.

        Raises:
            ServiceError: One did; it says with which words.
        """
        if self._failure:
            raise ServiceError(self._failure)

    def log(self, name: str) -> Path:
        """Return the file with what a process says."""
        return self._logs / f"{name}.log"

    def last_words(self, name: str) -> str:
        """Return the last line that a process has said."""
        try:
            with self.log(name).open("rb") as file:
                file.seek(max(self.log(name).stat().st_size - _TAIL_BYTES, 0))
                lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
        except OSError as error:
            return f"what it said can't be read: {error}"
        return printable(lines[-1]) if lines else "it said nothing"

    def end_hanging(self, name: str, pid: int) -> None:
        """End a process that gives no sign of life, if it is still there; it begins again as others do."""
        with self._lock:
            child = self._children.get(name)
            if child is not None and child.process is not None and child.process.pid == pid:
                logger.warning("%s gives no sign of life", name)
                kill_tree(pid)

    def stop(self, *names: str) -> None:
        """Ask processes to end, wait for it, and end those that don't."""
        with self._lock:
            ending = [self._children.pop(name) for name in names if name in self._children]
        for child in ending:
            if child.pipe is not None:
                child.pipe.close()
        until = time.monotonic() + _GRACE_S
        for child in ending:
            if child.process is None:
                continue
            child.process.join(max(until - time.monotonic(), 0.0))
            if child.process.exitcode is None and child.process.pid is not None:
                logger.warning("%s does not end by itself", child.process.name)
                kill_tree(child.process.pid)
            child.process.join()
            child.process.close()

    def close(self) -> None:
        """End all of them, the last one started first, and watch no more."""
        self._closing.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        for name in reversed(list(self._children)):
            self.stop(name)
        self._at_exit.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, name: str, child: _Child) -> None:
        self.log(name).touch()
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(
            target=_run, args=(self.log(name), theirs, child.target, child.args), name=name
        )
        try:
            with _environment(), starting_deaf():
                process.start()
        except OSError:
            ours.close()
            raise
        except Exception as error:  # whatever hinders a function or an argument from being sent
            ours.close()
            raise _not_sendable(name, error) from error
        finally:
            theirs.close()
        child.process, child.pipe, child.began = process, ours, time.monotonic()

    def _watch(self) -> None:
        while not self._closing.wait(_LOOK_EVERY_S):
            with self._lock:
                for name, child in self._children.items():
                    self._look(name, child, time.monotonic())

    def _look(self, name: str, child: _Child, now: float) -> None:
        process = child.process
        if self._stop.is_set():
            return
        if process is None:
            if now >= child.next_start:
                child.restarts += 1
                try:
                    self._begin(name, child)
                except (OSError, UsageError) as error:  # too many files or processes, no memory
                    self._note_failure(name, child, str(error), now)
        elif process.exitcode is not None:
            if now - child.began > _HEALTHY_S:
                child.backoff.reset()
                child.failed_at.clear()
            code = process.exitcode
            process.close()
            assert child.pipe is not None
            child.pipe.close()
            child.process = None
            # What it said last is no reason of who was killed.
            why = f"killed by signal {-code}" if code < 0 else f"exit {code}: {self.last_words(name)}"
            self._note_failure(name, child, why, now)

    def _note_failure(self, name: str, child: _Child, why: str, now: float) -> None:
        """Let it begin again later; where it failed too often, end everything."""
        delay_s = child.backoff.delay_s()
        logger.warning("%s failed: %s. It begins again in %.1f s", name, why, delay_s)
        child.next_start = now + delay_s
        child.failed_at = [at for at in child.failed_at if now - at < _WITHIN_S] + [now]
        if len(child.failed_at) == _MOST_FAILURES:
            minutes = f"{_WITHIN_S / 60:.0f} minutes"
            self._failure = f"{name} failed {_MOST_FAILURES} times in {minutes}: {why}"
            self._stop.set()


def check_sendable(name: str, target: Callable[..., object]) -> None:
    """Make sure that a function can be sent to a process.

    Raises:
        UsageError: It can't.
    """
    try:
        ForkingPickler.dumps(target)
    except RuntimeError:  # the locks of `multiprocessing`, which travel at the start of a process alone
        pass
    except Exception as error:
        raise _not_sendable(name, error) from error


def _not_sendable(name: str, error: Exception) -> UsageError:
    return UsageError(
        f"{name} can't be started: {error}.",
        "Give it a class, a function, or a functools.partial of one, at the top of a file "
        "which can be imported: no lambda, nothing that was defined inside of a function.",
    )


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Give a child that starts meanwhile the environment of our own processes."""
    ours = child_env()
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _run(log: Path, pipe: Connection, target: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Set up this process, which has just begun, and call the function it was begun for."""
    leave_terminal()
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    threading.Thread(target=_end_with, args=(pipe,), name="end with the program", daemon=True).start()
    target(*args)


def _end_with(pipe: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        pipe.recv_bytes()  # nothing comes but the end
    stop_here()


class LocalServer(NamedTuple):
    """What a Python program trains with: a folder that goes with it, its processes, and its Redis server."""

    folder: Path
    processes: LocalProcesses
    address: Address


@contextlib.contextmanager
def local_server(stop: threading.Event) -> Iterator[LocalServer]:
    """Have a server until the block ends; Ctrl+C sets `stop` meanwhile.

    Raises:
        ServiceError: The server does not start.
    """
    with (
        TemporaryDirectory(prefix="soulsgui-", ignore_cleanup_errors=True) as name,
        stopped_by_signals(stop),
        LocalProcesses(Path(name) / "logs", stop) as processes,
    ):
        server = LocalServer(Path(name), processes, start_server(processes, Path(name)))
        with _watched(server):
            yield server


@contextlib.contextmanager
def _watched(server: LocalServer) -> Iterator[None]:
    """End processes that hang meanwhile: each begins again as if it had died."""
    ended = threading.Event()
    watching = threading.Thread(target=_watch_beats, args=(server, ended), name="beats")
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def _watch_beats(server: LocalServer, ended: threading.Event) -> None:
    keys, link = Keys(server.address.prefix), Link(server.address, ended, "beats")
    seen: dict[str, tuple[object, float]] = {}
    looked_at = time.monotonic()
    with contextlib.closing(link), contextlib.suppress(Stopped):
        while not ended.wait(_LOOK_AT_BEATS_EVERY_S):
            pids = server.processes.pids()
            if not pids:
                continue
            told = link.run(partial(_read_all, [keys.beat(name) for name in pids]))
            now = time.monotonic()
            if now - looked_at > LATE_S:  # the server was away, or this computer slept: nobody could be heard
                seen.clear()
            looked_at = now
            for (name, pid), beat in zip(pids.items(), map(Heartbeat.read, told), strict=True):
                if beat is None or beat.instance.pid != pid:
                    seen.pop(name, None)
                    continue
                sign = pid, beat.counter if beat.inference is None else beat.inference.turns
                since = seen[name][1] if name in seen and seen[name][0] == sign else now
                seen[name] = sign, since
                if now - since > LOST_S:
                    server.processes.end_hanging(name, pid)


def _read_all(beats: list[str], server: redis.Redis) -> Any:
    server.setrange(beats[0], 0, "")  # changes nothing; while a full server refuses beats, it does this, too
    return server.mget(beats)


def start_server(processes: LocalProcesses, folder: Path) -> Address:
    """Start a Redis server that keeps its data in a folder; return its address once it answers.

    Raises:
        ServiceError: It does not.
        SystemExit: The program was asked to stop meanwhile.
    """
    address_file = Folders(folder, folder).server_address
    processes.start(REDIS, _serve_redis, folder)
    until = time.monotonic() + _SERVER_START_S
    while not processes.restarts().get(REDIS):
        if processes.stopping:
            raise SystemExit(_INTERRUPTED)
        if time.monotonic() > until:
            raise ServiceError(
                f"The Redis server does not answer after {_SERVER_START_S / 60:.0f} minutes, though its "
                f"process lives: {processes.last_words(REDIS)}",
                "That process imports your program first: let main() import what takes long.",
            )
        with contextlib.suppress(UsageError, *AWAY):
            address = Address.read(address_file)
            connection = connect(address)
            try:
                connection.ping()
                return address
            except redis.ResponseError:
                pass
            finally:
                connection.close()
        time.sleep(_LOOK_EVERY_S / 4)
    raise ServiceError(f"The Redis server does not start: {processes.last_words(REDIS)}")


@contextlib.contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl+C and its like set an event meanwhile; outside the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in stop_signals()}
    try:
        stop_on_signals(stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_the_one_before(owner: Path) -> None:
    """End a server whose parent was killed: another one takes its data over."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        before = json.loads(owner.read_text())
        if same_process(before):
            terminate_group(before["pid"])
            while same_process(before):
                time.sleep(_LOOK_EVERY_S)


def _serve_redis(folder: Path) -> None:
    """Run `soulsgui redis` until asked to stop: this room does not import the one that starts servers."""
    stop = stop_on_signals()
    _end_the_one_before(folder / _OWNER)
    words = [*own_command("redis"), "--data-dir", str(folder), "--config-dir", str(folder)]
    server = subprocess.Popen(words, **new_session_kwargs())
    (folder / _OWNER).write_text(json.dumps(started_process_identity(server.pid)))
    while not stop.wait(_LOOK_EVERY_S) and server.poll() is None:
        pass
    if server.poll() is None:
        terminate_group(server.pid)
    raise SystemExit(server.wait())
