import pytest
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot

from soulsgui.gui.colours import DARK, LIGHT, Tone
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.gui.widgets.log_pane import LogPane
from soulsgui.wire.control import LogLine
from tests.gui.reading import part_of


def line(number: int, text: str = "", level: str = "info", service: str = "trainer") -> LogLine:
    return LogLine(service=service, number=number, level=level, text=text or f"line {number}")


@pytest.fixture
def pane(qtbot: QtBot, theme: Theme) -> LogPane:
    made = LogPane()
    qtbot.addWidget(made)
    made.resize(700, 300)
    made.show()
    return made


def lines(pane: LogPane) -> list[str]:
    return [each.split()[-1] for each in pane.text.splitlines()]


def test_lines_appear_in_batches(qtbot: QtBot, pane: LogPane) -> None:
    pane.add([line(1)])
    pane.add([line(2), line(3)])
    assert pane.text == ""
    qtbot.waitUntil(lambda: lines(pane) == ["1", "2", "3"])


def test_a_hidden_pane_catches_up_when_shown(qtbot: QtBot, pane: LogPane) -> None:
    pane.hide()
    pane.add(line(number) for number in range(1, 8))
    qtbot.wait(150)
    assert pane.text == ""
    pane.show()
    qtbot.waitUntil(lambda: len(lines(pane)) == 7)


def test_memory_stays_bounded(qtbot: QtBot, pane: LogPane) -> None:
    pane.replace([line(number) for number in range(4000)])
    pane.add(line(number) for number in range(4000, 9000))
    qtbot.waitUntil(lambda: pane.text.endswith("line 8999"))
    assert len(lines(pane)) == 5000


def test_level_and_words_narrow_what_is_shown(qtbot: QtBot, pane: LogPane) -> None:
    pane.replace([line(1, "all fine"), line(2, "no space left", "error"), line(3, "late", "warning")])
    level, words = part_of(pane, QComboBox), part_of(pane, QLineEdit)
    level.setCurrentText("Warnings")
    assert lines(pane) == ["left", "late"]
    qtbot.keyClicks(words, "SPACE")
    assert lines(pane) == ["left"]
    words.clear()
    level.setCurrentIndex(0)
    assert len(lines(pane)) == 3


def test_lines_of_one_service_do_not_name_it(pane: LogPane) -> None:
    pane.replace([line(2, service="redis")])
    assert "redis" in pane.text
    pane.replace([line(2, service="redis")], with_service=False)
    assert pane.text == "INFO     line 2"


def test_following_keeps_the_end_in_view_until_one_scrolls_up(qtbot: QtBot, pane: LogPane) -> None:
    pane.replace([line(number) for number in range(200)])
    text = part_of(pane, QPlainTextEdit)
    bar = text.verticalScrollBar()
    assert bar.value() == bar.maximum()
    with qtbot.waitSignal(pane.follow_changed) as signal:
        bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    assert signal.args == [False]
    before = bar.value()
    pane.add(line(number) for number in range(200, 260))
    qtbot.waitUntil(lambda: pane.text.endswith("line 259"))
    assert bar.value() == before
    with qtbot.waitSignal(pane.top_reached):
        bar.triggerAction(bar.SliderAction.SliderToMinimum)
    bar.triggerAction(bar.SliderAction.SliderToMaximum)
    assert pane.follow
    box = part_of(pane, QCheckBox)
    assert box.isChecked()


def test_the_selection_or_everything_is_copied(qtbot: QtBot, pane: LogPane) -> None:
    pane.replace([line(1), line(2)], with_service=False)
    button, text = part_of(pane, QPushButton), part_of(pane, QPlainTextEdit)
    button.click()
    assert QGuiApplication.clipboard().text() == "INFO     line 1\nINFO     line 2"
    text.moveCursor(QTextCursor.MoveOperation.Start)
    text.moveCursor(QTextCursor.MoveOperation.EndOfLine, QTextCursor.MoveMode.KeepAnchor)
    button.click()
    assert QGuiApplication.clipboard().text() == "INFO     line 1"


