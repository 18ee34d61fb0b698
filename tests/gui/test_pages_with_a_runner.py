"""Pages before a real runner: what they show is what it has; their controls act on files, processes, guests.

All tests share the server, the later ones its run, too: beginning one takes longer than most of what they do.
"""

import json
import os
import re
import signal
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import redis
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.config.layers import combine, defaults_layer
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import RunFolder
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.clients.page import ClientsPage
from soulsgui.gui.config.running import RunningTab
from soulsgui.gui.feed import Feed
from soulsgui.gui.logs.page import LogsPage
from soulsgui.gui.overview.page import OverviewPage
from soulsgui.gui.plots.page import PlotsPage
from soulsgui.gui.plotting.rows import Axis
from soulsgui.gui.runs.checkpoints import NoteDialog
from soulsgui.gui.runs.evaluate import EvaluateDialog
from soulsgui.gui.runs.page import RunsPage
from soulsgui.gui.text import NOTHING
from soulsgui.gui.watching import recording
from soulsgui.gui.watching.player import Player
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.training.checkpoint import write_checkpoint
from soulsgui.wire.connection import AWAY, connect
from soulsgui.wire.control import History, RunSummary
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import UNHURRIED, RunningServer, let_play
from tests.faults.waiting import LIMIT_S, until
from tests.gui.fake_feed import FakeShell
from tests.gui.plotting.curves import drawn
from tests.gui.questions import answer
from tests.gui.reading import choose, part_of, shown, words_of
from tests.modes.test_evaluate_command import balancing

OVERRIDES = {
    **UNHURRIED,
    "env.num_envs": 1,
    "clients.local": 2,
    "ppo.epochs": 1,
    "ppo.round_timeout": 4.0,
    "checkpoint.every_updates": 2,
}


@pytest.fixture(scope="module")
def run(server: RunningServer) -> RunFolder:
    """A run without a goal and with two local clients, which goes on before and after each test."""
    return RunFolder(server.start_run(name="first", overrides=OVERRIDES))


@pytest.fixture
def page(qtbot: QtBot, feed: Feed, shell: FakeShell, request: pytest.FixtureRequest) -> QWidget:
    return shown(qtbot, request.param(feed, shell), 1120, 710)


def click(qtbot: QtBot, button: QPushButton) -> None:
    qtbot.waitUntil(button.isEnabled)
    button.click()


def is_let_in(invitation: Invitation) -> bool:
    connection = connect(invitation.address(*invitation.addresses[0]))
    try:
        return bool(connection.ping())
    except (redis.AuthenticationError, *AWAY):
        return False
    finally:
        connection.close()


@pytest.mark.parametrize("page", [ClientsPage], indirect=True)
def test_a_computer_is_invited_told_to_pause_and_revoked(
    qtbot: QtBot, page: ClientsPage, feed: Feed, server: RunningServer
) -> None:
    dialog = shown(qtbot, InviteDialog(feed))
    dialog.name.setText("gamer-11")
    dialog.name.textEdited.emit("gamer-11")
    click(qtbot, dialog.invite)
    qtbot.waitUntil(lambda: bool(dialog.link.text()))
    invitation = Invitation.parse(dialog.link.text())
    until(lambda: server.pid("gateway") and is_let_in(invitation), "the gateway lets it in")
    qtbot.waitUntil(lambda: page.roster.model.row_of("gamer-11") is not None)
    page.roster.choose("gamer-11")
    click(qtbot, page.roster.buttons["pause"])
    qtbot.waitUntil(lambda: "will pause" in page.details.values["state"].text())
    with server.redis() as connection:
        assert json.loads(connection.get("souls:to:gamer-11") or "")["state"] == "pause"
    page.roster.entries["revoke"].trigger()
    answer(page, "Revoke")
    qtbot.waitUntil(lambda: page.details.values["state"].text() == "Revoked")
    assert not is_let_in(invitation)


