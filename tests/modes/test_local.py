"""Processes of a Python program: begun again when they die, gone when the program is."""

import errno
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import redis

from soulsgui.config.paths import Folders
from soulsgui.errors import ServiceError, UsageError
from soulsgui.modes import local
from soulsgui.modes.local import REDIS, LocalProcesses, LocalServer, start_server
from soulsgui.sampling import InitGuard
from soulsgui.wire.connection import AWAY, Address, connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat
from tests.faults.waiting import until
from tests.modes.children import Unreadable, fail, hold, note_and_wait
from tests.servers import has_written, running_server


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture
def processes(tmp_path: Path, stop: threading.Event) -> Iterator[LocalProcesses]:
    with LocalProcesses(tmp_path / "logs", stop) as made:
        yield made


def pid_in(file: Path, other_than: int = 0) -> int:
    def seen() -> int:
        pid = int((file.read_text() or "0") if file.exists() else "0")
        return pid if pid != other_than else 0

    return until(seen, "a process that has begun")


@pytest.mark.allow_warnings
def test_a_killed_process_begins_again_and_one_that_is_asked_ends(
    processes: LocalProcesses, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    processes.start("child", note_and_wait, file)
    first = pid_in(file)
    os.kill(first, signal.SIGKILL)
    second = pid_in(file, first)
    assert processes.restarts() == {"child": 1}
    processes.stop("child")
    assert not psutil.pid_exists(second)
    assert processes.restarts() == {}
    processes.check()


@pytest.mark.allow_warnings
def test_what_fails_again_and_again_is_told_with_its_words(
    processes: LocalProcesses, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.wire.connection.Backoff.delay_s", lambda _: 0.0)
    processes.start("actor-1", fail, "no such game")
    until(stop.is_set, "the end")
    with pytest.raises(ServiceError, match="actor-1 failed 5 times in 5 minutes: exit 1: no such game"):
        processes.check()


@pytest.mark.allow_warnings
@pytest.mark.parametrize("times", [2, 9])
def test_what_can_not_begin_again_is_tried_again_until_it_is_given_up(
    processes: LocalProcesses,
    stop: threading.Event,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
) -> None:
    monkeypatch.setattr("soulsgui.wire.connection.Backoff.delay_s", lambda _: 0.0)
    file, pipe, left = (
        tmp_path / "pid",
        local._CONTEXT.Pipe,
        [OSError(errno.EMFILE, "Too many files")] * times,
    )

    def fails_at_first(duplex: bool = True) -> Any:
        if left:
            raise left.pop()
        return pipe(duplex)

    processes.start("child", note_and_wait, file)
    first = pid_in(file)
    monkeypatch.setattr(local._CONTEXT, "Pipe", fails_at_first)
    os.kill(first, signal.SIGKILL)
    if times == 2:
        assert pid_in(file, first)
        assert processes.restarts() == {"child": 3}
        processes.check()
    else:
        until(stop.is_set, "the end")
        with pytest.raises(ServiceError, match=r"child failed 5 times in 5 minutes: .*Too many files"):
            processes.check()


@pytest.mark.allow_warnings
def test_one_that_dies_while_it_makes_environments_lets_the_others(
    processes: LocalProcesses, tmp_path: Path
) -> None:
    guard, file = InitGuard(tmp_path / "guard"), tmp_path / "pid"
    processes.start("child", hold, guard, file)
    os.kill(pid_in(file), signal.SIGKILL)
    processes.stop("child")
    with guard():
        pass


@pytest.mark.allow_warnings
def test_one_that_dies_before_it_can_say_a_word_is_told_of_too(
    processes: LocalProcesses, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.wire.connection.Backoff.delay_s", lambda _: 0.0)
    processes.start("actor-1", len, Unreadable())
    until(stop.is_set, "the end")
    with pytest.raises(ServiceError, match="actor-1 failed 5 times in 5 minutes: exit 1: it said nothing"):
        processes.check()


def test_what_can_not_be_sent_is_told(processes: LocalProcesses) -> None:
    with pytest.raises(UsageError, match=r"child can't be started: .*lambda") as caught:
        processes.start("child", lambda: None)
    assert "imported" in caught.value.remedy
    assert processes.restarts() == {}


PROGRAM = """
import sys, threading, time
from pathlib import Path
from soulsgui.modes.local import LocalProcesses
from tests.modes.children import note_and_wait
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    LocalProcesses(folder / "logs", threading.Event()).start("child", note_and_wait, folder / "pid")
    if sys.argv[2] == "wait":
        time.sleep(1e6)
    while not (folder / "pid").exists():
        time.sleep(0.01)
"""


INTERRUPTED = """
import sys, threading
from pathlib import Path
from soulsgui.modes.local import LocalProcesses, stopped_by_signals
from tests.modes.children import note_and_wait
if __name__ == "__main__":
    folder, stop = Path(sys.argv[1]), threading.Event()
    with stopped_by_signals(stop), LocalProcesses(folder / "logs", stop) as processes:
        processes.start("child", note_and_wait, folder / "pid")
        stop.wait()
        print("child" in processes.pids(), processes.restarts(), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no groups of processes")
def test_what_the_terminal_says_reaches_the_program_alone(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(INTERRUPTED)
    words = [sys.executable, str(tmp_path / "program.py"), str(tmp_path)]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        words, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        child = pid_in(tmp_path / "pid")
        os.killpg(program.pid, signal.SIGINT)
        said, _ = program.communicate()
    assert said == "True {'child': 0}\n"
    assert program.returncode == 0
    assert not psutil.pid_exists(child)


@pytest.mark.parametrize("how", ["wait", "end"])
def test_nothing_lives_on_when_the_program_is_gone(how: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [sys.executable, str(tmp_path / "program.py"), str(tmp_path), how]
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(words, env=os.environ | {"PYTHONPATH": root}) as program:
        child = pid_in(tmp_path / "pid")
        if how == "wait":
            program.kill()
    until(lambda: not psutil.pid_exists(child), "the child's end")


@pytest.mark.allow_warnings
def test_a_killed_server_comes_back_with_what_it_had(processes: LocalProcesses, tmp_path: Path) -> None:
    address = start_server(processes, tmp_path)
    connection = connect(address)
    connection.set("souls:a", "1")
    until(lambda: has_written(connection), "it is in its file")
    os.kill(connection.info("server")["process_id"], signal.SIGKILL)
    connection.close()

    def answer() -> object:
        again = connect(address)
        try:
            return again.get("souls:a")
        except AWAY:
            return None
        finally:
            again.close()

    assert until(answer, "the server") == b"1"
    assert processes.restarts() == {REDIS: 1}


@pytest.mark.allow_warnings
def test_a_server_whose_keeper_was_killed_gives_way_to_another(
    processes: LocalProcesses, tmp_path: Path
) -> None:
    address = start_server(processes, tmp_path)
    connection = connect(address)
    first = connection.info("server")["process_id"]
    connection.set("souls:a", "1")
    connection.close()
    os.kill(processes.pids()[REDIS], signal.SIGKILL)
    until(lambda: not psutil.pid_exists(first), "its end")
    until(lambda: processes.restarts()[REDIS] == 1, "another keeper")
    again = start_server_again(tmp_path)
    assert again == b"1", "it ended in order"
    processes.check()


def start_server_again(folder: Path) -> object:
    def asked() -> object:
        connection = connect(Address.read(Folders(folder, folder).server_address))
        try:
            return connection.get("souls:a")
        except (*AWAY, redis.ResponseError):
            return None
        finally:
            connection.close()

    return until(asked, "the server")


def test_a_server_is_not_waited_for_when_the_program_is_asked_to_stop(
    processes: LocalProcesses, stop: threading.Event, tmp_path: Path
) -> None:
    stop.set()
    with pytest.raises(SystemExit):
        start_server(processes, tmp_path)


def test_who_beats_is_not_ended_and_who_hangs_is(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "LOST_S", 0.0)  # from one look to the next
    monkeypatch.setattr(local, "_LOOK_AT_BEATS_EVERY_S", 0.01)
    read, ended, looks = local._read_all, list[str](), itertools.count()

    def beat_and_read(beats: list[str], server: redis.Redis) -> Any:
        for key, pid, counter in zip(beats, (1, 2), (0, next(looks)), strict=True):
            beat = Heartbeat(client="actor", instance=Instance(pid=pid), counter=counter)
            server.set(key, beat.to_json())
        return read(beats, server)

    monkeypatch.setattr(local, "_read_all", beat_and_read)
    processes = Mock(pids=lambda: {"hangs": 1, "beats": 2}, end_hanging=lambda name, _: ended.append(name))
    with local._watched(LocalServer(tmp_path, processes, redis_address)):
        until(lambda: len(ended) > 2, "several looks")
    assert set(ended) == {"hangs"}


@pytest.mark.processes
@pytest.mark.allow_warnings
def test_nobody_is_ended_whose_beats_the_server_has_no_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, seconds in (("LOST_S", 0.3), ("LATE_S", 0.2), ("_LOOK_AT_BEATS_EVERY_S", 0.05)):
        monkeypatch.setattr(local, name, seconds)
    hanging = threading.Event()
    processes = Mock(pids=lambda: {"actor-0": 1}, end_hanging=lambda *_: hanging.set())
    beat = Heartbeat(client="actor-0", instance=Instance(pid=1), counter=1)
    with running_server(tmp_path) as address:
        connection = connect(address)
        connection.set(Keys(address.prefix).beat("actor-0"), beat.to_json())
        connection.config_set("maxmemory", 1)
        with local._watched(LocalServer(tmp_path, processes, address)):
            until(lambda: "beats: the server refuses" in caplog.text or hanging.is_set(), "a look")
            assert not hanging.wait(1.0)
            connection.config_set("maxmemory", 0)
            until(hanging.is_set, "the end of one that says no more, though there is room")
        connection.close()
