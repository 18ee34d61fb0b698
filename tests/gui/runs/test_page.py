from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QLineEdit, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from soulsgui.config.schema import shipped_with
from soulsgui.gui.runs.checkpoints import NoteDialog
from soulsgui.gui.runs.evaluate import EvaluateDialog
from soulsgui.gui.runs.page import RunsPage
from soulsgui.gui.widgets.agree import AgreeDialog
from soulsgui.gui.widgets.command_button import Stage
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import (
    CheckpointInfo,
    ConfigValues,
    Event,
    Experiment,
    Job,
    KeptEvaluation,
    QueuedRun,
    RunStatus,
    RunSummary,
    Status,
)
from soulsgui.wire.messages.server_config import Execution
from tests.gui.fake_feed import HELLO, LIVE, LOST, FakeFeed, FakeShell, refusal
from tests.gui.questions import answer, question
from tests.gui.reading import part_of, shown, words_of
from tests.gui.settings.test_form import BASE
from tests.states import checkpoint, checkpoint_row

ACTIVE = RunSummary(
    id="r3", name="lunar", state="running", env_id="LunarLander-v3", created=3.0, resumable=True
)
PAST = RunSummary(id="r2", name="cart", state="finished", env_id="CartPole-v1", created=2.0, resumable=True)
BARE = RunSummary(id="r1", name="early", state="failed", env_id="CartPole-v1", created=1.0)
REFUSED = {"run.resume": "It would end again at once."}
GOES_ON = RunStatus(id="r3", name="lunar", state="running", env_steps=700, checkpoint_age_s=61.0)
SAVED = checkpoint(id="checkpoint", kind="current", env_steps=100, updates=4, created=9.0)
TOLD = {"checkpoint": SAVED.model_dump(mode="json")}


def listed(*runs: RunSummary) -> dict[str, object]:
    return {"runs": [run.model_dump(mode="json") for run in runs]}


def checkpoints(*found: CheckpointInfo) -> dict[str, object]:
    return {"checkpoints": [one.model_dump(mode="json") for one in found]}


def job(command: str, state: str, **fields: object) -> dict[str, Any]:
    return {"id": "j1", "command": command, "state": state} | fields


def played(run: str, model_id: int) -> dict[str, Any]:
    """What an evaluation of 20 episodes came to."""
    found = {"run_id": run, "checkpoint": "/r", "model_id": model_id, "updates": 4, "env_steps": 100}
    found |= {
        "algorithm": "ppo",
        "agent": "",
        "env_id": "CartPole-v1",
        "episodes": 20,
        "seed": 3,
        "greedy": True,
    }
    found |= {"mean_return": 475.3, "std_return": 12.5, "min_return": 440.0, "max_return": 500.0}
    return found | {"mean_length": 475.0, "returns": [475.0], "lengths": [475], "seconds": 3.0}


@pytest.fixture
def server(fake: FakeFeed) -> FakeFeed:
    fake.status = Status(run=GOES_ON)
    fake.answers |= {
        "runs.list": listed(ACTIVE, PAST, BARE),
        "checkpoint.list": checkpoints(SAVED),
        "history.events": {"events": []},
    }
    return fake


@pytest.fixture
def page(qtbot: QtBot, server: FakeFeed, shell: FakeShell) -> RunsPage:
    made = shown(qtbot, RunsPage(server, shell))  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: made.chosen is not None and made.details.checkpoints.chosen is not None)
    return made


def choose(page: RunsPage, qtbot: QtBot, run: str) -> None:
    page.show_where(run=run)
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.id == run)
    qtbot.waitUntil(lambda: page.details.checkpoints.chosen is not None)