@pytest.mark.parametrize("page", [LogsPage], indirect=True)
def test_lines_of_a_service_appear_when_they_are_written(
    qtbot: QtBot, page: LogsPage, server: RunningServer
) -> None:
    page.show_where(service="redis")
    with (server.data / "server" / "logs" / "redis.log").open("a", encoding="utf-8") as file:
        file.write("2026-11-20 10:00:00.000 ERROR no space left\n")
    qtbot.waitUntil(lambda: "no space left" in page.pane.text)


@pytest.fixture
def checkpoint(server: RunningServer) -> RunSummary:
    """That of a run that nobody trains; its episodes are cut at 30 steps."""
    library = Library(server.data / "runs")
    made = library.create("cart", time.time())
    library.write_record(made, RunRecord(id=made.run_id, name="cart", created=1.0, state="stopped"))
    cut = [{"TimeLimit": {"max_episode_steps": 30}}]
    values = {"env.id": "CartPole-v1", "env.wrappers": cut}
    library.write_settings(made, combine([defaults_layer(), Layer("test", values)]))
    write_checkpoint(made.checkpoint, balancing(4000, run_id=made.run_id))
    return RunSummary(id=made.run_id, name="cart", state="stopped", env_id="CartPole-v1")


def test_a_checkpoint_is_watched_waits_and_is_filmed(
    qtbot: QtBot,
    feed: Feed,
    shell: FakeShell,
    server: RunningServer,
    checkpoint: RunSummary,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording, "_ENOUGH", 8)
    monkeypatch.setattr(recording, "_FEW", 4)
    player = shown(qtbot, Player(feed, shell, checkpoint))
    (pane,) = player.panes
    qtbot.waitUntil(lambda: pane.recording.place > 3)
    assert pane.picture.image.size().toTuple() == (600, 400)
    assert pane.heading.text() == "Probabilities"
    player.play.click()
    rests = pane.recording.place
    qtbot.waitUntil(lambda: list(feed.watched.values()) == [0.0])  # enough has come
    came = []
    for film in (tmp_path / "film.gif", tmp_path / "again.gif"):
        pane.film(str(film), 0)
        said = f"The video is saved: {film}"
        qtbot.waitUntil(lambda said=said: let_play(server.process.pid) and pane.of_film.text() == said)
        assert film.read_bytes().startswith(b"GIF89a")
        came.append(len(pane.recording))
    assert list(tmp_path.glob(".*")) == []
    # Meanwhile the evaluation waited; during the first film came what was on its way.
    assert (pane.recording.place, pane.over, came[1]) == (rests, False, came[0])
    # An episode that has not been played yet is played from its own seed.
    pane.episode.activated.emit(7)
    qtbot.waitUntil(lambda: pane.recording.shown is not None)
    assert (pane.episode.currentText(), pane.facts["Seed"].text()) == ("8 of 10", "7")
    qtbot.waitUntil(lambda: len(feed.watched) == 1)
    (watched,) = feed.watched
    player.close()
    qtbot.waitUntil(lambda: server.api.job(watched).state == "cancelled")
    assert feed.watched == {}


@pytest.mark.parametrize("page", [PlotsPage], indirect=True)
def test_curves_grow_with_the_run_and_are_those_of_the_store(
    qtbot: QtBot, page: PlotsPage, server: RunningServer, run: RunFolder, feed: Feed
) -> None:
    page.show_where(metric="policy_loss")
    qtbot.waitUntil(
        lambda: len(page.grid.cells) == 2 and all(cell.curves for cell in page.grid.cells.values())
    )
    series = [cell.curves[0][0].series for cell in page.grid.cells.values()]
    qtbot.waitUntil(lambda: all(len(one) > 3 for one in series))
    assert {one.run_id for one in series} == {run.run_id}
    server.api.command("run.pause")
    qtbot.waitUntil(lambda: feed.status.run.state == "paused")
    choose(page.controls.axis_box, Axis.UPDATE)
    for cell in page.grid.cells.values():
        asked = {"run": run.run_id, "metric": cell.shown_metric, "x": "update"}

        def is_as_stored(cell=cell, asked=asked) -> bool:
            stored = History.model_validate(server.api.command("history.query", asked))
            points = sorted(zip(map(float, stored.update), stored.value, strict=True))
            shown_now = sorted(drawn(cell.curves[0][0].series))
            return len(points) > 3 and shown_now == [(x, pytest.approx(y)) for x, y in points]

        qtbot.waitUntil(is_as_stored)
    server.api.command("run.continue")


