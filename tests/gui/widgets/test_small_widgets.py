from typing import Any

import pytest
import shiboken6
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QCursor, QEnterEvent, QKeySequence, QStandardItemModel, QTextDocument
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QStyleOptionHeader,
    QTextEdit,
    QTimeEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from soulsgui.gui.client_mode.parts import ToggleSwitch
from soulsgui.gui.colours import LIGHT, Tone
from soulsgui.gui.models.connection import Connection, ConnectionState, banner_words, why_not
from soulsgui.gui.models.records import Index
from soulsgui.gui.runs.models import RunsModel
from soulsgui.gui.shell.window import StatusLine, status_words
from soulsgui.gui.states import client_look
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, split
from soulsgui.gui.widgets.command_button import give_menu
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.inputs import give_room
from soulsgui.gui.widgets.labels import ElidedLabel, IconLabel, Label, Prose, StateLabel
from soulsgui.gui.widgets.message_bar import Banner, MessageBar, Notice
from soulsgui.gui.widgets.presets import PresetBox
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import Preset, RunStatus, ServerStatus, Status
from tests.gui.reading import part_of, shown, words_of
from tests.states import client

pytestmark = pytest.mark.usefixtures("theme")
NOW = 1_790_000_000.0
QUIET = {ConnectionState.WELCOME, ConnectionState.NO_RUN, ConnectionState.CONNECTED}


def test_the_banner_says_how_things_stand_and_what_can_be_done(qtbot: QtBot) -> None:
    banner = Banner(clock=lambda: NOW)
    qtbot.addWidget(banner)
    banner.show_connection(Connection(ConnectionState.RECONNECTING, "my-server", since=NOW - 3600))
    assert "my-server" in words_of(banner)
    assert "Data as of" in words_of(banner)
    with qtbot.waitSignal(banner.acted) as signal:
        qtbot.mouseClick(banner.button, Qt.MouseButton.LeftButton)
    assert signal.args == [ConnectionState.RECONNECTING]
    banner.show_connection(Connection(ConnectionState.STARTING, phase="waiting for Redis"))
    assert "waiting for Redis" in words_of(banner)
    assert not banner.button.isVisible()
    banner.show_connection(Connection(ConnectionState.CONNECTED))
    assert not banner.isVisible()
    for state in set(ConnectionState) - QUIET:
        words = banner_words(Connection(state), NOW)
        assert words is not None
        assert words.title
        assert why_not(Connection(state)) or Connection(state).live
        assert words.tone is not Tone.TEXT


@pytest.fixture
def bar(qtbot: QtBot) -> MessageBar:
    made = MessageBar()
    qtbot.addWidget(made)
    return made


def texts(bar: MessageBar) -> list[str]:
    return [row.notice.text for row in bar.rows]


def test_a_message_stands_until_it_is_closed_or_acted_on_good_news_not(qtbot: QtBot, bar: MessageBar) -> None:
    assert not bar.isVisible()
    acted: list[int] = []
    bar.show_notice(Notice("error", "No space left", "Free 200 MB."))
    bar.show_notice(Notice("error", "No answer.", "Try again.", "Retry", lambda: acted.append(1)))
    bar.show_notice(Notice("success", "Saved"))
    assert [row.timer.isActive() for row in bar.rows] == [False, False, True]
    bar.rows[2].expire()
    qtbot.mouseClick(bar.rows[1].action, Qt.MouseButton.LeftButton)
    assert acted == [1]
    assert texts(bar) == ["No space left"]
    assert bar.isVisible()
    qtbot.mouseClick(bar.rows[0].findChildren(QPushButton)[-1], Qt.MouseButton.LeftButton)
    assert bar.rows == []
    assert not bar.isVisible()


def test_good_news_to_be_taken_back_stays_longer_and_none_goes_from_under_the_mouse(bar: MessageBar) -> None:
    bar.show_notice(Notice("success", "Saved"))
    bar.show_notice(Notice("success", "In the bin", "", "Undo", lambda: None))
    saved, binned = bar.rows
    assert binned.timer.interval() >= 2 * saved.timer.interval()
    inside = QPointF(1, 1)
    QApplication.sendEvent(binned, QEnterEvent(inside, inside, inside))
    assert not binned.timer.isActive()
    QApplication.sendEvent(binned, QEvent(QEvent.Type.Leave))
    assert binned.timer.isActive()


