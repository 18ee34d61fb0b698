"""The player before a real runner: what a trained model plays is seen, waits, and is filmed."""

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Feed
from soulsgui.gui.watching.player import Player
from soulsgui.wire.control import NEWEST
from tests.end_to_end.server import UNHURRIED, RunningServer, wait_for
from tests.gui.fake_feed import FakeShell
from tests.gui.reading import shown


@pytest.mark.processes
def test_the_newest_weights_of_a_run_are_watched_wait_and_are_filmed(
    qtbot: QtBot, feed: Feed, shell: FakeShell, server: RunningServer, tmp_path: Path
) -> None:
    short = {"env.wrappers": [{"TimeLimit": {"max_episode_steps": 20}}], "env.num_envs": 1, "ppo.epochs": 1}
    server.start_run(overrides={**UNHURRIED, **short, "clients.local": 1})
    qtbot.waitUntil(lambda: feed.status.run.state == "running")
    player = shown(qtbot, Player(feed, shell, feed.status.run, NEWEST))
    (pane,) = player.panes
    qtbot.waitUntil(lambda: pane.recording.place > 3)
    assert pane.picture.image.size().toTuple() == (600, 400)
    assert pane.heading.text() == "Probabilities"
    player.play.click()
    qtbot.waitUntil(lambda: feed.watched == {pane._job.id: 0.0})  # enough has come
    shown_there, came = pane.recording.place, len(pane.recording)
    film = tmp_path / "film.gif"
    pane.film(str(film), 0)
    qtbot.waitUntil(lambda: pane.words.text() == f"The video is saved: {film}")
    assert film.read_bytes().startswith(b"GIF89a")
    assert list(tmp_path.iterdir()) == [film]
    # Meanwhile the evaluation waited, but for what was on its way.
    assert (pane.recording.place, pane.over) == (shown_there, False)
    assert len(pane.recording) <= came + 5
    watched = pane._job.id
    player.close()
    wait_for(lambda: server.api.job(watched).state == "cancelled", "the evaluation ends")
    assert feed.watched == {}
