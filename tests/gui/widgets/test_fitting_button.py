import pytest
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QHBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.fitting_button import FittingButton, fit


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


def test_a_row_of_buttons_shows_all_words_or_none(qtbot: QtBot, theme: Theme) -> None:
    row = QWidget()
    qtbot.addWidget(row)
    layout = QHBoxLayout(row)
    buttons = [FittingButton(words, "log", row) for words in ("Stop", "Restart", "Log")]
    for each in buttons:
        layout.addWidget(each)
    row.show()
    needed = sum(each.full_width for each in buttons) + 2 * 6
    fit(buttons, needed, 6)
    assert [each.text() for each in buttons] == ["Stop", "Restart", "Log"]
    fit(buttons, needed - 1, 6)
    assert [each.text() for each in buttons] == ["", "", ""]