def test_sentences_with_room_between_their_lines_are_no_markup(qtbot: QtBot) -> None:
    words = "<b>This computer</b> plays,\nand a server learns."
    prose, packed = shown(qtbot, Prose(words)), shown(qtbot, Label(words))
    assert prose.text() == words
    assert prose.heightForWidth(prose.sizeHint().width()) > packed.sizeHint().height()
    document = QTextDocument()
    document.setHtml(QLabel.text(prose))
    assert document.toPlainText().replace("\u2028", "\n") == words


def test_the_same_message_counts_up_and_the_newest_is_shown_of_three(qtbot: QtBot, bar: MessageBar) -> None:
    for number in (0, 1, 2, 3, 4, 4, 4):
        bar.show_notice(Notice("warning", f"warning {number}"))
    assert texts(bar) == ["warning 2", "warning 3", "warning 4"]
    qtbot.waitUntil(lambda: "(× 3)" in words_of(bar.rows[2]))
    for number in (4, 3, 2):
        assert [row.notice.text for row in bar.rows if row.isVisible()] == [f"warning {number}"]
        bar.rows[-1].expire()
    assert not bar.isVisible()


def test_of_one_thing_one_message_stands_until_it_is_settled(bar: MessageBar) -> None:
    bar.show_notice(Notice("error", "Failed"))
    for text in ("No link", "Damaged"):
        bar.show_notice(Notice("error", text, about="invitation"))
    assert texts(bar) == ["Failed", "Damaged"]
    bar.settle("invitation")
    assert texts(bar) == ["Failed"]


def test_an_elided_label_tells_the_whole_in_its_tooltip(qtbot: QtBot) -> None:
    label = shown(qtbot, ElidedLabel("a very long sentence about what went wrong and where"))
    for width, words, told in (
        (60, label.text(), True),
        (1000, label.text(), False),
        (1000, 20 * label.text(), True),
        (1000, "short", False),
    ):
        label.setText(words)
        label.resize(width, 20)
        assert label.toolTip() == (words if told else "")


def test_an_elided_label_is_one_line_whatever_is_called_so(qtbot: QtBot) -> None:
    label, other = ElidedLabel("first\nsecond"), ElidedLabel("first")
    for one in (label, other):
        qtbot.addWidget(one)
    for _ in range(2):
        assert label.text() == "first second"
        # Legends of plots side by side would grow and shrink for ever.
        assert label.sizeHint().height() == other.sizeHint().height()
        label.setText("first\nsecond")


def test_a_state_is_told_by_icon_word_and_colour(qtbot: QtBot) -> None:
    label = StateLabel()
    qtbot.addWidget(label)
    label.show_look(client_look("late"))
    assert label.word == "Late"
    icon = part_of(label, IconLabel)
    expected = IconLabel(parent=label)
    expected.show_icon("state-warning", Tone.WARNING)
    for one in (expected, icon):
        one.resize(icon.sizeHint())
    assert icon.grab().toImage() == expected.grab().toImage()
    label.resize(label.sizeHint())
    picture = label.grab().toImage()
    places = ((x, y) for x in range(picture.width()) for y in range(picture.height()))
    assert LIGHT.tones[Tone.WARNING] in {picture.pixelColor(*place).name() for place in places}


def test_an_empty_state_has_a_button_only_when_there_is_something_to_do(qtbot: QtBot) -> None:
    idle = shown(qtbot, EmptyState("page-logs", "Nothing yet", "Lines appear here."))
    useful = shown(qtbot, EmptyState("page-clients", "No clients", "Invite one.", "Invite…", "add"))
    assert not idle.button.isVisible()
    with qtbot.waitSignal(useful.acted):
        qtbot.mouseClick(useful.button, Qt.MouseButton.LeftButton)


def test_the_status_line_sums_up(qtbot: QtBot) -> None:
    run = RunStatus(id="x", name="lunar-2", state="running", checkpoint_age_s=130)
    clients = [client("a"), client("b", "quarantined"), client("c", "left"), client("d", "lost")]
    status = Status(run=run, clients=clients, server=ServerStatus(disk_free_bytes=61_200_000_000))
    line = shown(qtbot, StatusLine())
    line.show_status(status, "my-server")
    expected = "my-server · lunar-2, running · 1 of 2 clients · checkpoint 2 min ago · 61.2 GB free"
    assert words_of(line) == expected
    ended = run.model_copy(update={"state": "stopped", "checkpoint_env_steps": 16_400})
    line.show_status(Status(run=ended), "my-server")
    assert words_of(line) == "my-server · lunar-2, stopped · checkpoint at 16.4 k steps"
    assert status_words(Status(), "") == "no run"
    assert status_words(Status(clients=[client("a")]), "here") == "here · no run · 1 client"


