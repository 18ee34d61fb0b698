import pytest
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from soulsgui.gui.colours import DARK, LIGHT
from soulsgui.gui.overview.bottleneck import Bottleneck
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.wire.control import RunStatus
from tests.gui.reading import shown
from tests.states import client

RUN = RunStatus(id="r", state="running", algorithm="dqn", learner_waits=0.25, clients_wait=0.5)
CLIENTS = [client("a")]
SHARES = "The trainer waits for samples: 25 %\nSamples wait for the trainer: 50 %\nNeither waits: 25 %"


@pytest.mark.parametrize("choice", [ThemeChoice.LIGHT, ThemeChoice.DARK])
def test_a_bar_beside_the_sentence_shows_all_shares(
    qtbot: QtBot, both_themes: Theme, choice: ThemeChoice
) -> None:
    both_themes.choose(choice)
    place = shown(qtbot, Bottleneck(), 900, 30)
    place.show_run(RUN, CLIENTS)
    bar = place.bar
    qtbot.waitUntil(lambda: bar.isVisible() and bar.width() == bar.sizeHint().width())
    assert bar.height() == place.fontMetrics().height(), "a line of text"
    assert (bar.accessibleName(), bar.accessibleDescription()) == ("Where the time goes", SHARES)
    assert "Samples wait for the trainer: 50" in bar.toolTip()
    picture, colours = bar.grab().toImage(), LIGHT if choice is ThemeChoice.LIGHT else DARK
    middles = [
        picture.pixelColor(int(part * picture.width()), picture.height() // 2) for part in (0.1, 0.5, 0.9)
    ]
    assert middles == [QColor(colours.curve(number)) for number in range(3)]


def test_without_a_sentence_there_is_no_bar(qtbot: QtBot, theme: Theme) -> None:
    place = shown(qtbot, Bottleneck(), 900, 30)
    assert not place.bar.isVisible()
    place.show_run(RUN, CLIENTS)
    assert place.bar.isVisible()
    for run, clients in ((RUN.model_copy(update={"state": "paused"}), CLIENTS), (RUN, [])):
        place.show_run(run, clients)
        assert (place.words.text(), place.bar.isVisible()) == ("", False)