def eventually(qtbot: QtBot, seen: Callable[[], object]) -> None:
    qtbot.waitUntil(lambda: bool(seen()))


def summed_up(rows: Iterable[tuple[float, float]], count: int) -> tuple[float, ...]:
    xs, values = zip(*rows, strict=True)
    ends = [float(f"{value:.5g}") for value in (min(values), max(values))]
    return count, max(xs), *ends


def same_rows_soon(qtbot: QtBot, page: OverviewPage, feed: Feed) -> None:
    """Wait until as many rows are drawn as are stored, with the same ends: of a long run they are buckets."""
    series, deadline = page.plot.curve.series, time.monotonic() + LIMIT_S
    asked = {"run": series.run_id, "metric": series.metric, "points": 200_000}
    while True:
        with qtbot.waitSignal(feed.call("history.query", asked).done) as answered:
            pass
        stored = answered.args[0]
        there = summed_up(zip(stored.env_steps, stored.value, strict=True), len(stored.value))
        seen = summed_up(drawn(series) + drawn(series, overwritten=True), len(series))
        if seen == there:
            break
        assert time.monotonic() < deadline, (seen, there)
        qtbot.wait(100)
    assert len(stored.value) > 5


@pytest.mark.parametrize("page", [OverviewPage], indirect=True)
def test_after_a_killed_trainer_the_card_counts_down_and_the_curve_goes_on_without_gap_or_double(
    qtbot: QtBot, page: OverviewPage, server: RunningServer, run: RunFolder, feed: Feed
) -> None:
    eventually(qtbot, lambda: page.plot.curve.complete and page.clients.model.rowCount() >= 2)
    card, series = page.services.cards["trainer"], page.plot.curve.series
    words: list[str] = []
    feed.services_changed.connect(lambda _: words.append(words_of(card)))
    eventually(qtbot, lambda: feed.status.run.checkpoint_env_steps is not None and len(series) > 20)

    def counted_down() -> bool:
        crash = [one for one in words if "killed by signal 9 (SIGKILL)" in one]
        return any(re.search(r"Restarting in \d+ s \(\d/5\)", one) for one in crash)

    # The first pause is half a second, which a busy machine may miss; each further one is twice as long.
    while not counted_down():
        before = feed.status.run.attempt
        (pid,) = [found.pid for found in feed.status.services if found.name == "trainer"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(qtbot, lambda before=before: feed.status.run.attempt > before)
    known = len(series)
    eventually(qtbot, lambda: len(series) > known + 20 and feed.status.run.updates > 5)

    def counts_the_restart() -> None:
        assert re.search(r"\d restart", words_of(card)), "\n".join(words[-5:])

    qtbot.waitUntil(counts_the_restart)
    eventually(qtbot, lambda: any(mark.text.startswith("Attempt 2") for mark in page.plot.marks.marks))

    page.clients.choose("client-1", "client-2")
    page.clients.buttons["pause"].click()
    for name in ("client-1", "client-2"):
        eventually(qtbot, lambda name=name: server.client_state(name) == "paused")
    for metric in ("return", "policy_loss"):
        choose(page.plot.controls.metric_box, metric)
        eventually(qtbot, lambda: page.plot.curve.is_loaded and len(page.plot.curve.series))
        # A round that was under way may still be closed: both sides are looked at until they agree.
        same_rows_soon(qtbot, page, feed)
    eventually(qtbot, page.clients.buttons["resume"].isEnabled)
    page.clients.buttons["resume"].click()
    updates = server.status().run.updates
    eventually(qtbot, lambda: server.status().run.updates > updates + 2)


@pytest.mark.parametrize("page", [RunsPage], indirect=True)
def test_a_run_is_noted_saved_loaded_evaluated_changed_stopped_and_resumed(
    qtbot: QtBot,
    page: RunsPage,
    feed: Feed,
    shell: FakeShell,
    server: RunningServer,
    run: RunFolder,
    tmp_path: Path,
) -> None:
    details, tab = page.details, page.details.checkpoints
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.env_steps > 0)
    click(qtbot, details.edit)
    dialog = part_of(page, NoteDialog)
    dialog.note.setPlainText("does it hold?")
    with qtbot.waitSignal(dialog.accepted):
        dialog.save.click()
    assert json.loads(run.run.read_text())["note"] == "does it hold?"

    qtbot.waitUntil(tab.save.isEnabled)
    tab.note.setText("before the change")
    with qtbot.waitSignal(tab.save.finished):
        qtbot.keyClick(tab.note, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: tab.chosen is not None and tab.chosen.kind == "manual")
    assert (run.root / tab.chosen.id / "note.txt").read_text() == "before the change"

    before = server.status().run
    tab.load.click()
    with qtbot.waitSignal(tab.load.finished):
        answer(page, "Load")
    now = server.status().run
    assert (now.id, now.attempt) == (before.id, before.attempt + 1)

    click(qtbot, tab.evaluate)
    dialog = part_of(page, EvaluateDialog)
    dialog.episodes.setValue(1)
    dialog.main.click()
    evaluation = tab.model.column_number("evaluation")
    qtbot.waitUntil(lambda: tab.model.index(tab.table.currentIndex().row(), evaluation).data() != NOTHING)

    running = shown(qtbot, RunningTab(feed, shell))  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: running.form is not None and running.form.isEnabled())
    assert running.form is not None
    (line,) = running.form.row("ppo.clip").findChildren(QLineEdit)
    line.setText("0.15")
    line.textEdited.emit("0.15")
    running.keep.setChecked(False)
    with qtbot.waitSignal(running.apply.finished):
        running.apply.click()
    assert json.loads(run.config.read_text())["ppo"]["clip"] == 0.15

    server.api.command("run.start", {"name": "later", "if_active": "queue", "overrides": OVERRIDES})
    (waiting,) = server.status().queue
    qtbot.waitUntil(lambda: page.model.row_of(f"queued {waiting.number}") is not None)
    page.show_where(run=f"queued {waiting.number}")
    click(qtbot, page.queue.buttons["remove"])
    with qtbot.waitSignal(page.queue.buttons["remove"].finished):
        answer(page, "Take out")
    assert server.status().queue == []

    # It may take long, and meanwhile the feed is to be heard.
    with qtbot.waitSignal(feed.call("run.stop").done):
        pass
    page.show_where(run=run.run_id)
    _goes_out_and_comes_in(qtbot, page, shell, run, tmp_path)
    page.show_where(run=run.run_id)
    qtbot.waitUntil(details.resume.isEnabled)
    with qtbot.waitSignal(details.resume.finished):
        details.resume.click()
    assert (server.status().run.id, server.status().run.attempt) == (run.run_id, before.attempt + 2)


