"""How the client is, told from its own reports."""

import os
from pathlib import Path

import pytest

from soulsgui.runner.join.reports import Reports
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat, Phase
from soulsgui.wire.messages.owner import ClientFolder, ClientReport
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
        self, phase: Phase = "sampling", grant: Grant | None = None, wish: Wish | None = None, error: str = ""
    ) -> None:
        self.counter += 1
        beat = Heartbeat(
            client="c",
            instance=Instance(host="here", pid=PID),
            counter=self.counter,
            phase=phase,
            session="5-0",
            run_id="run-1",
            env_id="Toy-v0",
            env_steps_per_s=20.0,
            error=error,
        )
        report = ClientReport(beat=beat, grant=grant, wish=wish)
        self.folder.state.write_text(report.to_json())
        # Files of one moment differ in nothing else.
        os.utime(self.folder.state, ns=(self.counter, self.counter))
        assert self.reports.read() == report

    def state(self) -> str:
        return self.reports.client("c", "run", 0, 0).state


@pytest.fixture
def desk(tmp_path: Path) -> _Desk:
    return _Desk(tmp_path)


def test_nothing_is_known_before_the_first_report(desk: _Desk) -> None:
    assert desk.reports.read() is None
    assert not desk.reports.health().ready
    assert desk.state() == "left"
    assert desk.reports.run(0, 0).state == "none"


def test_a_report_is_read_once(desk: _Desk) -> None:
    desk.tell()
    assert desk.reports.read() is None


def test_damaged_reports_are_passed_over(desk: _Desk) -> None:
    desk.tell()
    desk.folder.state.write_text('{"beat": ')
    assert desk.reports.read() is None
    assert desk.state() == "online"


def test_health_moves_with_the_reports_of_the_supervised_process_alone(desk: _Desk) -> None:
    desk.tell()
    assert (desk.reports.health().ready, desk.reports.health().tick) == (True, 1)
    desk.pid = PID - 1
    assert not desk.reports.health().ready
    assert desk.state() == "left"


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
    assert desk.state() == state


def test_a_silent_client_is_late_and_then_lost(desk: _Desk) -> None:
    desk.tell()
    desk.now += 6
    assert desk.state() == "late"
    desk.now += 30
    assert desk.state() == "lost"
    assert desk.reports.client("c", "run", 0, 0).age_s == 36
    desk.tell()
    assert desk.state() == "online"


def test_the_reason_of_being_cut_off_is_told(desk: _Desk) -> None:
    desk.tell(
        grant=Grant(session="5-0", status="quarantined", reason="60 refused segments", rejected={"nan": 60})
    )
    client = desk.reports.client("c", "run", 7, 3)
    assert client.error == "60 refused segments"
    assert client.rejected == {"nan": 60}
    assert (client.env_steps, client.episodes, client.env_steps_per_s) == (7, 3, 0)


def test_the_share_is_the_one_the_trainer_tells_while_it_plays(desk: _Desk) -> None:
    grant = Grant(session="5-0", status="accepted", share=0.25)
    desk.tell(grant=grant)
    assert desk.reports.client("c", "run", 7, 3).share == 0.25
    desk.tell("paused", grant=grant)
    assert desk.reports.client("c", "run", 7, 3).share is None


@pytest.mark.parametrize(
    ("phase", "state"),
    [("sampling", "running"), ("finishing", "running"), ("paused", "paused"), ("waiting", "waiting")],
)
def test_the_run_is_what_the_client_plays_for(desk: _Desk, phase: Phase, state: str) -> None:
    desk.tell(phase)
    run = desk.reports.run(7, 3)
    assert (run.id, run.env_id, run.state) == ("run-1", "Toy-v0", state)
    assert (run.env_steps, run.episodes) == (7, 3)
