import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.config.views import Views
from soulsgui.gui.config.yaml_edit import YamlEdit
from soulsgui.gui.theme import Theme, ThemeChoice
from tests.gui.reading import shown

TEXT = "seed: 1\nppo:\n  gamma: 0.99  # patient\n"


@pytest.fixture
def edit(qtbot: QtBot, theme: Theme) -> YamlEdit:
    made = shown(qtbot, YamlEdit(), 400, 300)
    made.setPlainText(TEXT)
    return made


def line(edit: YamlEdit) -> int:
    return edit.textCursor().blockNumber() + 1


def test_it_goes_to_lines_marks_those_with_mistakes_and_stays_there_when_a_text_comes_from_elsewhere(
    edit: YamlEdit,
) -> None:
    for wanted, reached in ((3, 3), (99, 4), (2, 2)):
        edit.go_to(wanted)
        assert line(edit) == reached
    plain = len(edit.extraSelections())
    edit.show_problems({2: "wrong", 3: "also", 77: "nowhere"})
    assert len(edit.extraSelections()) == plain + 2
    edit.show_problems({})
    assert len(edit.extraSelections()) == plain
    edit.take_text(TEXT.replace("0.99", "0.9"))
    assert line(edit) == 2
    edit.undo()
    assert edit.toPlainText() == TEXT
    narrow = edit.gutter_width()
    edit.setPlainText("\n" * 2000)
    assert edit.gutter_width() > narrow


def test_the_next_line_begins_where_this_one_does_and_deeper_below_a_section(
    qtbot: QtBot, edit: YamlEdit
) -> None:
    edit.go_to(2)
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    qtbot.keyClicks(edit, "clip: 0.1")
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    qtbot.keyClicks(edit, "epochs: 3")
    assert edit.toPlainText().splitlines()[1:4] == ["ppo:", "  clip: 0.1", "  epochs: 3"]


def test_tab_leaves_the_editor(qtbot: QtBot, theme: Theme) -> None:
    around = QWidget()
    qtbot.addWidget(around)
    edit, after = YamlEdit(around), QLineEdit(around)
    edit.setPlainText(TEXT)
    with qtbot.waitExposed(around):
        around.show()
    edit.setFocus()
    qtbot.keyClick(edit, Qt.Key.Key_Tab)
    assert edit.toPlainText() == TEXT
    assert around.focusWidget() is after


def test_it_is_drawn_in_both_themes_and_the_yaml_tab_follows_the_size_of_letters_at_once(
    qtbot: QtBot, edit: YamlEdit, both_themes: Theme
) -> None:
    edit.show_problems({3: "wrong"})
    light = edit.grab().toImage()
    both_themes.choose(ThemeChoice.DARK)
    dark = edit.grab().toImage()
    assert light.pixelColor(5, 5).lightness() > 128 > dark.pixelColor(5, 5).lightness()
    views = shown(qtbot, Views())
    before, room = views.text.fontMetrics().height(), views.text.gutter_width()
    both_themes.set_font_scale(150)
    qtbot.waitUntil(lambda: views.text.fontMetrics().height() > 1.3 * before)
    assert views.text.gutter_width() > room
    both_themes.set_font_scale(100)
    qtbot.waitUntil(lambda: views.text.fontMetrics().height() == before)