def _goes_out_and_comes_in(
    qtbot: QtBot, page: RunsPage, shell: FakeShell, run: RunFolder, folder: Path
) -> None:
    """Export a run, take it in again, throw that away, undo this, and remove it for good."""
    file = folder / "first.soulsrun"
    page.details.export_to(run.run_id, str(file))
    qtbot.waitUntil(file.exists)
    assert zipfile.is_zipfile(file)
    page.import_from(str(file))
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.id != run.run_id)
    assert page.chosen is not None
    copy = run.root.parent / page.chosen.id
    assert (copy / "run.json").exists()
    page.details.trash.trigger()
    qtbot.waitUntil(lambda: not copy.exists())
    qtbot.waitUntil(lambda: shell.told[-1].action is not None)
    shell.told[-1].action.act()
    qtbot.waitUntil(copy.exists)
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.id == copy.name)
    page.details.trash.trigger()
    qtbot.waitUntil(lambda: not copy.exists())
    page.bin.click()
    qtbot.waitUntil(lambda: page.chosen is not None and page.chosen.id == copy.name)
    click(qtbot, page.thrown.purge)
    with qtbot.waitSignal(page.thrown.changed):
        answer(page, "Remove")
    assert not (run.root.parent.parent / "trash" / "runs" / copy.name).exists()