def test_levels_keep_their_colours_when_the_theme_changes(
    qtbot: QtBot, pane: LogPane, both_themes: Theme
) -> None:
    pane.replace([line(1, level="error")])
    text = part_of(pane, QPlainTextEdit)

    def colour() -> str:
        cursor = QTextCursor(text.document())
        cursor.movePosition(QTextCursor.MoveOperation.NextCharacter)
        return cursor.charFormat().foreground().color().name()

    assert colour() == LIGHT.tones[Tone.BAD]
    both_themes.choose(ThemeChoice.DARK)
    qtbot.waitUntil(lambda: colour() == DARK.tones[Tone.BAD])


def test_a_flood_of_lines_is_written_quickly(qtbot: QtBot, pane: LogPane) -> None:
    flood = [line(number, level="warning" if number % 10 == 0 else "info") for number in range(5000)]
    text = part_of(pane, QPlainTextEdit)
    changes: list[int] = []
    text.document().contentsChange.connect(lambda _at, _gone, added: changes.append(added))
    pane.replace(flood)
    # In batches, not line by line: 20 µs a line against 710.
    assert sum(changes) > 5000
    assert len(changes) < 500


def test_older_lines_are_put_above_and_what_is_in_view_stays(pane: LogPane) -> None:
    pane.replace([line(number) for number in range(100, 300)])
    text = part_of(pane, QPlainTextEdit)
    text.verticalScrollBar().setValue(40)
    assert not pane.prepend([line(number) for number in range(50, 100)])
    assert lines(pane)[0] == "50"
    assert text.firstVisibleBlock().text().endswith("line 140")
    assert not pane.follow


def test_a_line_is_brought_into_view_and_marked(pane: LogPane) -> None:
    pane.replace([line(number) for number in range(200)])
    pane.show_line(line(20))
    text = part_of(pane, QPlainTextEdit)
    assert text.textCursor().selectedText().endswith("line 20")
    assert text.firstVisibleBlock().blockNumber() <= 20
    assert not pane.follow


def test_the_user_who_wants_other_lines_is_heard_and_can_take_it_back(qtbot: QtBot, pane: LogPane) -> None:
    words = part_of(pane, QLineEdit)
    with qtbot.waitSignal(pane.narrowed) as signal:
        words.setText("disk")
    assert signal.args == ["debug", "disk"]
    pane.show_everything()
    assert (pane.least, pane.words) == ("debug", "")


def test_a_traceback_goes_with_its_error_also_when_it_comes_later(qtbot: QtBot, pane: LogPane) -> None:
    level = part_of(pane, QComboBox)
    level.setCurrentText("Errors")
    pane.replace([line(1), line(2, "no space left", "error")])
    pane.add(
        [LogLine(service="trainer", number=3, text="Traceback"), LogLine(service="redis", number=1, text="x")]
    )
    qtbot.waitUntil(lambda: pane.text.endswith("Traceback"))
    text = part_of(pane, QPlainTextEdit)
    cursor = QTextCursor(text.document())
    cursor.movePosition(QTextCursor.MoveOperation.End)
    assert cursor.charFormat().foreground().color().name() == LIGHT.tones[Tone.BAD]


def test_the_end_stays_in_view_when_the_pane_or_the_font_changes(
    qtbot: QtBot, pane: LogPane, both_themes: Theme
) -> None:
    pane.replace([line(number) for number in range(200)])
    text = part_of(pane, QPlainTextEdit)
    bar = text.verticalScrollBar()
    size = text.font().pointSizeF()
    pane.resize(700, 150)
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
    both_themes.set_font_scale(150)
    qtbot.waitUntil(lambda: text.font().pointSizeF() == pytest.approx(1.5 * size))
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
