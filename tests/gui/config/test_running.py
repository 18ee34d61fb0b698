"""The settings of the run that goes on: applied at once, kept for the next one, and taken back."""

from typing import Any

import pytest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from soulsgui.config.schema import shipped_with
from soulsgui.gui.config.running import RunningTab, live_keys
from soulsgui.gui.settings.spec import change_words, specs
from soulsgui.wire.control import ConfigValues, RunStatus, Status
from soulsgui.wire.messages.live import LiveChange
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.reading import shown

DEFAULTS = {key: spec.info.default for key, spec in specs().items()}
RUNNING = {**DEFAULTS, **shipped_with(DEFAULTS), "ppo.clip": 0.2}
CHANGE = LiveChange(
    time=5.0, attempt=1, update=40, env_steps=900, before={"ppo.clip": 0.2}, after={"ppo.clip": 0.1}
)


def told(*changes: LiveChange, **running: Any) -> ConfigValues:
    told = {"running": RUNNING | running, "changes": list(changes), "defaults": DEFAULTS, "saved": {}}
    return ConfigValues.model_validate(told | dict.fromkeys(("text", "hash", "path"), ""))


@pytest.fixture
def tab(qtbot: QtBot, fake: FakeFeed, shell: FakeShell) -> RunningTab:
    fake.status = Status(run=RunStatus(id="r1", name="lunar", state="running", algorithm="ppo"))
    fake.answers["config.get"] = told()
    made = shown(qtbot, RunningTab(fake, shell), 1000, 600)  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: made.form is not None and made.form.isEnabled())
    return made


def type_in(tab: RunningTab, key: str, words: str) -> None:
    assert tab.form is not None
    (line,) = tab.form.row(key).findChildren(QLineEdit)
    line.setText(words)
    line.textEdited.emit(words)


def test_what_takes_effect_at_once_is_applied_kept_for_the_next_run_and_taken_back(
    qtbot: QtBot, tab: RunningTab, fake: FakeFeed, shell: FakeShell
) -> None:
    assert (tab.apply.isEnabled(), tab.undo.isEnabled()) == (False, False)
    type_in(tab, "ppo.clip", "none of it")
    assert tab.apply.toolTip() == "Fix the mistakes first."
    type_in(tab, "ppo.clip", "0.1")
    fake.answers |= {
        "config.apply": {"change": CHANGE.model_dump(mode="json")},
        "config.save": {"hash": "h", "text": ""},
        "config.get": told(CHANGE, **{"ppo.clip": 0.1}),
    }
    with qtbot.waitSignal(tab.apply.finished):
        tab.apply.click()
    assert fake.sent_of("config.apply")[-1].params == {"keys": {"ppo.clip": 0.1}}
    assert fake.sent_of("config.save")[-1].params == {"changes": {"ppo.clip": 0.1}}
    assert "from update 41 on" in shell.told[-1].text
    qtbot.waitUntil(tab.undo.isEnabled)
    assert tab.table.isVisible()
    assert "ppo.clip: 0.2 → 0.1" in tab.undo.toolTip()
    assert not tab.apply.isEnabled()
    fake.answers["config.undo"] = {"change": None}
    with qtbot.waitSignal(tab.undo.finished):
        tab.undo.click()
    assert "as soon as the trainer can" in shell.told[-1].text
    assert fake.sent_of("config.save")[-1].params == {"changes": {"ppo.clip": 0.2}}, "nor has the next run"


def test_without_a_run_there_is_nothing_to_change(tab: RunningTab, fake: FakeFeed) -> None:
    fake.change_run(RunStatus(id="r1", name="lunar", state="finished"))
    assert not tab.apply.isVisible()
    fake.change_run(RunStatus(id="r2", name="other", state="running"))
    assert tab.apply.isVisible()
    assert not tab.table.isVisible(), "nothing was changed yet"
    fake.change_allowed(config_apply="The trainer does not run.")
    assert tab.apply.toolTip() == "The trainer does not run."


def test_settings_of_other_algorithms_are_left_out() -> None:
    assert "ppo.clip" in live_keys("ppo")
    assert {key.partition(".")[0] for key in live_keys("sac")} == {"sac", "evaluation"}
    assert change_words(CHANGE) == "ppo.clip: 0.2 → 0.1"
