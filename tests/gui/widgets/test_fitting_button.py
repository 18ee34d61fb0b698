import pytest
from PySide6.QtGui import QKeySequence
from pytestqt.qtbot import QtBot

from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.fitting_button import FittingButton


@pytest.fixture
def button(qtbot: QtBot, theme: Theme) -> FittingButton:
    made = FittingButton("&Restart", "restart")
    qtbot.addWidget(made)
    made.show()
    return made


def test_without_words_the_tooltip_says_them(button: FittingButton) -> None:
    assert button.toolTip() == ""
    button.show_icon_only(True)
    assert button.text() == ""
    assert button.toolTip() == button.accessibleName() == "Restart"
    assert button.shortcut() == QKeySequence("Alt+R"), "its key is left when its words go"
    button.explain("Stops it first")
    assert button.toolTip() == button.accessibleDescription() == "Stops it first"
    button.show_icon_only(False)
    assert button.text() == "&Restart"


@pytest.mark.parametrize("percent", [100, 150])
def test_its_full_width_is_known_while_it_shows_no_words(
    button: FittingButton, both_themes: Theme, percent: int
) -> None:
    both_themes.set_font_scale(percent)
    full = button.sizeHint().width()
    assert button.full_width == full
    button.show_icon_only(True)
    assert button.sizeHint().width() < full
    assert button.full_width == full
