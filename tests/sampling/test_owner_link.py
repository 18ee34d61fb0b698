"""What owner and server want: the stricter is done, and the owner is told how the client is."""

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from soulsgui.sampling import owner_link as wishes
from soulsgui.sampling.owner_link import OwnerLink, Plan, Stepping, plan_of
from soulsgui.sampling.progress import Progress
from soulsgui.system import process_identity, started_process_identity
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.owner import (
    KEPT_EPISODES,
    MOST_EPISODES,
    ClientReport,
    OwnerState,
)
from soulsgui.wire.messages.session import Wish
from tests.faults.waiting import until
from tests.sampling.free_trainer import OwnersFolder

GO_ON = Plan()
END_THEN_WAIT = Plan(Stepping.TO_THE_END)
END_THEN_STOP = Plan(Stepping.TO_THE_END, stop=True)
WAIT = Plan(Stepping.NONE)
STOP = Plan(Stepping.NONE, stop=True)


@pytest.mark.parametrize(
    ("owner", "plans"),
    [
        ("run", [GO_ON, GO_ON, WAIT, END_THEN_STOP, STOP]),
        ("pause_after_episode", [END_THEN_WAIT, END_THEN_WAIT, WAIT, END_THEN_STOP, STOP]),
        ("pause", [WAIT, WAIT, WAIT, STOP, STOP]),
        ("stop_after_episode", [END_THEN_STOP, END_THEN_STOP, STOP, END_THEN_STOP, STOP]),
        ("stop", [STOP] * 5),
    ],
)
def test_the_stricter_wish_wins(owner: OwnerState, plans: list[Plan]) -> None:
    wishes = [Wish(command_id="x", state=state) for state in ("run", "pause", "finish", "stop")]
    assert [plan_of(owner, wish) for wish in (None, *wishes)] == plans


class _Owner:
    """The owner's side of the folder, and a client's link to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = OwnersFolder(folder)
        self.want = self.folder.want
        self.progress = Progress("c", Instance(pid=os.getpid()), 1, {})
        self.changes = 0
        self.link = OwnerLink(self.folder, lambda: ClientReport(beat=self.progress.beat()), self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def watched_by(self, pid: int) -> None:
        self.folder.runner.write_text(json.dumps(started_process_identity(pid)))

    def report(self) -> ClientReport | None:
        return ClientReport.read(self.folder.state.read_bytes()) if self.folder.state.exists() else None


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Owner]:
    monkeypatch.setattr(wishes, "_RUNNER_EVERY_S", 0.05)
    monkeypatch.setattr(wishes, "LOOK_EVERY_S", 0.02)
    made = _Owner(tmp_path)
    yield made
    made.link.close()


def test_every_wish_is_heard_once_also_one_that_stands_already(mine: _Owner, tmp_path: Path) -> None:
    for number, wish in enumerate(("run", "pause")):  # the first one where nothing was written yet
        other = _Owner(tmp_path / "other")
        assert (number, other.link.wish) == (number, wish)
        other.link.close()
        other.want("pause")
    mine.link.start()
    states: tuple[OwnerState, ...] = ("pause", "run", "pause_after_episode", "stop")
    for count, state in enumerate(states, start=1):
        mine.want(state)
        until(lambda state=state: mine.link.wish == state, state)  # type: ignore[misc]
        until(lambda count=count: mine.changes == count, "it is told")  # type: ignore[misc]
    mine.folder.wish.write_text("garbage")
    mine.link.soon()
    until(lambda: mine.report() is not None, "a report")
    assert (mine.link.wish, mine.changes) == ("stop", len(states))


@pytest.mark.allow_warnings
def test_without_its_runner_it_is_to_end_until_another_one_comes(mine: _Owner) -> None:
    runner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    until(lambda: process_identity(runner.pid) is not None, "its identity")
    mine.watched_by(runner.pid)
    mine.want("pause")
    mine.link.start()
    until(lambda: mine.link.wish == "pause", "the wish")
    runner.kill()
    runner.communicate()
    until(lambda: mine.link.wish == "stop_after_episode", "the end is noticed")
    assert mine.link.runner_is_gone
    no_such_process = '{"pid": 1, "start_time": 0, "boot_id": "x", "cmdline": []}'
    for forged in ("", "{}", "[1]", no_such_process):
        mine.watched_by(os.getpid())
        until(lambda: mine.link.wish == "pause", "the next one is noticed")
        mine.folder.runner.write_text(forged)
        until(lambda: mine.link.runner_is_gone, "nobody watches")


def test_reports_come_each_second_at_once_and_at_last(mine: _Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.link.start()
    until(lambda: (report := mine.report()) and report.beat.counter >= 2, "two reports by themselves")
    monkeypatch.setattr(wishes, "_REPORT_EVERY_S", math.inf)  # from here on none comes by itself
    mine.progress.phase = "paused"
    mine.link.soon()
    until(lambda: (report := mine.report()) and report.beat.phase == "paused", "the change")
    mine.progress.leaving = True
    mine.link.close()
    assert mine.report().beat.leaving


def test_a_reader_never_sees_half_a_report(mine: _Owner) -> None:
    for number in range(200):
        mine.progress.episode_ended(float(number), 10)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            mine.link._tell()

    mine.link._tell()
    with ThreadPoolExecutor(1) as writer:
        writer.submit(write)
        whole = [mine.report() is not None for _ in range(200)]
        stop.set()
    assert all(whole)


@pytest.mark.allow_warnings
def test_a_full_disk_is_said_once_and_survived(
    mine: _Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(wishes, "replace", full)
        mine.link._tell()
        mine.link._tell()
    assert caplog.text.count("No space left") == 1
    mine.link._tell()
    assert mine.report() is not None


@pytest.mark.allow_warnings
def test_whatever_is_wrong_with_a_report_wishes_are_heard(
    mine: _Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Progress, "beat", lambda _: 1 // 0)
        mine.link.start()
        until(lambda: "ZeroDivisionError" in caplog.text, "it is said")
        mine.want("pause")
        until(lambda: mine.link.wish == "pause", "the wish")
    until(lambda: mine.report() is not None, "the next report")


def test_a_report_names_the_newest_episodes_bounded_and_few_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress("c", Instance(pid=1), 1, {})
    progress.begin_run("run-1")
    for number in range(MOST_EPISODES + 500):
        progress.stepped(7)
        progress.episode_ended(float(number), 7)
    young = progress.recent_episodes()
    assert [episode.number for episode in young] == list(range(500, MOST_EPISODES + 500))
    assert (young[-1].run_id, young[-1].env_steps) == ("run-1", 7 * (MOST_EPISODES + 500))
    monkeypatch.setattr("soulsgui.sampling.progress.KEPT_FOR_S", -1.0)
    owned, nobodys = (Progress("c", Instance(pid=1), 1, {}, keeps_episodes=keeps) for keeps in (True, False))
    for progress in (owned, nobodys):
        assert [progress.episode_ended(1.0, 7) for _ in range(3 * KEPT_EPISODES)][-1] == 3 * KEPT_EPISODES - 1
        assert (progress.mean_return, progress.episodes) == (1.0, 3 * KEPT_EPISODES)
    newest = list(range(2 * KEPT_EPISODES, 3 * KEPT_EPISODES))
    assert [episode.number for episode in owned.recent_episodes()] == newest
    assert (len(owned._finished), len(nobodys._finished)) == (KEPT_EPISODES, 0)
    assert nobodys.recent_episodes() == []
