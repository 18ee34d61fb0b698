"""The player: what it asks of the server, what it shows, and what it says when something is in the way."""

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog, QStyle, QStyleOptionComboBox
from pytestqt.qtbot import QtBot

from soulsgui.gui.theme import Theme
from soulsgui.gui.watching import recording
from soulsgui.gui.watching.pane import WatchPane
from soulsgui.gui.watching.picture import decoded
from soulsgui.gui.watching.player import Player
from soulsgui.gui.widgets.agree import AgreeDialog
from soulsgui.wire.control import CheckpointInfo, Evaluated, Job, RunStatus, Status, StoredFile
from soulsgui.wire.messages.server_config import Execution
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell, refusal
from tests.gui.reading import part_of, shown, words_of

EVALUATE = "checkpoint.evaluate"
RUN = RunStatus(id="r", name="cart", env_id="CartPole-v1", state="finished", reached="mean_return")


def jpeg(width: int = 8, height: int = 6, shade: int = 200) -> str:
    written = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), shade, np.uint8)).save(written, "JPEG")
    return base64.b64encode(written.getvalue()).decode()


def checkpoint(name: str, kind: Any, updates: int, **more: Any) -> dict[str, Any]:
    info = CheckpointInfo(
        id=name, kind=kind, path=f"/d/{name}", model_id=updates, env_steps=10 * updates, updates=updates,
        created=float(updates), size_bytes=1, valid=True,
    )  # fmt: skip
    return info.model_copy(update=more).model_dump(mode="json")


CHECKPOINTS = [
    checkpoint("checkpoint", "current", 400),
    checkpoint("best_model", "best", 300),
    checkpoint("history/9", "history", 9, valid=False),
]


def job(name: str, state: Any = "running", **more: Any) -> Job:
    return Job(id=name, command=EVALUATE, state=state, **more)


PLAYED = Evaluated(
    run_id="r", checkpoint="c", model_id=3, updates=1, env_steps=1, algorithm="ppo", agent="",
    env_id="CartPole-v1", episodes=2, seed=0, greedy=True, mean_return=9.5, std_return=0.5, min_return=9,
    max_return=10, mean_length=9.5, returns=[9, 10], lengths=[9, 10], seconds=1.0, notes=["one was cut"],
).model_dump()  # fmt: skip


@pytest.fixture
def open_player(qtbot: QtBot, fake: FakeFeed, shell: FakeShell) -> Callable[..., Player]:
    fake.answers["checkpoint.list"] = {"checkpoints": CHECKPOINTS}
    fake.answers[EVALUATE] = lambda _: job(
        f"j{len(fake.sent_of(EVALUATE))}", progress="waiting for the weights"
    )
    fake.answers["job.cancel"] = lambda params: {"job": job(params["job"]).model_dump(mode="json")}

    def opened(checkpoint: str = "best", begun: bool = True) -> Player:
        player = shown(qtbot, Player(fake, shell, RUN, checkpoint))
        if begun:
            qtbot.waitUntil(lambda: bool(fake.watched))
        return player

    return opened


def see(fake: FakeFeed, steps: range, episode: int = 0, name: str = "j1", **seen: Any) -> None:
    for step in steps:
        told = {"rate": 60.0, "episode": episode, "step": step, "return_so_far": float(step), "jpeg": jpeg()}
        fake.show_picture(name, **told | seen)


def facts(pane: WatchPane) -> list[str]:
    return [pane.episode.currentText(), *(value.text() for value in pane.facts.values())]


