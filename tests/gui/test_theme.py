import re
from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QListWidget,
    QPlainTextEdit,
    QPushButton,
    QTableWidget,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

import soulsgui.gui
from soulsgui.config.paths import shipped
from soulsgui.gui.colours import DARK, LIGHT, Colours, Tone, blend
from soulsgui.gui.icons import colours_of, dress, icon, make_primary, pixmap
from soulsgui.gui.theme import Theme, ThemeChoice, palette, style_sheet
from soulsgui.gui.widgets.labels import Heading
from tests.gui.reading import shown

SETS = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])


def luminance(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2)."""
    shares = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Contrast ratio, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_blending_moves_between_the_two_colours() -> None:
    assert blend("#ff0000", "#0000ff", 0.0) == "#0000ff"
    assert blend("#ff0000", "#0000ff", 1.0) == "#ff0000"
    assert blend("#ffffff", "#000000", 0.5) == "#808080"


def test_gaps_and_margins_are_those_of_the_scale() -> None:
    by_hand = re.compile(
        r"(?:gap_px=|[sS]pacing\(|FlowLayout\()[1-9]|(?:argins = |margins=|ContentsMargins)\([^()]*[1-9].*"
    )
    files = Path(soulsgui.gui.__file__).parent.rglob("*.py")
    found = {file.name: by_hand.findall(file.read_text(encoding="utf-8")) for file in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


@SETS
def test_words_of_every_tone_are_readable_on_every_background_and_outlines_are_seen(colours: Colours) -> None:
    plain = (colours.window, colours.base, colours.alternate, colours.card, colours.hover, colours.selection)
    for tone in Tone:
        for background in (*plain, colours.washes[tone]):
            assert contrast(colours.tones[tone], background) >= 4.5, (tone, background)
        assert contrast(colours.text, colours.washes[tone]) >= 4.5
        assert contrast(colours.muted, colours.washes[tone]) >= 4.5
    assert contrast(colours.on_accent, colours.accent) >= 4.5
    assert contrast(colours.edge, colours.base) >= 3
    assert contrast(colours.edge, colours.window) >= 3


@SETS
def test_curves_are_readable_and_different_and_their_raw_traces_stay_behind(colours: Colours) -> None:
    for index in range(len(colours.curves)):
        own = contrast(colours.curve(index), colours.base)
        assert own >= 4.5
        assert 1.3 < contrast(colours.faded_curve(index), colours.base) < own
    for first, second in combinations(colours.curves, 2):
        channels = [abs(int(first[i : i + 2], 16) - int(second[i : i + 2], 16)) for i in (1, 3, 5)]
        assert sum(channels) > 40


@SETS
def test_every_name_in_the_style_sheet_is_filled_in(colours: Colours) -> None:
    sheet = style_sheet(colours, 10)
    assert "@" not in sheet
    for path in re.findall(r"url\(([^)]+)\)", sheet):
        assert Path(path).is_file(), path


@SETS
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
    widget = shown(qtbot, QWidget())
    assert colours_of(widget) is LIGHT
    with qtbot.waitSignal(both_themes.changed):
        both_themes.choose(ThemeChoice.DARK)
    assert colours_of(widget) is DARK
    assert both_themes.colours is DARK
    with qtbot.assertNotEmitted(both_themes.changed):
        QApplication.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Light)


def test_a_change_of_theme_styles_a_widget_no_more_often_the_deeper_it_stands(
    qtbot: QtBot, both_themes: Theme
) -> None:
    class Counting(QLabel):
        times = 0

        def changeEvent(self, event: QEvent) -> None:
            self.times += event.type() == QEvent.Type.StyleChange
            super().changeEvent(event)

    window = inner = QWidget()
    shallow = Counting("words", window)
    for _ in range(10):
        inner = QWidget(inner)
    deep = Counting("words", inner)
    shown(qtbot, window)
    shallow.times = deep.times = 0
    both_themes.choose(ThemeChoice.DARK)
    assert 0 < deep.times <= shallow.times


def test_icons_follow_the_theme_and_show_on_a_main_button(qtbot: QtBot, both_themes: Theme) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    button = QPushButton("Stop", window)

    def middle() -> str:
        return button.icon().pixmap(16, 16).toImage().pixelColor(8, 8).name()

    dress(button, "stop")
    assert middle() == LIGHT.text
    both_themes.choose(ThemeChoice.DARK)
    assert middle() == DARK.text
    make_primary(button)
    assert middle() == DARK.on_accent
    dress(button, "stop")
    assert middle() == DARK.on_accent


def test_larger_fonts_reach_labels_headings_and_icons(qtbot: QtBot, both_themes: Theme) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    label, heading, button = QLabel("words", window), Heading("Title", 1, window), QPushButton("Go", window)
    dress(button, "play")
    for widget in (label, heading, button):
        column.addWidget(widget)
    window.show()

    def heights() -> list[int]:
        return [label.sizeHint().height(), heading.sizeHint().height(), button.iconSize().height()]

    before = heights()
    both_themes.set_font_scale(150)
    assert all(large > 1.3 * small for small, large in zip(before, heights(), strict=True))


def test_where_the_keyboard_is_can_be_seen(qtbot: QtBot, both_themes: Theme) -> None:
    window = QWidget()
    main, ticked, words = QPushButton("Go"), QCheckBox("On"), QPlainTextEdit()
    make_primary(main)
    ticked.setChecked(True)
    words.setCursorWidth(0)
    parts = (
        main,
        QPushButton("Leave"),
        ticked,
        words,
        QLineEdit("a"),
        QComboBox(),
        QListWidget(),
        QTableWidget(),
    )
    column = QVBoxLayout(window)
    for part in parts:
        column.addWidget(part)
    shown(qtbot, window).activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    for part in parts:
        part.setFocus()
        seen = part.grab().toImage()
        part.clearFocus()
        assert part.grab().toImage() != seen, part


def test_every_icon_draws_something_in_its_colour(qapp: QApplication) -> None:
    for path in shipped("resources", "icons").glob("*.svg"):
        picture = pixmap(path.stem, "#ff0000", 32).toImage()
        shades = {picture.pixelColor(x, y).alpha() for x in range(32) for y in range(32)}
        assert max(shades) > 200, path
        assert min(shades) == 0 or path.stem == "app"
    with pytest.raises(FileNotFoundError):
        icon("no-such-icon", LIGHT, Tone.TEXT)
