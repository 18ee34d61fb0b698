"""What is said of a run that has ended, and what is offered next."""

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from soulsgui.gui.shell.end import EndStrip, end_words, next_preset
from soulsgui.wire.control import Preset, RunStatus, RunSummary, Status
from tests.gui.fake_feed import NOTHING_YET, FakeFeed, FakeShell
from tests.gui.reading import words_of
from tests.gui.shell.conftest import Make
from tests.states import client

RUNNING = RunStatus(
    id="r1", name="cart", state="running", env_id="CartPole-v1", algorithm="ppo", goal_return=475.0
)
SOLVED: dict[str, Any] = {"state": "finished", "reached": "mean_return", "seconds": 31.0}


def preset(name: str, env_id: str, **values: str) -> Preset:
    return Preset(name=name, title=name, values={"env.id": env_id} | values)


CART, LUNAR = preset("cart", "CartPole-v1"), preset("lunar", "LunarLander-v3")
SWINGS, STANDS = preset("swings", "Pendulum-v1", algorithm="sac"), preset("stands", "Pendulum-v1")
PRESETS = (SWINGS, STANDS, CART, LUNAR)


@pytest.fixture
def server(fake: FakeFeed) -> FakeFeed:
    presets = [one.model_dump(mode="json") for one in (CART, LUNAR)]
    fake.answers = NOTHING_YET | {"config.presets": {"presets": presets}}
    fake.status = Status(run=RUNNING, clients=[client("here", local=True)])
    return fake


@pytest.fixture
def strip(qtbot: QtBot, server: FakeFeed, shell: FakeShell) -> EndStrip:
    """As it is over the overview."""
    made = EndStrip(server, shell)
    qtbot.addWidget(made)
    made.page_chosen("overview")
    server.lists.runs.want()
    return made


def change(server: FakeFeed, **fields: Any) -> None:
    server.change_run(RUNNING.model_copy(update=fields))


def test_only_an_end_by_itself_is_told() -> None:
    def told(reached: str, state: str = "finished", **more: Any) -> tuple[str, str] | None:
        seen = {"mean_return": 476.2, "best_mean_return": 494.9, "goal_window": 20} | more
        words = end_words(RUNNING.model_copy(update={"state": state, "reached": reached} | seen))
        return (words.title, words.detail) if words else None

    mean = "Mean of the last 20 episodes: 476.2."
    solved = told("mean_return", goal_return=475.0, seconds=31.0)
    assert solved == ("Solved: reached 475 after 31 s and 0 steps", mean)
    judged = "Mean of an evaluation: 476.2. The run made 0 steps."
    assert told("mean_return", goal_judged_by="evaluation") == ("Solved: reached 475 after 0.0 s", judged)
    branch = {"env_steps": 41_000, "begun_env_steps": 30_000, "seconds": 12.0}
    assert told("mean_return", **branch) == ("Solved: reached 475 after 12 s and 11,000 more steps", mean)
    best = "Mean return at its end 476.2; the highest during the run, that of its best model: 494.9."
    assert told("env_steps") == ("Finished: made 0 steps in 0.0 s", best)
    assert told("failed", "failed", error="no memory") == ("The run failed", "no memory")
    assert told("", "running") is told("stopped", "stopped") is None


def test_the_next_preset_is_of_a_task_that_no_run_has_solved_yet() -> None:
    solved = [RunSummary(id="lunar", env_id="LunarLander-v3", reached="mean_return")]
    tried = [RunSummary(id="tried", env_id="LunarLander-v3", reached="env_steps")]
    assert next_preset((SWINGS, LUNAR), RUNNING, tried) is LUNAR, "learned as shipped"
    strange = LUNAR.model_copy(update={"values": {"env.id": [LUNAR.name]}})
    assert next_preset((strange,), RUNNING, tried) is strange
    assert next_preset(PRESETS, RUNNING, solved) is STANDS
    assert next_preset(PRESETS, RUNNING.model_copy(update={"algorithm": "sac"}), []) is SWINGS
    assert next_preset(PRESETS, RUNNING.model_copy(update={"env_id": "Pendulum-v1"}), solved) is CART
    assert next_preset((SWINGS, CART), RUNNING, []) is SWINGS
    assert next_preset((CART, LUNAR), RUNNING, solved) is None


def test_a_solved_run_is_watched_and_a_next_one_tried(
    qtbot: QtBot, strip: EndStrip, server: FakeFeed, shell: FakeShell
) -> None:
    assert words_of(strip) == ""
    change(server, **SOLVED)
    assert words_of(strip).startswith("Solved: reached 475 after 31 s")
    qtbot.waitUntil(strip.next.isVisible)
    assert strip.next.text() == "Try LunarLander…"
    order = (strip.watch, strip.next, strip.invite, strip.go_on)
    assert sorted(order, key=lambda one: (one.y(), one.x())) == list(order)
    for button in order[:3]:
        button.click()
    assert shell.opened[0] == ("player", {"run": "r1", "checkpoint": "best"})
    assert shell.opened[1] == ("new_run", {"overrides": None, "preset": "lunar"})
    assert shell.opened[2] == ("invite", {})
    strip.go_on.click()
    (sent,) = server.sent_of("run.resume")
    assert sent.params == {"run": "r1", "without_goal": True}
    assert words_of(strip) == "", "the last success would mislead beside the trouble of the next"
    change(server, **SOLVED, episodes=7)
    assert words_of(strip) == "", "a refused start does not bring it back"
    change(server)
    server.change_clients([client("elsewhere", episodes=3)])
    change(server, **SOLVED, sweep="lr")
    assert "Solved" in words_of(strip)
    assert not strip.next.isVisible(), "after a sweep its best settings are next"
    assert not strip.invite.isVisible(), "another computer has played already"


def test_there_is_one_place_for_messages_and_what_came_last_is_shown(
    qtbot: QtBot, make: Make, server: FakeFeed
) -> None:
    window = make("overview")
    change(server, **SOLVED)
    qtbot.waitUntil(window.end_strip.isVisible)
    window.notify("error", "No space left")
    window.notify("success", "Saved")
    assert not window.end_strip.isVisible()
    for said in ("Saved", "No space left"):
        assert [row.notice.text for row in window.messages.rows if row.isVisible()] == [said]
        window.messages.rows[-1].expire()
    qtbot.waitUntil(window.end_strip.isVisible)
    assert not window.messages.isVisible()


def test_a_failed_run_leads_to_the_log(strip: EndStrip, server: FakeFeed, shell: FakeShell) -> None:
    change(server, state="failed", error="out of <b>memory</b>")
    assert words_of(strip) == "The run failed\nout of <b>memory</b>"
    detail = next(label for label in strip.findChildren(QLabel) if "memory" in label.text())
    assert detail.textFormat() is Qt.TextFormat.PlainText
    assert not strip.watch.isVisible()
    strip.log.click()
    assert shell.shown == [("logs", {"service": "trainer"})]
