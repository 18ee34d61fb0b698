import re
from pathlib import Path

import pytest
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import shipped
from soulsgui.gui.colours import DARK, LIGHT, Colours, Tone
from soulsgui.gui.icons import app_icon, colours_of, dress, icon, make_primary, pixmap
from soulsgui.gui.theme import Theme, ThemeChoice, palette, style_sheet
from soulsgui.gui.widgets.labels import Heading

ICONS = sorted(path.stem for path in shipped("resources", "icons").glob("*.svg"))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_name_in_the_style_sheet_is_filled_in(colours: Colours) -> None:
    sheet = style_sheet(colours, 10)
    assert "@" not in sheet
    for path in re.findall(r"url\(([^)]+)\)", sheet):
        assert Path(path).is_file(), path


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_no_text_of_a_palette_is_invisible(colours: Colours) -> None:
    made = palette(colours)
    role, group = QPalette.ColorRole, QPalette.ColorGroup
    for which in (group.Active, group.Inactive, group.Disabled):
        for words, ground in (
            (role.WindowText, role.Window),
            (role.Text, role.Base),
            (role.ButtonText, role.Button),
            (role.HighlightedText, role.Highlight),
            (role.ToolTipText, role.ToolTipBase),
        ):
            distance = abs(made.color(which, words).lightness() - made.color(which, ground).lightness())
            assert distance > 60, (which, words)


def test_the_theme_changes_colours_of_widgets_that_are_shown(qtbot: QtBot, both_themes: Theme) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.show()
    assert colours_of(widget) is LIGHT
    with qtbot.waitSignal(both_themes.changed):
        both_themes.choose(ThemeChoice.DARK)
    assert colours_of(widget) is DARK
    assert both_themes.colours is DARK


def test_choosing_the_present_theme_changes_nothing(qtbot: QtBot, both_themes: Theme) -> None:
    with qtbot.assertNotEmitted(both_themes.changed):
        both_themes.choose(ThemeChoice.LIGHT)


def test_a_dressed_button_gets_its_icon_in_the_new_colours(qtbot: QtBot, both_themes: Theme) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    button = QPushButton("Stop", window)
    dress(button, "stop")
    middle = button.icon().pixmap(16, 16).toImage().pixelColor(8, 8).name()
    assert middle == LIGHT.text
    both_themes.choose(ThemeChoice.DARK)
    assert button.icon().pixmap(16, 16).toImage().pixelColor(8, 8).name() == DARK.text


def test_the_icon_of_a_main_button_shows_on_its_colour_whenever_it_was_dressed(
    qtbot: QtBot, both_themes: Theme
) -> None:
    button = QPushButton("Stop")
    qtbot.addWidget(button)
    dress(button, "stop")
    make_primary(button)
    assert button.icon().pixmap(16, 16).toImage().pixelColor(8, 8).name() == LIGHT.on_accent
    dress(button, "stop")
    assert button.icon().pixmap(16, 16).toImage().pixelColor(8, 8).name() == LIGHT.on_accent


def test_larger_fonts_reach_labels_headings_and_icons(qtbot: QtBot, both_themes: Theme) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    label, heading, button = QLabel("words", window), Heading("Title", 1, window), QPushButton("Go", window)
    dress(button, "play")
    for widget in (label, heading, button):
        column.addWidget(widget)
    window.show()
    before = [label.sizeHint().height(), heading.sizeHint().height(), button.iconSize().height()]
    both_themes.set_font_scale(150)
    after = [label.sizeHint().height(), heading.sizeHint().height(), button.iconSize().height()]
    assert all(large > 1.3 * small for small, large in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ICONS)
def test_every_icon_draws_something_in_its_colour(qapp: QApplication, name: str) -> None:
    picture = pixmap(name, "#ff0000", 32).toImage()
    shades = {picture.pixelColor(x, y).alpha() for x in range(32) for y in range(32)}
    assert max(shades) > 200
    assert min(shades) == 0 or name == "app"


def test_an_icon_that_is_not_shipped_is_an_error(qapp: QApplication) -> None:
    with pytest.raises(FileNotFoundError):
        icon("no-such-icon", LIGHT, Tone.TEXT)


def test_the_programs_icon_comes_in_all_sizes(qapp: QApplication) -> None:
    sizes = {size.width() for size in app_icon().availableSizes()}
    assert sizes == {16, 24, 32, 48, 64, 128, 256, 512}
