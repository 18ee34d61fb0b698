import os
from pathlib import Path
from typing import Any

import pytest

from soulsgui.runner.join.reports import OwnReturns, Reports
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import ClientStatus, HistoryQueryParams
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat, Phase
from soulsgui.wire.messages.metrics import EpisodeRows
from soulsgui.wire.messages.owner import ClientFolder, ClientReport, OwnEpisode
from soulsgui.wire.messages.session import Grant, Wish

PID = 4_000_000


class _Desk:
    """Reports of a client, with a clock and a process of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = ClientFolder(folder)
        self.now = 100.0
        self.pid: int | None = PID
        self.reports = Reports(self.folder, lambda: self.pid, lambda: self.now)
        self.counter = 0

    def tell(
        self,
        phase: Phase = "sampling",
        grant: Grant | None = None,
        wish: Wish | None = None,
        remote: bool = False,
    ) -> None:
        self.counter += 1
        plays: dict[str, Any] = {"session": "5-0", "run_id": "run-1", "env_id": "Toy-v0"}
        instance = Instance(host="here", pid=PID)
        beat = Heartbeat(
            client="c", instance=instance, counter=self.counter, phase=phase, env_steps_per_s=20.0, **plays
        )
        report = ClientReport(beat=beat, grant=grant, wish=wish, remote=remote)
        self.folder.writable.mkdir(exist_ok=True)
        aside = self.folder.writable / "aside"
        aside.write_text(report.to_json())
        os.utime(aside, ns=(1, 1))  # all of one moment, as what a client says last may be
        aside.replace(self.folder.state)
        assert self.reports.read() == report

    @property
    def client(self) -> ClientStatus:
        return self.reports.client("c", "run", 7, 3)

    @property
    def state(self) -> str:
        return self.client.state


@pytest.fixture
def desk(tmp_path: Path) -> _Desk:
    return _Desk(tmp_path)


def test_a_report_of_the_supervised_process_is_read_once_and_damaged_ones_never(desk: _Desk) -> None:
    assert desk.reports.read() is None
    assert not desk.reports.health().ready
    assert desk.state == "left"
    assert desk.reports.run(0, 0).state == "none"
    desk.tell()
    assert desk.reports.read() is None
    desk.folder.state.write_text('{"beat": ')
    assert desk.reports.read() is None
    assert desk.state == "online"
    assert (desk.reports.health().ready, desk.reports.health().tick) == (True, 1)
    desk.pid = PID - 1
    assert not desk.reports.health().ready
    assert desk.state == "left"


@pytest.mark.parametrize(
    ("phase", "grant", "wish", "state"),
    [
        ("joining", None, None, "joining"),
        ("waiting", None, None, "waiting"),
        ("sampling", Grant(session="5-0", status="accepted"), None, "online"),
        ("sampling", Grant(session="5-0", status="quarantined", reason="NaN"), None, "quarantined"),
        ("sampling", Grant(session="4-0", status="quarantined", reason="NaN"), None, "online"),
        ("waiting", Grant(session="5-0", status="refused", reason="old"), None, "refused"),
        ("finishing", None, None, "draining"),
        ("sampling", None, Wish(command_id="x", state="finish"), "draining"),
        ("paused", None, None, "paused"),
    ],
)
def test_states(desk: _Desk, phase: Phase, grant: Grant | None, wish: Wish | None, state: str) -> None:
    desk.tell(phase, grant, wish)
    assert desk.state == state


def test_a_silent_client_is_late_and_then_lost(desk: _Desk) -> None:
    desk.tell()
    desk.now += 6
    assert desk.state == "late"
    desk.now += 30
    assert desk.state == "lost"
    assert desk.client.age_s == 36
    desk.tell()
    assert desk.state == "online"


def test_the_reason_of_being_cut_off_is_told(desk: _Desk) -> None:
    desk.tell(
        grant=Grant(session="5-0", status="quarantined", reason="60 refused segments", rejected={"nan": 60})
    )
    client = desk.client
    assert client.error == "60 refused segments"
    assert client.rejected == {"nan": 60}
    assert (client.env_steps, client.episodes, client.env_steps_per_s) == (7, 3, 0)
    grant = Grant(session="5-0", status="accepted", share=0.25)
    for phase, share in (("sampling", 0.25), ("paused", None)):
        desk.tell(phase, grant=grant)  # type: ignore[arg-type]
        assert desk.client.share == share


@pytest.mark.parametrize("remote", [False, True])
def test_it_is_told_whether_an_inference_server_chooses_the_actions(desk: _Desk, remote: bool) -> None:
    desk.tell(remote=remote)
    assert desk.client.remote is remote


def test_the_run_is_what_the_client_plays_for(desk: _Desk) -> None:
    states = {"sampling": "running", "finishing": "running", "paused": "paused", "waiting": "waiting"}
    for phase, state in states.items():
        desk.tell(phase)  # type: ignore[arg-type]
        run = desk.reports.run(7, 3)
        assert (run.id, run.env_id, run.state) == ("run-1", "Toy-v0", state)
        assert (run.env_steps, run.episodes) == (7, 3)


def _report(*numbers: int, pid: int = 1, run: str = "a", of_run: str = "", steps: int = 0) -> ClientReport:
    usual: dict[str, Any] = {"run_id": of_run or run, "length": 10, "model_id": 1}
    episodes = [
        OwnEpisode(number=one, time=100.0 + one, env_steps=10 * (one + 1), total_return=float(one), **usual)
        for one in numbers
    ]
    beat = Heartbeat(client="c", instance=Instance(pid=pid), counter=1, run_id=run, env_steps=steps)
    return ClientReport(beat=beat, env_steps=steps, episodes=episodes)


class _Returns(OwnReturns):
    def rows(self, *numbers: int, **fields: Any) -> EpisodeRows:
        """Take a report that has something new."""
        found = self.take(_report(*numbers, **fields))
        assert found is not None
        return found


def test_episodes_of_overlapping_reports_are_taken_once_and_those_before_are_counted() -> None:
    returns = _Returns("c")
    first = returns.rows(0, 1, 2)
    assert (first.row, first.total_return, first.env_steps) == ([1, 2, 3], [0, 1, 2], [10, 20, 30])
    assert first.mean_return == [0, 0.5, 1]
    assert returns.rows(1, 2, 3).row == [4]
    assert returns.take(_report(1, 2, 3)) is None
    assert returns.episodes == 4
    assert returns.rows(7, 8).row == [5, 6], "some were missed"
    assert returns.episodes == 9
    returns = _Returns("c")
    assert returns.rows(304, 305, steps=3060).row == [1, 2]
    assert returns.episodes == 306
    returns.take(_report(0, pid=2, steps=12))
    assert (returns.episodes, returns.env_steps) == (307, 3060 + 12)


def test_another_process_goes_on_with_the_curve_and_another_run_begins_another() -> None:
    returns = _Returns("c")
    returns.take(_report(0, 1, steps=25))
    assert returns.take(_report(pid=3, run="")) is None, "it plays for nothing yet"
    assert (returns.run_id, returns.episodes, returns.env_steps) == ("a", 2, 25)
    rows = returns.rows(0, pid=2, steps=12)
    assert (rows.row, rows.env_steps) == ([3], [25 + 10])
    assert returns.env_steps == 25 + 12
    returns = _Returns("c")
    returns.take(_report(0, 1, steps=25))
    assert returns.take(_report(2, run="b", of_run="a", steps=5)) is None
    rows = returns.rows(0, run="b", steps=9)
    assert (rows.run_id, rows.row, rows.total_return) == ("b", [1], [0])
    assert (returns.run_id, returns.episodes, returns.env_steps) == ("b", 1, 9)


def test_history_ends_where_the_live_rows_go_on() -> None:
    returns = _Returns("c", kept=3)
    returns.take(_report(*range(5)))
    history = returns.history(HistoryQueryParams())
    assert (history.run_id, history.last_row) == ("a", 5)
    assert (history.row, history.value, history.attempt) == ([3, 4, 5], [2, 3, 4], [1, 1, 1])
    assert returns.rows(5).row == [6]


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ({"points": 4}, [1, 3, 5]),
        ({"x": "episode", "start": 2, "end": 3}, [2, 3]),
        ({"x": "env_step", "start": 31}, [4, 5]),
        ({"x": "time", "end": 101.5}, [1, 2]),
        ({"client": "c", "metric": "length"}, [1, 2, 3, 4, 5]),
        ({"client": "somebody else"}, []),
        ({"run": "a", "metric": "mean_return"}, [1, 2, 3, 4, 5]),
        ({"run": "b"}, None),
        ({"metric": "loss"}, None),
    ],
)
def test_history_answers_what_was_asked_or_refuses_what_is_not_here(
    asked: dict[str, Any], rows: list[int] | None
) -> None:
    returns = _Returns("c")
    returns.take(_report(*range(5)))
    if rows is not None:
        assert returns.history(HistoryQueryParams(**asked)).row == rows
        return
    with pytest.raises(Refused):
        returns.history(HistoryQueryParams(**asked))
