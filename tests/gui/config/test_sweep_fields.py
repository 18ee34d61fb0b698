"""A sweep that is begun from New run: what is searched, what the server says is wrong, how it is ended."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from soulsgui.config.layers import defaults_layer
from soulsgui.config.schema import SECTIONS_OF_ALGORITHMS
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.config.sweep_fields import SearchScale, searchable, suggested
from soulsgui.gui.feed import Feed
from soulsgui.gui.runs.experiments import SweepPart
from soulsgui.gui.settings.spec import specs
from soulsgui.wire.control import ApiError, ConfigValues, ErrorCode, Preset, SweepStatus
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.questions import answer
from tests.gui.reading import choose, shown, words_of

DEFAULTS = defaults_layer().values
DQN = Preset(
    name="dqn", title="DQN", about="Off-policy.", values={"algorithm": "dqn", "stop.env_steps": 8000}
)
BEGUN = {"id": "2026_lr", "state": "running", "wanted": 6, "space": {}, "trials": []}


def sweep_dialog(qtbot: QtBot, feed: Feed) -> NewRunDialog:
    dialog = NewRunDialog(feed)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    dialog.open()
    dialog.as_sweep.click()
    qtbot.waitUntil(lambda: len(dialog.sweep.searched) == 1 and dialog.preset.count() > 1)
    return dialog


def least_height(dialog: NewRunDialog) -> int:
    layout = dialog.layout()
    assert layout is not None
    return layout.totalMinimumHeightForWidth(dialog.width())


@pytest.fixture
def dialog(qtbot: QtBot, fake: FakeFeed) -> NewRunDialog:
    values = ConfigValues(defaults=dict(DEFAULTS), saved={}, running={}, text="", hash="", path="")
    fake.answers |= {"config.get": values, "config.presets": {"presets": [DQN.model_dump(mode="json")]}}
    return sweep_dialog(qtbot, fake)


@pytest.mark.parametrize("algorithm", SECTIONS_OF_ALGORITHMS)
def test_what_is_suggested_is_in_the_range_of_its_setting(algorithm: str) -> None:
    keys = searchable(algorithm)
    assert keys[:2] == [f"{algorithm}.learning_rate", f"{algorithm}.gamma"]
    for key in keys:
        spec = specs()[key]
        scale, *ends = suggested(spec, DEFAULTS.get(key))
        if scale is not SearchScale.CHOICES and all(ends):
            low, high = (spec.read(end) for end in ends)
            assert (low[1], high[1]) == ("", ""), key
            assert low[0] <= high[0], key
            assert scale is SearchScale.LINEAR or low[0] > 0, key


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("ppo.learning_rate", (SearchScale.LOG, "1e-05", "0.01")),
        ("ppo.epochs", (SearchScale.LOG, "2", "40")),
        ("ppo.adam_beta1", (SearchScale.LINEAR, "0.6", "0.975")),
        ("ppo.target_kl", (SearchScale.LINEAR, "", "")),
        ("ppo.normalize_value", (SearchScale.CHOICES, "false, true", "")),
        ("network.activation", (SearchScale.CHOICES, "tanh, relu", "")),
        ("network.hidden_sizes", (SearchScale.CHOICES, "[64, 64]", "")),
    ],
)
def test_a_range_is_suggested_around_the_value(key: str, suggestion: tuple[SearchScale, str, str]) -> None:
    assert suggested(specs()[key], DEFAULTS[key]) == suggestion


def test_a_sweep_is_asked_for_with_what_is_searched(
    qtbot: QtBot, fake: FakeFeed, dialog: NewRunDialog
) -> None:
    assert not dialog.start.isEnabled(), "how long a trial is has to be said"
    qtbot.keyClicks(dialog.sweep.steps, "5000")
    dialog.name.setText("lr")
    dialog.sweep.add.click()
    second = dialog.sweep.searched[1]
    assert second.key == "ppo.gamma"
    second.setting.setCurrentText("ppo.learning_rate")
    assert "twice" in dialog.start.toolTip()
    second.setting.setCurrentText("network.hidden_sizes")
    second.low.setText("[64, 64], [256]")
    dialog.sweep.trials.setValue(6)
    dialog.sweep.parallel.setValue(2)
    choose(dialog.sweep.pruner, "none")
    dialog.start.click()
    (sent,) = fake.sent_of("sweep.start")
    assert sent.params == {
        "preset": "",
        "name": "lr",
        "overrides": {"stop.env_steps": 5000},
        "space": {
            "ppo.learning_rate": {"low": "1e-05", "high": "0.01", "log": True},
            "network.hidden_sizes": "[[64, 64], [256]]",
        },
        "trials": 6,
        "parallel": 2,
        "sampler": "tpe",
        "pruner": "none",
        "score": "mean_return",
    }
    with qtbot.waitSignal(dialog.started) as begun:
        sent.call.answer(BEGUN)
    assert begun.args == [SweepStatus.model_validate(BEGUN)]


def test_another_algorithm_has_other_settings_to_search(dialog: NewRunDialog) -> None:
    dialog.preset.setCurrentIndex(dialog.preset.findData("dqn"))
    assert [line.key for line in dialog.sweep.searched] == ["dqn.learning_rate"]
    assert dialog.sweep.steps.text() == "8000"
    dialog.sweep.searched[0].remove.click()
    assert dialog.start.toolTip() == "Add a setting to search."
    dialog.as_sweep.click()
    assert dialog.start.isEnabled()
    assert not dialog.sweep.steps.isVisible()


def test_a_mistake_stands_at_its_field_and_one_of_the_whole_below(
    qtbot: QtBot, fake: FakeFeed, dialog: NewRunDialog
) -> None:
    dialog.sweep.steps.setText("many")
    told = {"ppo.learning_rate": "should be less than or equal to 1", "stop.env_steps": "no number"}
    for more, below in (({}, "fix what is marked"), ({"network.recurrent": "should be lstm"}, "No good.")):
        wrong = ApiError(code=ErrorCode.BAD_CONFIG, message="No good.", mistakes=told | more)
        fake.answers["sweep.start"] = wrong
        with qtbot.waitSignal(dialog.start.problem):
            dialog.start.click()
        assert below in dialog.wrong.text()
        assert "Should be less than or equal to 1." in words_of(dialog.sweep.searched[0])
        assert "No number." in words_of(dialog)
    qtbot.keyClicks(dialog.sweep.searched[0].high, "1")
    assert words_of(dialog.sweep.searched[0]) == ""


@pytest.mark.processes
def test_a_server_says_what_is_wrong_begins_the_sweep_and_ends_it(
    qtbot: QtBot, feed: Feed, shell: FakeShell
) -> None:
    dialog = sweep_dialog(qtbot, feed)
    dialog.name.setText("by hand")
    dialog.sweep.steps.setText("2000")
    (line,) = dialog.sweep.searched
    line.high.setText("7")
    with qtbot.waitSignal(dialog.start.problem):
        dialog.start.click()
    assert "Should be less than or equal to 1" in words_of(line)
    line.high.setText("0.1")
    with qtbot.waitSignal(dialog.started) as begun:
        dialog.start.click()
    name = begun.args[0].id
    assert name.endswith("_by-hand")

    part = shown(qtbot, SweepPart(feed, shell))  # type: ignore[arg-type]
    part.show_sweep(name)
    qtbot.waitUntil(part.stop.isVisible)
    part.stop.click()
    with qtbot.waitSignal(part.stop.finished):
        answer(part, "Stop")
    qtbot.waitUntil(lambda: part.sweep is not None and part.sweep.state == "stopped")


def test_the_dialog_has_no_empty_room_and_says_in_it_why_the_sweep_can_not_begin(
    qtbot: QtBot, dialog: NewRunDialog
) -> None:
    dialog.sweep.steps.clear()
    assert not dialog.start.isEnabled()
    assert dialog.missing.isVisible()
    assert dialog.missing.text() == dialog.start.toolTip()
    qtbot.waitUntil(lambda: dialog.height() == least_height(dialog))
    dialog.sweep.steps.setText("5000")
    assert not dialog.missing.isVisible()


def test_the_dialog_gives_up_the_room_of_what_is_not_searched_any_more(
    qtbot: QtBot, dialog: NewRunDialog
) -> None:
    dialog.sweep.steps.setText("5000")
    for _ in range(2):
        dialog.sweep.add.click()
        high = dialog.height()
        dialog.sweep.searched[-1].remove.click()
        assert dialog.height() < high
        qtbot.waitUntil(lambda: dialog.height() == least_height(dialog))
        dialog.sweep.add.click()
    dialog.as_sweep.click()
    qtbot.waitUntil(lambda: dialog.height() == least_height(dialog))


def test_tab_leads_through_the_fields_from_top_to_bottom_before_the_buttons(dialog: NewRunDialog) -> None:
    dialog.sweep.add.click()
    first, added = dialog.sweep.searched
    wanted = [
        dialog.seeds, dialog.as_sweep, dialog.sweep.score,
        first.setting, first.remove, added.setting, added.scale, added.low, added.high, added.remove,
        dialog.sweep.add, dialog.clients, dialog.goal,
    ]  # fmt: skip
    stop: QWidget = dialog.name
    stops = []
    while stop is not dialog.start:
        stop = stop.nextInFocusChain()
        stops.append(stop)
    assert [stop for stop in stops if stop in wanted] == wanted
