"""The lists of runs and presets are asked for once, and again when something has changed them."""

from collections.abc import Callable
from functools import partial

import pytest
from pytestqt.qtbot import QtBot

from soulsgui.wire.control import AuditEntry, ErrorCode, RunStatus, RunSummary
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, refusal

RUNS = "runs.list"


def told(*ids: str) -> dict[str, list[dict[str, object]]]:
    return {"runs": [RunSummary(id=one).model_dump(mode="json") for one in ids]}


@pytest.fixture
def asked(qtbot: QtBot, fake: FakeFeed) -> Callable[[int], None]:
    """Waits until the runs were asked for so many times, and answered, and sees that it is not more."""

    def wait(times: int) -> None:
        sent = partial(fake.sent_of, RUNS)
        qtbot.waitUntil(lambda: len(sent()) >= times and all(one.call.over for one in sent()))
        qtbot.wait(120)
        assert len(sent()) == times

    return wait


def command(name: str, outcome: str = "done") -> AuditEntry:
    return AuditEntry(number=1, time=0.0, command=name, outcome=outcome)


def test_it_is_asked_for_when_somebody_wants_it_and_when_it_may_be_another(
    qtbot: QtBot, fake: FakeFeed, asked: Callable[[int], None]
) -> None:
    runs = fake.lists.runs
    fake.answers[RUNS] = told("a")
    fake.take_snapshot(fake.status)
    asked(0)  # nobody wants it
    runs.want()
    runs.want()
    asked(1)
    assert [run.id for run in runs.entries] == ["a"]
    runs.want()
    fake.change_run(RunStatus(id="a", state="running", updates=1))
    fake.change_run(RunStatus(id="a", state="running", updates=2))
    asked(2)
    for entry in (command("runs.trash", ""), command("clients.pause"), command("config.save")):
        fake.bring_audit(entry)
    asked(2)  # what has not ended, or is not of runs, changes none
    fake.answers[RUNS] = told("b", "a")
    with qtbot.waitSignal(runs.changed):
        fake.bring_audit(command("runs.import"))
    asked(3)
    with qtbot.assertNotEmitted(runs.changed):
        fake.connect_as(LOST)
        fake.connect_as(LIVE)
        asked(4)
    fake.forget(remote=False)
    assert (runs.known, runs.entries) == (False, [])


def test_what_is_refused_is_told_and_what_comes_late_is_taken(qtbot: QtBot, fake: FakeFeed) -> None:
    runs = fake.lists.runs
    runs.want()
    qtbot.waitUntil(lambda: len(fake.sent_of(RUNS)) == 1)
    call = fake.sent_of(RUNS)[-1].call
    with qtbot.waitSignal(runs.failed):
        call.silent.emit(refusal("No answer.", code=ErrorCode.NO_ANSWER))
    call.answer(told("a"))
    assert [run.id for run in runs.entries] == ["a"]
    fake.answers[RUNS] = refusal("The library is damaged.")
    with qtbot.waitSignal(runs.failed) as failed:
        runs.renew()
    assert failed.args[0].message == "The library is damaged."
    assert runs.known, "what was known stays"
