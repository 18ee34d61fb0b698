import pytest
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot

from soulsgui.gui.colours import DARK, LIGHT, Tone
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.gui.widgets.log_pane import LogPane
from soulsgui.wire.control import LogLine
from tests.gui.reading import part_of, shown


def line(number: int, text: str = "", level: str = "info", service: str = "trainer") -> LogLine:
    return LogLine(service=service, number=number, level=level, text=text or f"line {number}")


@pytest.fixture
def pane(qtbot: QtBot, theme: Theme) -> LogPane:
    return shown(qtbot, LogPane(), 700, 300)


@pytest.fixture
def text(pane: LogPane) -> QPlainTextEdit:
    return part_of(pane, QPlainTextEdit)


def lines(pane: LogPane) -> list[str]:
    return [each.split()[-1] for each in pane.text.splitlines()]


def test_lines_appear_in_batches_and_only_when_they_are_seen(qtbot: QtBot, pane: LogPane) -> None:
    pane.add([line(1)])
    pane.add([line(2), line(3)])
    assert pane.text == ""
    qtbot.waitUntil(lambda: lines(pane) == ["1", "2", "3"])
    pane.hide()
    pane.add([line(4)])
    qtbot.wait(150)
    assert len(lines(pane)) == 3
    pane.show()
    qtbot.waitUntil(lambda: len(lines(pane)) == 4)


def test_memory_stays_bounded(qtbot: QtBot, pane: LogPane) -> None:
    pane.replace([line(number) for number in range(4000)])
    pane.add(line(number) for number in range(4000, 9000))
    qtbot.waitUntil(lambda: pane.text.endswith("line 8999"))
    assert len(lines(pane)) == 5000


def test_level_and_words_narrow_what_is_shown_until_that_is_taken_back(qtbot: QtBot, pane: LogPane) -> None:
    pane.replace([line(1, "all fine"), line(2, "no space left", "error"), line(3, "late", "warning")])
    narrowed: list[tuple[str, str]] = []
    pane.narrowed.connect(lambda: narrowed.append((pane.least, pane.words)))
    part_of(pane, QComboBox).setCurrentText("Warnings")
    assert lines(pane) == ["left", "late"]
    part_of(pane, QLineEdit).setText("SPACE")
    assert lines(pane) == ["left"]
    assert narrowed == [("warning", ""), ("warning", "SPACE")]
    pane.show_everything()
    assert (pane.least, pane.words) == ("debug", "")
    assert len(lines(pane)) == 3


def test_lines_of_one_service_do_not_name_it(pane: LogPane) -> None:
    pane.replace([line(2, service="redis")])
    assert "redis" in pane.text
    pane.replace([line(2, service="redis")], with_service=False)
    assert pane.text == "INFO     line 2"


def test_the_end_stays_in_view_until_one_scrolls(qtbot: QtBot, pane: LogPane, text: QPlainTextEdit) -> None:
    pane.replace([line(number) for number in range(200)])
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
    assert part_of(pane, QCheckBox).isChecked()


def test_the_selection_or_everything_is_copied(pane: LogPane, text: QPlainTextEdit) -> None:
    pane.replace([line(1), line(2)], with_service=False)
    button = part_of(pane, QPushButton)
    button.click()
    assert QGuiApplication.clipboard().text() == "INFO     line 1\nINFO     line 2"
    text.moveCursor(QTextCursor.MoveOperation.Start)
    text.moveCursor(QTextCursor.MoveOperation.EndOfLine, QTextCursor.MoveMode.KeepAnchor)
    button.click()
    assert QGuiApplication.clipboard().text() == "INFO     line 1"


def test_levels_keep_their_colours_when_the_theme_changes(
    qtbot: QtBot, pane: LogPane, text: QPlainTextEdit, both_themes: Theme
) -> None:
    pane.replace([line(1, level="error")])

    def colour() -> str:
        cursor = QTextCursor(text.document())
        cursor.movePosition(QTextCursor.MoveOperation.NextCharacter)
        return cursor.charFormat().foreground().color().name()

    assert colour() == LIGHT.tones[Tone.BAD]
    both_themes.choose(ThemeChoice.DARK)
    qtbot.waitUntil(lambda: colour() == DARK.tones[Tone.BAD])


def test_a_flood_of_lines_is_written_quickly(pane: LogPane, text: QPlainTextEdit) -> None:
    changes: list[int] = []
    text.document().contentsChange.connect(lambda _at, _gone, added: changes.append(added))
    pane.replace(line(number, level="warning" if number % 10 == 0 else "info") for number in range(5000))
    # In batches, not line by line: 20 µs a line against 710.
    assert sum(changes) > 5000
    assert len(changes) < 500


def test_what_is_in_view_stays_or_a_line_is_brought_there(pane: LogPane, text: QPlainTextEdit) -> None:
    pane.replace([line(number) for number in range(100, 300)])
    text.verticalScrollBar().setValue(40)
    assert not pane.prepend([line(number) for number in range(50, 100)])
    assert lines(pane)[0] == "50"
    assert text.firstVisibleBlock().text().endswith("line 140")
    assert not pane.follow
    pane.set_follow(True)
    pane.show_line(line(70))
    assert text.textCursor().selectedText().endswith("line 70")
    assert text.firstVisibleBlock().blockNumber() <= 20
    assert not pane.follow


def test_a_late_traceback_goes_with_its_error(qtbot: QtBot, pane: LogPane, text: QPlainTextEdit) -> None:
    part_of(pane, QComboBox).setCurrentText("Errors")
    pane.replace([line(1), line(2, "no space left", "error")])
    pane.add(
        [LogLine(service="trainer", number=3, text="Traceback"), LogLine(service="redis", number=1, text="x")]
    )
    qtbot.waitUntil(lambda: pane.text.endswith("Traceback"))
    for filtered in ("", "trace"):  # its error is shown, or not
        part_of(pane, QLineEdit).setText(filtered)
        cursor = QTextCursor(text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        assert cursor.charFormat().foreground().color().name() == LIGHT.tones[Tone.BAD]


def test_the_end_stays_in_view_when_the_pane_or_the_font_changes_unless_follow_is_turned_off(
    qtbot: QtBot, pane: LogPane, text: QPlainTextEdit, both_themes: Theme
) -> None:
    pane.replace([line(number) for number in range(200)])
    bar = text.verticalScrollBar()
    size = text.font().pointSizeF()
    pane.resize(700, 150)
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
    both_themes.set_font_scale(150)
    qtbot.waitUntil(lambda: text.font().pointSizeF() == pytest.approx(1.5 * size))
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
    pane.resize(700, 300)
    pane.set_follow(False)
    bar.setValue(40)
    qtbot.wait(0)
    assert bar.value() == 40