def test_a_list_that_is_known_is_not_said_to_be_empty_before_it_is_shown(
    page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    again = RunsPage(server, shell)  # type: ignore[arg-type]
    assert "No run yet" not in words_of(again.empty)
    again.deleteLater()


def test_without_runs_it_says_what_to_do_next(qtbot: QtBot, fake: FakeFeed, shell: FakeShell) -> None:
    fake.answers["runs.list"] = listed()
    page = shown(qtbot, RunsPage(fake, shell))  # type: ignore[arg-type]
    qtbot.waitUntil(page.empty.isVisible)
    page.empty.button.click()
    assert shell.opened == [("new_run", {"overrides": None, "preset": ""})]


def test_a_quicksave_has_the_replay_memory_where_there_is_one_and_tells_why_it_fails(
    page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    tab = page.details.checkpoints
    tab.note.setText("precious")
    for algorithm, offered in (("dqn", True), ("ppo", False), ("sac", True), ("vtrace", False)):
        server.change_run(GOES_ON.model_copy(update={"algorithm": algorithm}))
        assert tab.memory.isVisibleTo(tab) is offered
        tab.memory.setChecked(True)
        tab.save.click()
        sent = server.sent_of("checkpoint.save")[-1]
        assert sent.params["buffer"] is offered
        sent.call.refuse(refusal("The disk is full.", "Free 200 MB."))
        told = shell.told.pop()
        assert (told.level, told.text, told.detail) == ("error", "The disk is full.", "Free 200 MB.")
        assert tab.note.text() == "precious"
        assert tab.save.stage is Stage.FAILED


def test_a_quicksave_is_chosen_once_it_is_listed_and_notes_are_edited_of_it_and_of_its_run(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    tab = page.details.checkpoints
    saved = SAVED.model_copy(update={"id": "manual_save/1", "kind": "manual", "note": "precious"})
    server.answers |= {
        "checkpoint.save": {"checkpoint": saved.model_dump(mode="json")},
        "checkpoint.list": checkpoints(SAVED, saved),
    }
    tab.note.setText("precious")
    qtbot.keyClick(tab.note, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: tab.chosen == saved)
    assert (tab.note.text(), shell.told[-1].level) == ("", "success")
    assert server.sent_of("checkpoint.save")[-1].params["note"] == "precious"

    def edit(dialog: NoteDialog, command: str, answered: dict[str, Any], **params: str | None) -> None:
        server.answers[command] = answered
        dialog.note.setPlainText("does it hold?")
        with qtbot.waitSignal(dialog.accepted):
            dialog.save.click()
        assert server.sent_of(command)[-1].params == {"run": "r3", "note": "does it hold?"} | params

    tab.edit.trigger()
    dialog = part_of(page, NoteDialog)
    assert dialog.note.toPlainText() == "precious"
    edit(dialog, "checkpoint.edit", TOLD, path="manual_save/1")
    page.details.edit.click()
    dialog = page.details.findChildren(NoteDialog)[-1]
    dialog.name.setText("renamed")
    named = ACTIVE.model_copy(update={"name": "renamed"}).model_dump(mode="json")
    edit(dialog, "runs.edit", named, name="renamed")
    assert page.chosen is not None
    assert page.chosen.name == "renamed"


def test_the_settings_of_a_run_can_only_be_read_and_begin_another_one_but_those_of_the_server(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    details = page.details
    of_run = BASE | shipped_with(BASE) | {"ppo.n_steps": 64}
    told: dict[str, Any] = {"defaults": BASE, "run": of_run, "saved": {}, "running": {}}
    told |= dict.fromkeys(("text", "hash", "path"), "")
    server.answers["config.get"] = ConfigValues.model_validate(told)
    details.tabs.setCurrentWidget(details.settings)
    qtbot.waitUntil(lambda: details.settings.form is not None)
    form = details.settings.form
    assert form is not None
    editor = form.row("ppo.n_steps").editor
    assert (editor.read(), part_of(editor, QLineEdit).isReadOnly()) == ((64, ""), True)
    assert [key for key in BASE if form.edits.modified(key)] == ["ppo.n_steps"]
    page.activateWindow()
    qtbot.waitUntil(page.isActiveWindow)
    refresh = next(one for one in page.findChildren(QPushButton) if one.text() == "Refresh")
    for above, below in ((refresh, page.table), (details.tabs.tabBar(), part_of(form, FilterEdit))):
        above.setFocus()
        qtbot.keyClick(above, Qt.Key.Key_Tab)
        assert below.hasFocus(), "Tab goes downwards"
    with qtbot.waitSignal(details.again.finished):
        details.again.click()
    ((what, given),) = shell.opened
    assert (what, given["overrides"]["ppo.n_steps"]) == ("new_run", 64)
    assert "redis.port" not in given["overrides"]
    # A run from elsewhere may name what its settings would run here.
    told["asks"] = Execution(env_id="theirs:Game-v0")
    server.answers["config.get"] = ConfigValues.model_validate(told)
    with qtbot.waitSignal(details.again.finished):
        details.again.click()
    dialog = details.findChild(AgreeDialog)
    assert dialog is not None
    assert len(shell.opened) == 1
    dialog.run.click()
    assert len(shell.opened) == 2


def test_the_active_run_is_chosen_at_first_and_others_are_found_by_their_words(
    qtbot: QtBot, page: RunsPage, server: FakeFeed
) -> None:
    assert page.chosen is not None
    assert (page.chosen.id, page.chosen.env_steps) == ("r3", 700)
    choose(page, qtbot, "r2")
    page.words.setText("early")
    assert page.chosen == BARE
    page.words.setText("nothing like this")
    assert page.chosen is None
    assert not page.details.isEnabled()
    page.words.clear()
    assert page.chosen == PAST
    server.answers["checkpoint.list"] = checkpoints()
    page.show_where(run="r1")
    assert page.details.resume.isEnabled()
    assert "it has no checkpoint" in page.details.resume.toolTip()


def test_of_many_runs_none_is_compared_with_every_other_one(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [BARE.model_copy(update={"id": f"m{number}", "name": f"many {number}"}) for number in range(300)]
    server.answers["runs.list"] = listed(ACTIVE, PAST, *many)
    compared = []
    equal = RunSummary.__eq__
    monkeypatch.setattr(RunSummary, "__eq__", lambda one, other: compared.append(1) or equal(one, other))
    page.refresh()
    qtbot.waitUntil(lambda: page.model.rowCount() == 302)
    page.words.setText("many")
    page.words.clear()
    assert len(compared) < 10 * len(many)


def test_what_is_resumed_and_loaded_is_asked_about_while_a_run_goes_on(
    qtbot: QtBot, page: RunsPage, server: FakeFeed
) -> None:
    tab = page.details.checkpoints
    tab.load.click()
    assert "600 steps" in question(page).informativeText()
    answer(page, "Load")
    (sent,) = server.sent_of("checkpoint.load")
    assert sent.params == {"run": "r3", "path": "checkpoint"}
    sent.call.answer(job("checkpoint.load", "running"))
    assert tab.load.stage is Stage.RUNNING
    server.change_job(Job.model_validate(job("checkpoint.load", "done", result=TOLD)))
    assert tab.load.stage is Stage.DONE
    qtbot.waitUntil(lambda: page.findChild(QMessageBox) is None)
    choose(page, qtbot, "r2")
    assert not tab.resume.isHidden()
    assert "Let lunar continue" in tab.load.toolTip()
    page.details.resume.click()
    box = question(page)
    assert "lunar is stopped first" in box.informativeText()
    box.reject()
    qtbot.waitUntil(lambda: page.findChild(QMessageBox) is None)
    assert server.sent_of("run.resume") == []
    assert page.details.resume.stage is Stage.IDLE
    page.details.resume.click()
    answer(page, "Stop and resume")
    sent = server.sent_of("run.resume")[-1]
    assert sent.params == {"run": "r2", "if_active": "stop"}
    sent.call.answer({"run_id": "r2", "run_dir": "/r2"})
    assert page.details.resume.stage is Stage.DONE


def test_a_checkpoint_is_watched_unless_it_is_damaged(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    tab = page.details.checkpoints
    tab.watch.click()
    assert shell.opened == [("player", {"run": ACTIVE.id, "checkpoint": SAVED.id})]
    server.answers["checkpoint.list"] = checkpoints(SAVED.model_copy(update={"valid": False}))
    tab.refresh()
    qtbot.waitUntil(lambda: not tab.watch.isEnabled())
    assert "damaged" in tab.watch.toolTip()


def test_a_saved_checkpoint_is_listed_without_asking_and_an_answer_about_another_run_comes_too_late(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = page.details.checkpoints
    newer = SAVED.model_copy(update={"id": "best_model", "kind": "best", "created": 10.0})
    server.answers["checkpoint.list"] = checkpoints(newer, SAVED)
    listed_again: list[bool] = []
    with monkeypatch.context() as patch:
        patch.setattr(tab, "refresh", lambda: listed_again.append(True))
        server.bring_rows(checkpoint_row(5, "best", "best_model", run_id="r2"))
        assert listed_again == [], "that of another run is of no interest"
    server.bring_rows(checkpoint_row(5, "best", "best_model", run_id="r3"))
    qtbot.waitUntil(lambda: tab.model.row_of("best_model") == 0)
    assert tab.chosen == SAVED
    del server.answers["checkpoint.list"]
    tab.refresh()
    qtbot.waitUntil(lambda: not server.sent_of("checkpoint.list")[-1].call.over)
    late = server.sent_of("checkpoint.list")[-1].call
    page.show_where(run="r2")
    late.answer(checkpoints(newer))
    assert tab.model.rowCount() == 0


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_new_run_appears_on_top_and_is_chosen_unless_another_was_by_hand(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, by_hand: bool
) -> None:
    if by_hand:
        choose(page, qtbot, "r2")
    newer = ACTIVE.model_copy(update={"id": "r4", "name": "next", "created": 4.0})
    stopped = ACTIVE.model_copy(update={"state": "stopped"})
    server.answers["runs.list"] = listed(newer, stopped, PAST, BARE)
    server.change_run(RunStatus(id="r4", name="next", state="starting"))
    qtbot.waitUntil(lambda: page.model.row_of("r4") == 0)
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.id == ("r2" if by_hand else "r4"))


def event(number: int, what: str, **fields: str) -> Event:
    return Event(number=number, time=1.0, what=what, **({"level": "error", "run_id": "r3"} | fields))


def test_no_text_of_an_event_is_cut_where_there_is_room_and_what_says_nothing_takes_none(
    qtbot: QtBot, page: RunsPage, server: FakeFeed
) -> None:
    events, what = page.details.events, "redis ended unexpectedly, " * 5
    page.details.tabs.setCurrentWidget(events)
    page.resize(2400, 900)
    table, model = events.table, events.model
    whats, cause, remedy = (model.column_number(name) for name in ("what", "cause", "remedy"))
    server.bring_event(event(1, what))
    server.bring_event(event(2, "something else", run_id="r9"))
    assert [one.number for one in model.records] == [1], "they arrive as they happen, those of this run"
    assert table.isColumnHidden(cause)
    assert table.isColumnHidden(remedy)

    def fits(column: int) -> bool:
        return table.columnWidth(column) >= table.sizeHintForColumn(column) > 0

    qtbot.waitUntil(lambda: fits(whats))
    told = event(1, what, cause="killed", remedy="Wait.")
    server.answers["history.events"] = {"events": [told.model_dump(mode="json")]}
    page.refresh()
    qtbot.waitUntil(lambda: all(fits(column) for column in (whats, cause, remedy)))
    page.resize(900, 900)
    qtbot.waitUntil(lambda: not fits(whats))
    assert fits(cause), "what is short is whole also where there is little room"
    assert sum(table.columnWidth(each) for each in range(model.columnCount())) <= table.viewport().width()
    assert what in str(model.index(0, whats).data(Qt.ItemDataRole.ToolTipRole))
    table.selectRow(0)
    assert events.words.text() == f"{what}. killed. Wait", "the chosen one is told whole below the table"


def test_without_a_connection_all_stays_readable_and_everything_is_listed_again_afterwards_and_by_f5(
    qtbot: QtBot, page: RunsPage, server: FakeFeed
) -> None:
    def asked() -> tuple[int, int]:
        return len(server.sent_of("runs.list")), len(server.sent_of("checkpoint.list"))

    server.connect_as(LOST)
    assert page.chosen is not None
    assert not page.table.isEnabled()
    details = page.details
    for button in (details.resume, details.again, details.checkpoints.save, details.checkpoints.load):
        assert (button.isEnabled(), button.toolTip()) == (False, "Not connected to my-server.")
    runs, _ = asked()
    server.connect_as(LIVE)
    qtbot.waitUntil(lambda: asked()[0] == runs + 1)
    assert page.table.isEnabled()
    qtbot.waitUntil(lambda: all(sent.call.over for sent in server.sent))
    runs, saved = asked()
    qtbot.keyClick(page.table, Qt.Key.Key_F5)
    qtbot.waitUntil(lambda: asked() == (runs + 1, saved + 1))


def test_settings_that_can_not_be_read_and_a_folder_that_nothing_opens_are_told_of(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = page.details.settings
    server.answers["config.get"] = refusal("config.json: no configuration.", "Choose another run.")
    page.details.tabs.setCurrentWidget(settings)
    qtbot.waitUntil(lambda: "no configuration" in settings.words.text())
    assert settings.form is None
    server.hello = HELLO
    server.connect_as(LIVE)
    page.details.copy.trigger()
    assert QGuiApplication.clipboard().text().endswith("r3")
    server.hello = HELLO.model_copy(update={"data_dir": "D:\\data"})
    server.connect_as(LOST)
    server.connect_as(LIVE)
    page.details.copy.trigger()
    assert QGuiApplication.clipboard().text() == "D:\\data\\runs\\r3", "as paths are on its computer"
    server.hello = HELLO.model_copy(update={"data_dir": "/" + "x" * 300})
    server.connect_as(LOST)
    assert not page.details.open.isVisible()
    server.hello = HELLO
    for opened, level in ((False, "warning"), (True, "info")):
        monkeypatch.setattr(QDesktopServices, "openUrl", lambda _, opened=opened: opened)
        page.details.open.trigger()
        assert shell.told[-1].level == level
        assert shell.told[-1].detail.endswith("r3")


def test_a_run_that_reached_its_goal_goes_on_without_it(
    qtbot: QtBot, page: RunsPage, server: FakeFeed
) -> None:
    server.answers["runs.list"] = listed(
        ACTIVE, PAST.model_copy(update={"reached": "mean_return", "allowed": REFUSED}), BARE
    )
    server.answers["run.resume"] = {"run_id": "r2", "run_dir": "/r2"}
    assert page.details.without_goal.isHidden()
    page.refresh()
    choose(page, qtbot, "r2")
    qtbot.waitUntil(page.details.without_goal.isVisible)
    assert not page.details.resume.isEnabled()
    assert page.details.resume.toolTip() == REFUSED["run.resume"]
    # So would a run that is resumed from its newest checkpoint.
    tab = page.details.checkpoints
    qtbot.waitUntil(lambda: tab.chosen is not None and tab.resume.toolTip() == REFUSED["run.resume"])
    assert not tab.resume.isEnabled()
    page.details.without_goal.click()
    answer(page.details.without_goal, "Stop and resume")
    (sent,) = server.sent_of("run.resume")
    assert sent.params == {"run": "r2", "if_active": "stop", "without_goal": True}
    choose(page, qtbot, "r1")
    assert page.details.without_goal.isHidden()


def test_an_evaluation_stands_beside_its_checkpoint_in_every_window(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    tab = page.details.checkpoints
    tab.evaluate.click()
    dialog = part_of(page, EvaluateDialog)
    dialog.episodes.setValue(20)
    dialog.seed.setValue(3)
    dialog.main.click()
    (sent,) = server.sent_of("checkpoint.evaluate")
    how = {"episodes": 20, "seed": 3, "stochastic": False}
    assert sent.params == {"run": "r3", "checkpoint": "checkpoint"} | how
    sent.call.answer(job("checkpoint.evaluate", "running"))
    evaluation = tab.model.column_number("evaluation")
    assert tab.model.index(0, evaluation).data() == "—"
    kept = KeptEvaluation(**played("r3", 4), time=1.0)
    server.answers["checkpoint.list"] = checkpoints(SAVED.model_copy(update={"evaluated": kept}))
    server.change_job(Job.model_validate(job("checkpoint.evaluate", "done", result=played("r3", 4))))
    qtbot.waitUntil(lambda: tab.model.index(0, evaluation).data() == "475.3 ± 12.5")
    assert "440.0 to 500.0" in tab.model.index(0, evaluation).data(Qt.ItemDataRole.ToolTipRole)
    assert "475.3 ± 12.5" in shell.told[-1].text


def test_what_is_thrown_away_is_put_back_by_undo_and_kept_is_what_is_pinned_or_needed(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    details, tab = page.details, page.details.checkpoints
    assert not details.trash.isEnabled()
    assert details.trash.toolTip() == "It is running: stop it first."
    assert "in case of a crash" in tab.trash.toolTip()
    choose(page, qtbot, "r2")
    server.answers |= {"runs.trash": PAST, "checkpoint.trash": {}, "checkpoint.restore": TOLD}
    tab.trash.trigger()
    qtbot.waitUntil(lambda: bool(shell.told))
    place = {"run": "r2", "path": "checkpoint"}
    assert server.sent_of("checkpoint.trash")[-1].params == place
    shell.told.pop().action.act()
    assert server.sent_of("checkpoint.restore")[-1].params == place
    server.answers["runs.restore"] = PAST
    row = page.model.row_of("r2")
    assert row is not None
    details.trash.trigger()
    qtbot.waitUntil(lambda: bool(shell.told))
    assert page.selected == [page.model.at(row + 1)], "the next is chosen"
    assert server.sent_of("runs.trash")[-1].params == {"run": "r2"}
    assert "become free" in shell.told[-1].detail
    shell.told.pop().action.act()
    assert server.sent_of("runs.restore")[-1].params == {"run": "r2"}
    server.answers["runs.list"] = listed(ACTIVE, PAST.model_copy(update={"pinned": True}), BARE)
    page.refresh()
    qtbot.waitUntil(lambda: details.pin.text() == "Unpin")
    assert details.trash.toolTip() == "It is pinned: unpin it first."


def test_the_bin_lists_what_was_thrown_away_and_asks_before_it_is_emptied(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    gone = PAST.model_copy(update={"id": "r0", "size_bytes": 3_000_000})
    server.answers["runs.list"] = lambda params: listed(gone) if params.get("trashed") else listed(ACTIVE)
    server.answers["runs.purge"] = {"freed_bytes": 3_100_000}
    page.bin.click()
    qtbot.waitUntil(lambda: page.chosen == gone)
    assert page.thrown.isVisible()
    page.thrown.purge.click()
    assert question(page).text() == "Remove cart for good?"
    other = gone.model_copy(update={"id": "r9"})
    server.answers["runs.list"] = lambda params: listed(other) if params.get("trashed") else listed(ACTIVE)
    page.refresh()
    qtbot.waitUntil(lambda: page.chosen == other)
    answer(page, "Remove")
    assert server.sent_of("runs.purge") == []
    assert shell.told.pop().text == "What you were asked about has changed: nothing was done."
    server.answers["runs.list"] = lambda params: listed(gone) if params.get("trashed") else listed(ACTIVE)
    page.refresh()
    qtbot.waitUntil(lambda: page.chosen == gone)
    page.purge.click()
    assert "3.00 MB become free" in question(page).informativeText()
    answer(page, "Remove")
    qtbot.waitUntil(lambda: bool(shell.told))
    assert shell.told[-1].text == "3.10 MB became free"
    server.answers["runs.restore"] = gone
    qtbot.waitUntil(page.thrown.restore.isEnabled)
    page.thrown.restore.click()
    assert server.sent_of("runs.restore")[-1].params == {"run": "r0"}
    page.bin.click()
    qtbot.waitUntil(lambda: page.details.isVisible() and page.chosen is not None and page.chosen.id == "r3")


SEEDS = [
    RunSummary(
        id=f"2026-01-01_10-00-0{seed}_wide-seed-{seed}",
        name=f"wide seed {seed}",
        experiment="2026-01-01_10-00-00_wide",
        state="finished",
        reached="env_steps",
        seed=seed,
        env_steps=1000,
        best_mean_return=400.0 + seed,
        created=0.5,
    )
    for seed in (1, 2)
]


def test_the_queue_stands_below_the_active_run_and_its_runs_are_moved_and_taken_out(
    qtbot: QtBot, page: RunsPage, server: FakeFeed
) -> None:
    differs = "ppo.clip = 0.1, else as preset cartpole_ppo"
    waiting = [QueuedRun(number=4, name="next"), QueuedRun(number=7, name="later", config_summary=differs)]
    server.change_queue(waiting)
    assert [page.model.name_at(row) for row in range(3)] == ["r3", "queued 4", "queued 7"]
    page.show_where(run="queued 7")
    state = page.model.column_number("state")
    assert page.model.index(2, state).data() == "Place 2"
    assert page.table.columnWidth(state) >= page.table.sizeHintForColumn(state) > 0, "it is not cut"
    assert page.model.index(2, page.model.column_number("note")).data() == differs
    panel = page.queue
    assert panel.isVisible()
    assert f"the settings it was queued with: {differs}." in words_of(panel)
    assert "place 2 of 2 · number 7 · " in words_of(panel), "as the command line calls it"
    assert not panel.buttons["later"].isEnabled()
    assert panel.buttons["all"].isHidden()
    panel.buttons["first"].click()
    assert server.sent_of("run.queue.move")[-1].params == {"number": 7, "place": 1}
    server.change_queue(waiting[::-1])
    assert not panel.buttons["first"].isEnabled()
    panel.buttons["remove"].click()
    answer(panel, "Take out")
    assert server.sent_of("run.queue.remove")[-1].params == {"which": "7"}
    server.change_queue(waiting[:1])
    assert page.chosen is not None
    assert page.chosen.id == "r3"


def test_the_seeds_of_an_experiment_stand_below_its_mean_and_are_shown_on_demand(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    name = SEEDS[0].experiment
    statistics = Experiment(
        id=name, scored=2, mean=401.5, deviation=0.7, iqm=401.5, low=401.0, high=402.0, runs=SEEDS
    )
    server.answers |= {
        "runs.list": listed(ACTIVE, *SEEDS, BARE),
        "experiments.list": {"experiments": [statistics.model_dump(mode="json")]},
        "experiments.show": statistics,
    }
    page.refresh()
    qtbot.waitUntil(lambda: page.model.row_of(name) == 2)
    best = page.model.column_number("best")
    qtbot.waitUntil(lambda: page.model.index(2, best).data() == "401.5 ± 0.700")
    assert page.model.row_of(SEEDS[0].id) is None
    page.show_where(run=name)
    assert page.group.isVisible()
    qtbot.waitUntil(lambda: "401.0 to 402.0" in page.group.experiment.words.text())
    page.group.curves.click()
    assert shell.shown[-1] == ("plots", {"experiments": [name]})
    page.group.experiment.table.selectRow(1)
    qtbot.keyClick(page.group.experiment.table, Qt.Key.Key_Return)
    assert page.chosen is not None
    assert page.chosen.id == SEEDS[1].id, "one of its runs is opened from its statistics"
    page.show_where(run=name)
    page.model.toggle(page.chosen)
    qtbot.keyClick(page.table, Qt.Key.Key_Return)
    assert {page.model.name_at(3), page.model.name_at(4)} == {one.id for one in SEEDS}
    page.words.setText("seed 2")
    assert [page.model.name_at(row) for row in range(page.model.rowCount())] == [name, SEEDS[1].id]


def test_the_duration_of_a_run_is_not_cut(qtbot: QtBot, page: RunsPage, server: FakeFeed) -> None:
    long = PAST.model_copy(update={"seconds": 60 * 58 + 58})
    server.answers["runs.list"] = listed(long)
    page.resize(1150, 700)
    page.refresh()
    qtbot.waitUntil(lambda: list(page.model.records) == [long])
    column = page.model.column_number("seconds")
    assert page.table.columnWidth(column) >= page.table.sizeHintForColumn(column) > 0


def test_rows_that_the_filter_hides_leave_a_selection_together(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [PAST.model_copy(update={"id": f"r{n}", "name": ("odd", "even")[n % 2]}) for n in range(200)]
    server.answers["runs.list"] = listed(*many)
    page.refresh()
    qtbot.waitUntil(lambda: page.model.rowCount() == len(many))
    page.table.selectAll()
    qtbot.waitUntil(page.compare.isVisible)
    shown: list[int] = []
    monkeypatch.setattr(page.compare, "show_rows", lambda rows: shown.append(len(rows)))
    page.words.setText("even")
    left = page.model.rowCount()
    assert left < len(many)
    assert shown == [left]


def test_a_run_that_waits_is_not_compared(qtbot: QtBot, page: RunsPage, server: FakeFeed) -> None:
    server.change_queue([QueuedRun(number=4, name="next")])
    page.table.selectAll()
    qtbot.waitUntil(page.compare.isVisible)
    assert "A run that waits in the queue has nothing to compare yet." in words_of(page.compare)
    assert not server.sent_of("runs.compare")


def test_a_run_and_an_experiment_are_not_compared(qtbot: QtBot, page: RunsPage, server: FakeFeed) -> None:
    member = PAST.model_copy(update={"id": "r4", "experiment": "e"})
    server.answers["runs.list"] = listed(ACTIVE, member)
    page.refresh()
    qtbot.waitUntil(lambda: any(row.id == "e" for row in page.model.records))
    page.table.selectAll()
    qtbot.waitUntil(page.compare.isVisible)
    assert words_of(page.compare).startswith("2 selected\nTo compare, select either runs or experiments.")
    assert not page.compare.table.isVisible()
    page.table.selectRow(0)


def test_two_runs_are_compared_and_their_rows_copied(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    differing = {"normalize.reward_clip": [None, 1.0], "ppo.epochs": [4], "ppo.gamma": [0.99, 0.9]}
    reached = PAST.model_copy(update={"reached": "mean_return"})
    server.answers["runs.compare"] = {"runs": listed(reached, BARE)["runs"], "settings": differing}
    page.table.selectAll()
    qtbot.waitUntil(page.compare.isVisible)
    page.table.selectRow(1)
    qtbot.waitUntil(page.details.isVisible)
    page.details.curves.click()
    assert shell.shown == [("plots", {"runs": ["r2"]})]
    selection = page.table.selectionModel()
    flags = selection.SelectionFlag.Select | selection.SelectionFlag.Rows
    selection.select(page.model.index(2, 0), flags)
    qtbot.waitUntil(page.compare.isVisible)
    qtbot.waitUntil(lambda: page.compare.table.model().rowCount() > 0)
    assert server.sent_of("runs.compare")[-1].params == {"runs": ["r2", "r1"]}
    assert page.compare.warning.isVisible()
    assert page.compare.warning.text().startswith("The runs differ in normalize.reward_clip: their losses")
    model = page.compare.table.model()
    compared = [model.index(row, 0).data() for row in range(model.rowCount())]
    assert "Mean return of the best model" in compared
    for place in range(2):
        assert page.compare.table.columnWidth(place) >= page.compare.table.sizeHintForColumn(place) > 0
    short = [model.index(compared.index("ppo.epochs"), column).data() for column in range(3)]
    assert short == ["ppo.epochs", "4", "—"]  # what the answer of an odd server lacks
    last = model.rowCount() - 1
    assert [model.index(last, place).data() for place in range(3)] == ["ppo.gamma", "0.99", "0.9"]
    page.table.copy_rows()
    head, *lines = QGuiApplication.clipboard().text().split("\n")
    assert head.startswith("State\tName\tEnvironment")
    assert [line.split("\t")[1] for line in lines] == ["cart", "early"]
    page.compare.curves.click()
    assert shell.shown[-1] == ("plots", {"runs": ["r2", "r1"], "experiments": []})


def test_the_room_of_the_list_is_remembered_while_a_run_is_active(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    page.resize(1120, 700)
    qtbot.waitUntil(lambda: sum(page._splitter.sizes()) > 500)
    upper, lower = page._splitter.sizes()
    page._splitter.setSizes([upper + 36, lower - 36])
    kept = page._splitter.sizes()
    page.hide()
    again = shown(qtbot, RunsPage(server, shell), 1120, 700)  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: again.details.checkpoints.chosen is not None)
    qtbot.waitUntil(lambda: again._splitter.sizes() == kept)


def test_the_columns_of_every_table_stay_as_they_were_left(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    def tables(of: RunsPage) -> tuple[Table, ...]:
        return (
            of.table, of.details.checkpoints.table, of.details.videos.table, of.group.experiment.table,
        )  # fmt: skip

    for table in tables(page):
        table.setColumnWidth(1, 222)
    page.hide()
    again = RunsPage(server, shell)  # type: ignore[arg-type]
    qtbot.addWidget(again)
    assert [table.columnWidth(1) for table in tables(again)] == 4 * [222]


def test_an_event_leads_to_the_log_at_its_moment(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    events = page.details.events
    page.details.tabs.setCurrentWidget(events)
    server.bring_event(event(1, "redis ended", service="redis"))
    events.table.selectRow(0)
    events.log.click()
    assert shell.shown[-1] == ("logs", {"service": "redis", "run": "r3", "time": 1.0})


def test_the_tab_of_a_run_that_was_in_front_comes_back_at_the_next_start(
    qtbot: QtBot, page: RunsPage, server: FakeFeed, shell: FakeShell
) -> None:
    page.details.tabs.setCurrentWidget(page.details.events)
    page.hide()
    again = shown(qtbot, RunsPage(server, shell))  # type: ignore[arg-type]
    assert again.details.tabs.currentWidget() is again.details.events
