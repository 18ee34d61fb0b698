"""What every test is given, and what every test must leave behind: nothing.

Fixtures: `redis_address` (a real server, a fresh prefix), `keys`, `redis_client`, `report` (of a fault).
A test fails when it leaves threads or, of those that start some, processes; when it logs a WARNING or worse
without the mark `allow_warnings`; and when it starts a process without the mark `processes` (given to most by
themselves: `tests/processes.py`).
"""

import contextlib
import gc
import importlib
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psutil
import pytest
import redis

from soulsgui.process import ONE_THREAD
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys
from tests.faults.report import pytest_terminal_summary as pytest_terminal_summary
from tests.faults.report import report as report
from tests.gateways import way_in
from tests.processes import starts_processes
from tests.servers import delete_prefix, running_server, with_fresh_prefix

_LEAVE_TIME_S = 60.0

os.environ |= ONE_THREAD  # as in the processes of the program

# A busy machine is slow, not wrong: the limit on a test's time is pytest's.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "allow_warnings: the test causes log records of level WARNING and above on purpose"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect quickly: the memory that it takes holds no garbage, and asserts are rewritten once.

    Of several processes (xdist) each collects all tests. In a fresh clone each would rewrite the asserts of
    all files, too, which takes longer than all the rest: each imports its share of them first.
    """
    gc.disable()
    count, number = os.environ.get("PYTEST_XDIST_WORKER_COUNT"), os.environ.get("PYTEST_XDIST_WORKER")
    whole = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if count is not None and number is not None and whole:
        root = session.config.rootpath
        for path in sorted((root / "tests").rglob("test_*.py"))[int(number.removeprefix("gw")) :: int(count)]:
            # What can't be imported is told when it is collected.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
    try:
        return (yield)
    finally:
        gc.freeze()  # no later collection looks there again
        gc.enable()
        # To each logger that does not, and torch has dozens, pytest adds its handlers anew at each test.
        for logger in logging.Logger.manager.loggerDict.values():
            if isinstance(logger, logging.Logger):
                logger.propagate = True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts processes; leave out what is slow, unless `-m` speaks of it."""
    for item in items:
        if isinstance(item, pytest.Function) and starts_processes(item):
            item.add_marker("processes")
    if "slow" not in config.option.markexpr:
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)


_started: list[str] = []
"""The processes that tests have started, as far as Python tells; never emptied."""


def _note_start(event: str, args: tuple[object, ...]) -> None:
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
        _started.append(f"{event} {args[1] if len(args) > 1 else ''}")


sys.addaudithook(_note_start)


@pytest.fixture(scope="session")
def redis_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server of this test session."""
    return tmp_path_factory.mktemp("redis")


@pytest.fixture(scope="session")
def redis_server(redis_folder: Path) -> Iterator[Address]:
    """The server of this test session; tests use `redis_address`."""
    with running_server(redis_folder) as address:
        yield address


@pytest.fixture(scope="session")
def gateway(redis_server: Address, redis_folder: Path) -> Iterator[Address]:
    """Where clients that were invited come in to it."""
    with way_in(redis_server, redis_folder) as address:
        yield address


@pytest.fixture
def redis_address(redis_server: Address) -> Iterator[Address]:
    """A running server with a password and a prefix of this test alone."""
    address = with_fresh_prefix(redis_server)
    yield address
    delete_prefix(address)


@pytest.fixture
def keys(redis_address: Address) -> Keys:
    """The names of everything below the prefix of this test."""
    return Keys(redis_address.prefix)


@pytest.fixture
def redis_client(redis_address: Address) -> Iterator[redis.Redis]:
    """A connection to the server of this test."""
    client = connect(redis_address, "test")
    client.ping()
    yield client
    client.close()


class _Warnings(logging.Handler):
    """Collects what a test should not have logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = f": {record.exc_info[1]!r}" if record.exc_info else ""
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}{error}")


@pytest.fixture(autouse=True)
def _logging_is_set_up_anew() -> Iterator[None]:
    """A role that a test runs in this process sets logging up for itself; the next test sees none of it."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
    for handler in handlers:
        if handler not in root.handlers:
            root.addHandler(handler)


@pytest.fixture(autouse=True)
def _threads_of_torch_are_put_back() -> Iterator[None]:
    """A trainer or a client that a test runs in this process sets how many there are."""
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch is not None else 0
    yield
    if torch is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _starts_processes_only_where_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    before = len(_started)
    yield
    started = [*_started[before:], *multiprocessing.active_children()]
    if started and request.node.get_closest_marker("processes") is None:
        pytest.fail(f"not marked `processes`, but started {started}", pytrace=False)


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    # Looking at all processes of the computer takes longer than most tests.
    may_start = request.node.get_closest_marker("processes") is not None
    processes = set(_children()) if may_start else set()
    threads = set(threading.enumerate())
    warnings = _Warnings()
    logging.getLogger().addHandler(warnings)
    yield
    logging.getLogger().removeHandler(warnings)
    left = _left_processes(processes) if may_start else []
    found = [f"child process {_describe(child)}" for child in left]
    found += [f"thread {thread.name}" for thread in _left_threads(threads)]
    if request.node.get_closest_marker("allow_warnings") is None:
        found += [f"log: {line}" for line in warnings.lines]
    if found:
        pytest.fail("the test left behind:\n" + "\n".join(found), pytrace=False)


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _left_processes(before: set[psutil.Process]) -> list[psutil.Process]:
    """Children that did not end within a moment; they are killed, so that they harm one test only."""
    new = [
        child
        for child in _children()
        if child not in before and not _is_of_the_interpreter(child) and not _is_below(child, before)
    ]
    _, alive = psutil.wait_procs(new, timeout=_LEAVE_TIME_S)
    for child in alive:
        child.kill()
    return alive


def _is_below(process: psutil.Process, before: set[psutil.Process]) -> bool:
    """Whether it was started by a process that was there before: a server that serves several tests."""
    try:
        return any(parent in before for parent in process.parents())
    except psutil.Error:
        return False


def _is_of_the_interpreter(process: psutil.Process) -> bool:
    """Whether multiprocessing keeps it for the life of this interpreter."""
    try:
        return any("resource_tracker" in part for part in process.cmdline())
    except psutil.Error:
        return False


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid}: {' '.join(process.cmdline())}"
    except psutil.Error:
        return str(process.pid)


def _left_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    deadline = time.monotonic() + _LEAVE_TIME_S
    left = []
    for thread in threading.enumerate():
        # A dummy stands for a thread of a library (Qt) that called Python once; it is never removed.
        if thread in before or isinstance(thread, threading._DummyThread):
            continue
        # The pool of an event loop, which the test's loop closes after this fixture.
        if thread.name.startswith("asyncio_"):
            continue
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            left.append(thread)
    return left
