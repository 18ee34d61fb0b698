"""The player before a real runner: what a checkpoint plays is seen, waits, and is filmed."""

import time
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from soulsgui.config.layers import combine, defaults_layer
from soulsgui.config.parsing import Layer
from soulsgui.gui.feed import Feed
from soulsgui.gui.watching import recording
from soulsgui.gui.watching.player import Player
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.training.checkpoint import write_checkpoint
from soulsgui.wire.control import RunSummary
from tests.end_to_end.server import RunningServer
from tests.gui.fake_feed import FakeShell
from tests.gui.reading import shown
from tests.modes.test_evaluate_command import balancing


@pytest.fixture
def run(server: RunningServer) -> RunSummary:
    """A run that nobody trains; its episodes are cut at 30 steps."""
    library = Library(server.data / "runs")
    made = library.create("cart", time.time())
    library.write_record(made, RunRecord(id=made.run_id, name="cart", created=1.0, state="stopped"))
    cut = [{"TimeLimit": {"max_episode_steps": 30}}]
    values = {"env.id": "CartPole-v1", "env.wrappers": cut}
    library.write_settings(made, combine([defaults_layer(), Layer("test", values)]))
    write_checkpoint(made.checkpoint, balancing(4000, run_id=made.run_id))
    return RunSummary(id=made.run_id, name="cart", state="stopped", env_id="CartPole-v1")


@pytest.mark.processes
def test_a_checkpoint_is_watched_waits_and_is_filmed(
    qtbot: QtBot,
    feed: Feed,
    shell: FakeShell,
    server: RunningServer,
    run: RunSummary,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording, "_ENOUGH", 8)
    monkeypatch.setattr(recording, "_FEW", 4)
    player = shown(qtbot, Player(feed, shell, run))
    (pane,) = player.panes
    qtbot.waitUntil(lambda: pane.recording.place > 3)
    assert pane.picture.image.size().toTuple() == (600, 400)
    assert pane.heading.text() == "Probabilities"
    player.play.click()
    rests = pane.recording.place
    qtbot.waitUntil(lambda: list(feed.watched.values()) == [0.0])  # enough has come
    came = len(pane.recording)
    film = tmp_path / "film.gif"
    pane.film(str(film), 0)
    qtbot.waitUntil(lambda: pane.of_film.text() == f"The video is saved: {film}")
    assert film.read_bytes().startswith(b"GIF89a")
    assert list(film.parent.glob(".*")) == []
    # Meanwhile the evaluation waited, but for what was on its way.
    assert (pane.recording.place, pane.over) == (rests, False)
    assert len(pane.recording) <= came + 5
    # An episode that has not been played yet is played from its own seed.
    pane.episode.activated.emit(7)
    qtbot.waitUntil(lambda: pane.recording.shown is not None)
    assert (pane.episode.currentText(), pane.facts["Seed"].text()) == ("8 of 10", "7")
    qtbot.waitUntil(lambda: len(feed.watched) == 1)
    (watched,) = feed.watched
    player.close()
    qtbot.waitUntil(lambda: server.api.job(watched).state == "cancelled")
    assert feed.watched == {}