def test_the_switch_toggles_by_click_and_by_space(qtbot: QtBot) -> None:
    switch = shown(qtbot, ToggleSwitch("Help train"))
    off = switch.grab().toImage()
    with qtbot.waitSignal(switch.toggled):
        qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    assert switch.isChecked()
    assert switch.grab().toImage() != off
    qtbot.keyClick(switch, Qt.Key.Key_Space)
    assert not switch.isChecked()
    switch.setEnabled(False)
    qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    assert not switch.isChecked()


@pytest.mark.parametrize("percent", [100, 150])
def test_a_button_without_words_says_them_otherwise(qtbot: QtBot, both_themes: Theme, percent: int) -> None:
    both_themes.set_font_scale(percent)
    button = shown(qtbot, FittingButton("&Restart", "restart"))
    full = button.sizeHint().width()
    assert (button.full_width, button.toolTip()) == (full, "")
    button.show_icon_only(True)
    assert button.sizeHint().width() < full
    assert (button.full_width, button.text()) == (full, "")
    assert button.toolTip() == button.accessibleName() == "Restart"
    assert button.shortcut() == QKeySequence("Alt+R"), "its key is left when its words go"
    button.explain("Stops it first")
    assert button.toolTip() == button.accessibleDescription() == "Stops it first"
    button.show_icon_only(False)
    assert button.text() == "&Restart"


def test_a_button_whose_menu_was_left_is_not_lit(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    button = shown(qtbot, QPushButton("For"))
    menu = QMenu(button)
    menu.addAction("an hour")
    give_menu(button, menu)
    for place, pointed_at in ((button.rect().center(), True), (button.rect().bottomRight() * 3, False)):
        monkeypatch.setattr(QCursor, "pos", lambda place=place: button.mapToGlobal(place))
        button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, True)
        menu.popup(button.mapToGlobal(button.rect().bottomLeft()))
        menu.close()
        assert button.underMouse() is pointed_at


def test_a_time_keeps_off_the_edge_of_its_field_and_is_whole(qtbot: QtBot) -> None:
    edit = QTimeEdit()
    edit.setDisplayFormat("HH:mm")
    give_room(edit)
    edit.resize(edit.sizeHint())
    inner = part_of(shown(qtbot, edit), QLineEdit)
    margin = inner.textMargins().left()
    assert margin > 0
    assert inner.width() - margin > inner.fontMetrics().horizontalAdvance("00:00")


def test_a_box_of_presets_may_end_while_it_has_the_keyboard(qtbot: QtBot, theme: Theme) -> None:
    window = QWidget()
    box = PresetBox("None", window)
    window.show()
    window.activateWindow()
    box.setFocus()
    qtbot.waitUntil(box.hasFocus)
    with qtbot.captureExceptions() as told:
        shiboken6.delete(window)
    assert told == []


def test_presets_stand_under_their_tasks_which_can_not_be_chosen(qtbot: QtBot) -> None:
    presets = [
        Preset(name=name, title=name.upper(), about=f"About {name}.", values={"env.id": env})
        for name, env in (("a", "CartPole-v1"), ("b", "LunarLander-v3"), ("c", "CartPole-v1"))
    ]
    box = PresetBox("None")
    qtbot.addWidget(box)
    box.offer(presets[:1])
    box.offer(presets)
    offered = [box.itemText(place) for place in range(box.count())]
    assert offered == ["None", "CartPole", "A", "C", "LunarLander", "B"]
    assert box.itemData(box.findData("b"), Qt.ItemDataRole.ToolTipRole) == "About b."
    assert box.findData("") == 0
    chosen = [box.currentText()]
    for _ in range(4):
        qtbot.keyClick(box, Qt.Key.Key_Down)
        chosen.append(box.currentText())
    assert chosen == ["None", "A", "C", "B", "B"]


def table_of_runs(qtbot: QtBot) -> Table:
    made = Table("t", "Runs")
    made.setModel(RunsModel(made))
    return shown(qtbot, made)


def test_the_title_of_the_sorted_column_says_so_behind_its_words(qtbot: QtBot) -> None:
    table = table_of_runs(qtbot)

    def title() -> str:
        option = QStyleOptionHeader()
        table.horizontalHeader().initStyleOptionForIndex(option, 1)
        return str(option.text)

    table.sort_by(1)
    assert title() == "Name ↑"
    table.sort_by(1, downwards=True)
    assert title() == "Name ↓"
    table.sort_by(0)
    assert title() == "Name"