def test_the_best_model_is_asked_for_and_what_is_seen_is_told(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    player = open_player()
    (pane,) = player.panes
    asked = {"run": "r", "checkpoint": "best_model", "seed": 0, "episodes": 10, "frames": True, "trust": ""}
    assert fake.sent_of(EVALUATE)[0].params == asked
    assert fake.watched == {"j1": 1.0}
    assert "Waiting for the weights." in words_of(pane.empty)
    assert not pane.progress.isVisible()
    see(fake, range(7, 8), 2, action=[1.0], says="probabilities", said=[0.25, 0.75])
    assert facts(pane) == ["3 of 10", "2", "7", "7.00"]
    assert (pane.heading.text(), pane.bars.words) == ("Probabilities", "Taken: 1\n0: 25 %\n1: 75 %")
    assert pane.picture.image.size().toTuple() == (8, 6)
    assert pane.progress.isVisible()
    see(fake, range(8, 9), 2, ended=True)
    qtbot.waitUntil(lambda: facts(pane)[2] == "8 (ended)")
    assert facts(pane)[0] == "3 of 10: 8.00"
    assert pane.bars.words.startswith("Taken: 1")  # what it said last
    see(fake, range(1), name="of another window")
    assert len(pane.recording) == 2


def test_an_episode_and_its_return_are_read_in_full(open_player: Callable[..., Player], theme: Theme) -> None:
    (pane,) = open_player().panes
    box, option = pane.episode, QStyleOptionComboBox()
    option.initFrom(box)
    field = box.style().subControlRect(
        QStyle.ComplexControl.CC_ComboBox, option, QStyle.SubControl.SC_ComboBoxEditField, box
    )
    assert field.width() >= box.fontMetrics().horizontalAdvance("10 of 10: -1,234.5")


def test_damaged_checkpoints_are_not_offered_and_the_newest_plays_where_no_best_is(
    fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    fake.answers["checkpoint.list"] = {"checkpoints": [CHECKPOINTS[0], CHECKPOINTS[2]]}
    (pane,) = open_player().panes
    assert pane.checkpoint.count() == 1
    assert fake.sent_of(EVALUATE)[0].params["checkpoint"] == "checkpoint"


def test_the_weights_of_a_run_that_goes_on_are_offered(
    fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    fake.status = Status(run=RUN.model_copy(update={"state": "running", "reached": ""}))
    (pane,) = open_player("newest").panes
    assert fake.sent_of(EVALUATE)[0].params["checkpoint"] == "newest"
    assert pane.checkpoint.currentText() == "The newest weights, as they are trained"


def test_the_keyboard_is_on_the_picture_from_the_start(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    player = open_player()
    (pane,) = player.panes

    def press_space() -> None:
        focused = player.focusWidget()
        assert focused is not None
        qtbot.keyClick(focused, Qt.Key.Key_Space)

    assert player.play.text() == "Pause"
    press_space()
    assert not player.speed.view().isVisible()
    assert player.play.text() == "Play", "it begins paused"
    see(fake, range(3))
    assert (pane.stack.currentWidget(), facts(pane)[2]) == (pane.picture, "0")
    press_space()
    qtbot.waitUntil(lambda: facts(pane)[2] == "2")
    player.again.setFocus()
    player.again.click()
    assert player.focusWidget() is not player.again, "Space would begin it again"
    player.seed.setFocus()
    player.again.click()
    assert player.focusWidget() is player.seed, "somebody types there"


def test_it_rests_steps_and_goes_back_while_the_server_waits(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    player = open_player()
    (pane,) = player.panes
    see(fake, range(3))
    qtbot.waitUntil(lambda: facts(pane)[2] == "2")
    qtbot.keyClick(pane.picture, Qt.Key.Key_Space)
    assert player.play.text() == "Play"
    see(fake, range(3, 90))
    assert (facts(pane)[2], fake.watched) == ("2", {"j1": 0.0})
    player.forward.click()
    player.forward.click()
    player.back.click()
    assert facts(pane)[2] == "3"
    qtbot.keyClick(pane.picture, Qt.Key.Key_Home)
    assert (facts(pane)[2], player.back.isEnabled()) == ("0", False)
    pane.slider.setValue(85)
    assert (facts(pane)[2], fake.watched) == ("85", {"j1": 1.0})
    player.speed.setCurrentText("8 ×")
    player.speed.activated.emit(player.speed.currentIndex())
    assert fake.watched == {"j1": 8.0}
    player.play.click()
    qtbot.waitUntil(lambda: facts(pane)[2] == "89")
    assert player.play.text() == "Pause"  # it waits for more


def test_at_its_end_it_tells_the_returns_and_plays_again_what_has_come(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    player = open_player()
    (pane,) = player.panes
    see(fake, range(3))
    fake.change_job(job("j1", progress="much", part=1e308))
    assert pane.progress.value() == 1000
    fake.change_job(job("j1", progress="1 of 2 episodes, 40 steps", part=0.5))
    assert (pane.words.text(), pane.progress.value()) == ("1 of 2 episodes, 40 steps", 500)
    fake.change_job(job("j1", "done", result=PLAYED))
    qtbot.waitUntil(lambda: player.play.text() == "Play")
    assert pane.words.text() == "2 episodes: mean return 9.50 ± 0.500. one was cut"
    assert fake.watched == {}
    player.play.click()
    qtbot.waitUntil(lambda: facts(pane)[2] == "2" and player.play.text() == "Play")
    player.seed.setValue(40)
    player.again.click()
    assert fake.sent_of(EVALUATE)[-1].params["seed"] == 40
    qtbot.waitUntil(lambda: "j2" in fake.watched)
    see(fake, range(1), 1, "j2")
    assert facts(pane)[:2] == ["2 of 10", "41"]


def choose_episode(pane: WatchPane, number: int) -> None:
    pane.episode.setCurrentIndex(number)
    pane.episode.activated.emit(number)


def test_an_episode_is_seen_again_or_played_anew_where_its_pictures_are_not_kept(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_BETWEEN_EPISODES_S", 0.01)
    player = open_player()
    (pane,) = player.panes
    pane.recording = recording.Recording(most_pictures=7)
    player.speed.setCurrentText("8 ×")
    player.speed.activated.emit(player.speed.currentIndex())
    for episode in range(3):
        see(fake, range(2), episode)
        see(fake, range(2, 3), episode, ended=True)
    qtbot.waitUntil(lambda: facts(pane)[:3] == ["3 of 10: 2.00", "2", "2 (ended)"])
    player.play.click()
    choose_episode(pane, 1)
    assert facts(pane)[1:3] == ["1", "0"]
    assert len(fake.sent_of(EVALUATE)) == 1
    choose_episode(pane, 0)  # its beginning is gone
    assert fake.sent_of(EVALUATE)[1].params | {"seed": 0, "episodes": 10} == fake.sent_of(EVALUATE)[1].params
    choose_episode(pane, 6)
    qtbot.waitUntil(lambda: "j3" in fake.watched)
    sent = fake.sent_of(EVALUATE)[2].params
    assert (sent["seed"], sent["episodes"]) == (6, 4)
    see(fake, range(1), 1, "j3")
    assert facts(pane)[:3] == ["8 of 10", "7", "0"]
    assert pane.episode.itemText(2) == "3 of 10: 2.00"  # what is known of the others stays


def test_closing_cancels_also_what_the_server_has_not_answered_yet(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    open_player().close()
    assert (fake.watched, fake.sent[-1].params) == ({}, {"job": "j1"})
    del fake.answers[EVALUATE]
    player = open_player(begun=False)
    qtbot.waitUntil(lambda: len(fake.sent_of(EVALUATE)) == 2)
    player.close()
    assert len(fake.sent_of("job.cancel")) == 1
    fake.sent_of(EVALUATE)[-1].call.answer(job("j2").model_dump(mode="json"))
    assert (fake.watched, fake.sent[-1].params) == ({}, {"job": "j2"})


def test_it_goes_with_its_server(qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]) -> None:
    player = open_player()
    with qtbot.waitSignal(player.destroyed):
        fake.leave_calls()


def test_what_fails_is_told_with_its_remedy_and_can_be_tried_again(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    error = refusal("CartPole-v1 can't be shown.", "Give it pictures: render_modes.")

    def failed_already(_: dict[str, Any]) -> Job:
        fake.change_job(job("j1", "failed", error=error))  # told before the answer came
        return job("j1")

    fake.answers[EVALUATE] = failed_already
    player = open_player(begun=False)
    (pane,) = player.panes
    qtbot.waitUntil(lambda: "can't be shown" in words_of(player))
    assert "render_modes" in words_of(player)
    assert [button.isEnabled() for button in (player.play, pane.save)] == [False, False]
    fake.answers[EVALUATE] = job("j2")
    pane.empty.button.click()
    qtbot.waitUntil(lambda: "j2" in fake.watched)
    see(fake, range(2), name="j2")
    fake.change_job(job("j2", "failed", error=error))
    assert "can't be shown" in pane.words.text()
    assert pane.stack.currentWidget() is pane.picture  # what has come stays


def test_what_comes_from_elsewhere_is_shown_before_it_runs(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    player = open_player()
    asks = Execution(env_id="toys:Counter-v0")
    error = refusal("It comes from elsewhere.").model_copy(update={"asks": asks})
    fake.change_job(job("j1", "failed", error=error))
    button = player.panes[0].empty.button
    assert button.text() == "Look at it…"
    button.click()
    dialog = part_of(player, AgreeDialog)
    dialog.accept()
    assert fake.sent_of(EVALUATE)[-1].params["trust"] == asks.digest


def test_while_the_connection_is_away_what_came_can_be_looked_at(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    player = open_player()
    (pane,) = player.panes
    see(fake, range(3))
    fake.connect_as(LOST)
    assert "can still be viewed" in pane.words.text()
    assert (pane.save.isEnabled(), player.play.isEnabled()) == (False, True)
    fake.connect_as(LIVE)
    assert pane.words.text() == ""
    fake.change_job(job("j1", progress="goes on"))
    assert pane.words.text() == "goes on"
    fake.jobs = {}
    fake.jobs_listed.emit()
    assert "restarted before" in pane.words.text()


def test_the_episode_that_is_shown_is_filmed_and_fetched(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player], tmp_path: Path
) -> None:
    player = open_player()
    (pane,) = player.panes
    see(fake, range(1), 4)
    place = pane.slider.geometry()
    pane.save.click()
    dialog = part_of(pane, QFileDialog)
    assert dialog.selectedFiles()[0].endswith("/r_best_model_episode-5.mp4")
    dialog.fileSelected.emit(str(tmp_path / "film.gif"))
    dialog.reject()
    sent = fake.sent_of(EVALUATE)[-1].params
    assert sent == {"run": "r", "checkpoint": "best_model", "episodes": 1, "video": "gif", "seed": 4}
    qtbot.waitUntil(lambda: pane.of_film.text() == "Filming: waiting for the weights")
    assert pane.slider.geometry() == place
    file = StoredFile(id="f", name="model-3.gif", size_bytes=9)
    fake.change_job(job("j2", "done", files=[file], result=PLAYED))
    assert fake.sent[-1].params == {"file": file, "path": str(tmp_path / "film.gif")}
    fake.sent[-1].call.answer({})
    assert "film.gif" in pane.of_film.text()
    pane.film(str(tmp_path / "film.mp4"), 4)
    qtbot.waitUntil(lambda: "waiting" in pane.of_film.text())
    fake.change_job(job("j3", "failed", error=refusal("PyAV is not installed.", "Name a .gif.")))
    assert pane.of_film.text() == "No video: PyAV is not installed. Name a .gif."
    pane.film(str(tmp_path / "film.mp4"), 4)
    qtbot.waitUntil(lambda: "waiting" in pane.of_film.text())
    player.again.click()  # what is filmed is filmed on
    assert [one.params for one in fake.sent_of("job.cancel")] == [{"job": "j1"}]
    fake.change_job(job("j4", "cancelled"))
    assert "It was cancelled" in pane.of_film.text()
    assert pane.save.isEnabled() is False  # nothing is shown yet


def filming(qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]) -> Player:
    player = open_player()
    see(fake, range(1))
    player.panes[0].film("/videos/film.gif", 0)
    qtbot.waitUntil(lambda: "waiting" in player.panes[0].of_film.text())
    return player


def test_a_video_that_is_being_filmed_when_the_player_closes_is_saved_and_told_of(
    qtbot: QtBot, fake: FakeFeed, shell: FakeShell, open_player: Callable[..., Player]
) -> None:
    player = filming(qtbot, fake, open_player)
    with qtbot.waitSignal(player.destroyed):
        player.close()
    assert [one.params for one in fake.sent_of("job.cancel")] == [{"job": "j1"}]
    assert "/videos/film.gif" in shell.told[-1].detail
    film = StoredFile(id="f", name="model-3.gif", size_bytes=9)
    fake.change_job(job("j2", "done", files=[film], result=PLAYED))
    fake.sent[-1].call.answer({})
    assert (shell.told[-1].level, shell.told[-1].text) == (
        "success",
        "The video is saved: /videos/film.gif",
    )


def test_a_video_that_is_being_filmed_when_another_server_is_shown_is_told_of(
    qtbot: QtBot, fake: FakeFeed, shell: FakeShell, open_player: Callable[..., Player]
) -> None:
    player = filming(qtbot, fake, open_player)
    with qtbot.waitSignal(player.destroyed):
        fake.leave_calls()
    assert shell.told[-1].text == "No video: my-server was left before /videos/film.gif was here."
    assert {one.about for one in shell.told} == {"/videos/film.gif"}, "the last word stands alone"


def test_two_checkpoints_play_side_by_side_from_the_same_seeds(
    qtbot: QtBot, fake: FakeFeed, open_player: Callable[..., Player]
) -> None:
    player = open_player()
    player.seed.setValue(7)
    player.compare.click()
    qtbot.waitUntil(lambda: len(fake.watched) == 2 and len(fake.sent_of(EVALUATE)) == 3)
    sent = [one.params for one in fake.sent_of(EVALUATE)[1:]]
    assert [(one["checkpoint"], one["seed"]) for one in sent] == [("best_model", 7), ("checkpoint", 7)]
    player.compare.click()
    qtbot.waitUntil(lambda: len(fake.watched) == 1)
    assert len(player.panes) == 1


@pytest.mark.parametrize(
    "told", ["", "AAAA", "no Base64!", jpeg()[:40], jpeg(1025, 1), base64.b64encode(b"GIF89a").decode()]
)
def test_what_is_no_picture_or_too_large_is_not_shown(qapp: object, told: str) -> None:
    assert decoded(told).isNull()
    assert isinstance(decoded(jpeg()), QImage)
    assert not decoded(jpeg()).isNull()