def test_columns_that_share_their_room_ask_for_few_of_many_rows(qtbot: QtBot) -> None:
    asked: set[int] = set()

    class Asked(QStandardItemModel):
        def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
            asked.add(index.row())
            return super().data(index, role)

    table = Table("things", "Things")
    table.setModel(Asked(5000, 2, table))
    shown(qtbot, table, 600, 400)
    asked.clear()
    table.share_room([0, 1])
    assert 0 < len(asked) < 100


def test_a_row_is_opened_by_enter(qtbot: QtBot) -> None:
    table = Table("things", "Things")
    table.setModel(QStandardItemModel(2, 1, table))
    shown(qtbot, table).setCurrentIndex(table.model().index(1, 0))
    with qtbot.waitSignal(table.row_opened) as signal:
        qtbot.keyClick(table, Qt.Key.Key_Return)
    assert signal.args[0].row() == 1


def test_columns_survive_a_restart(qtbot: QtBot) -> None:
    first, second = table_of_runs(qtbot), table_of_runs(qtbot)
    first.setColumnWidth(1, 77)
    first.horizontalHeader().moveSection(0, 2)
    second.restore_columns(first.save_columns())
    assert second.columnWidth(1) == 77
    assert second.horizontalHeader().visualIndex(0) == 2


def test_columns_follow_the_letters_there_and_back(qtbot: QtBot, both_themes: Theme) -> None:
    table = table_of_runs(qtbot)
    before = table.columnWidth(1)
    both_themes.set_font_scale(150)
    qtbot.waitUntil(lambda: table.columnWidth(1) > 1.2 * before)
    large = table_of_runs(qtbot)
    large.setColumnWidth(1, 300)
    kept, line_px = large.save_columns(), large.line_px
    both_themes.set_font_scale(100)
    qtbot.waitUntil(lambda: table.columnWidth(1) == before)
    table.restore_columns(kept, line_px)
    assert table.columnWidth(1) == 300 * table.line_px // line_px < 300


def test_a_hidden_column_has_its_width_again_with_smaller_letters(qtbot: QtBot, both_themes: Theme) -> None:
    both_themes.set_font_scale(150)
    large = table_of_runs(qtbot)
    large.setColumnWidth(1, 300)
    large.setColumnHidden(1, True)
    kept, line_px = large.save_columns(), large.line_px
    both_themes.set_font_scale(100)
    table = table_of_runs(qtbot)
    table.restore_columns(kept, line_px)
    assert table.isColumnHidden(1)
    table.setColumnHidden(1, False)
    assert table.columnWidth(1) == 300 * table.line_px // line_px


def test_only_the_last_part_makes_room_for_a_message_all_for_a_smaller_window(qtbot: QtBot) -> None:
    window, message = QWidget(), QLabel("It is saved.")
    message.hide()
    message.setFixedHeight(40)
    parts = QTextEdit(), QTextEdit()
    splitter = split("parts", Qt.Orientation.Vertical, window, *parts)
    column((splitter, 1), message, on=window, margins=NO_MARGINS, gap_px=0)
    # Before it is seen it is laid out in sizes that are not those of the page yet.
    splitter.resize(300, 100)
    splitter.setSizes([200, 300])
    window.resize(300, 600)
    splitter.resize(300, 200)
    with qtbot.waitExposed(shown(qtbot, window, 300, 600)):
        pass
    first, last = splitter.sizes()
    assert first == pytest.approx(240, abs=5)
    for is_there in (True, False, True):
        message.setVisible(is_there)
        window.layout().activate()
        assert splitter.sizes() == [first, last - 40 * is_there]
    message.hide()
    window.resize(300, 500)
    window.layout().activate()
    qtbot.waitUntil(lambda: splitter.sizes()[0] < first)
    assert splitter.sizes()[1] < last


def test_the_part_before_makes_room_where_the_last_one_has_none(qtbot: QtBot) -> None:
    window, message, last = QWidget(), QLabel("It is saved."), QTextEdit()
    message.hide()
    message.setFixedHeight(40)
    last.setFixedHeight(90)
    splitter = split("parts", Qt.Orientation.Vertical, window, QTextEdit(), QTextEdit(), last)
    column((splitter, 1), message, on=window, margins=NO_MARGINS, gap_px=0)
    with qtbot.waitExposed(shown(qtbot, window, 300, 600)):
        pass
    splitter.setSizes([300, 200, 90])
    sizes = first, middle, line = splitter.sizes()
    for smallest in (90, 70):
        last.setMinimumHeight(smallest)
        message.show()
        window.layout().activate()
        gives = line - smallest
        assert splitter.sizes() == [first, middle - 40 + gives, line - gives]
        message.hide()
        window.layout().activate()
        assert splitter.sizes() == list(sizes), "as it was before the message"
