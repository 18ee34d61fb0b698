import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QCursor, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QLineEdit, QMenu, QPushButton, QTimeEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.client_mode.parts import ToggleSwitch
from soulsgui.gui.colours import LIGHT, Tone
from soulsgui.gui.models.connection import Connection, ConnectionState, banner_words, why_not
from soulsgui.gui.runs.models import RunsModel
from soulsgui.gui.shell.window import StatusLine, status_words
from soulsgui.gui.states import client_look
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.command_button import give_menu
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.inputs import give_room
from soulsgui.gui.widgets.labels import ElidedLabel, IconLabel, StateLabel
from soulsgui.gui.widgets.message_bar import Banner, MessageBar, Notice
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import ClientStatus, RunStatus, ServerStatus, Status
from tests.gui.reading import part_of, words_of

NOW = 1_790_000_000.0
QUIET = {ConnectionState.WELCOME, ConnectionState.NO_RUN, ConnectionState.CONNECTED}

# --- banner ---


def test_the_banner_says_how_things_stand_and_what_can_be_done(qtbot: QtBot, theme: Theme) -> None:
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


def test_every_problem_has_a_tone_and_a_title() -> None:
    for state in set(ConnectionState) - QUIET:
        words = banner_words(Connection(state), NOW)
        assert words is not None
        assert words.title
        assert why_not(Connection(state)) or Connection(state).live
        assert words.tone is not Tone.TEXT


# --- messages ---


@pytest.fixture
def holder(qtbot: QtBot, theme: Theme) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    QVBoxLayout(made)
    made.show()
    return made


@pytest.fixture
def bar(holder: QWidget) -> MessageBar:
    made = MessageBar(holder)
    layout = holder.layout()
    assert layout is not None
    layout.addWidget(made)
    return made


def test_the_bar_is_there_only_while_there_is_a_message(qtbot: QtBot, bar: MessageBar) -> None:
    assert not bar.isVisible()
    bar.show_notice(Notice("error", "No space left", "Free 200 MB."))
    assert bar.isVisible()
    close = bar.rows[0].findChildren(QPushButton)[-1]
    qtbot.mouseClick(close, Qt.MouseButton.LeftButton)
    assert not bar.isVisible()
    assert bar.rows == []


def test_the_action_button_acts_and_closes(qtbot: QtBot, bar: MessageBar) -> None:
    acted: list[int] = []
    bar.show_notice(Notice("error", "No answer.", "Try again.", "Retry", lambda: acted.append(1)))
    qtbot.mouseClick(bar.rows[0].action, Qt.MouseButton.LeftButton)
    assert acted == [1]
    assert bar.rows == []


def test_the_same_message_again_only_counts_up(bar: MessageBar) -> None:
    for _ in range(3):
        bar.show_notice(Notice("error", "No space left"))
    assert len(bar.rows) == 1
    assert "(× 3)" in words_of(bar.rows[0])


def test_only_the_newest_three_are_shown(bar: MessageBar) -> None:
    for number in range(5):
        bar.show_notice(Notice("warning", f"warning {number}"))
    assert [row.notice.text for row in bar.rows] == ["warning 2", "warning 3", "warning 4"]


def test_of_one_thing_one_message_stands_until_it_is_settled(bar: MessageBar) -> None:
    bar.show_notice(Notice("error", "Failed"))
    for text in ("No link", "Damaged"):
        bar.show_notice(Notice("error", text, about="invitation"))
    assert [row.notice.text for row in bar.rows] == ["Failed", "Damaged"]
    bar.settle("invitation")
    assert [row.notice.text for row in bar.rows] == ["Failed"]


def test_good_news_goes_away_by_itself_and_errors_stay(qtbot: QtBot, bar: MessageBar) -> None:
    bar.show_notice(Notice("success", "Saved"))
    bar.show_notice(Notice("error", "Failed"))
    good, bad = bar.rows
    assert good.timer.isActive()
    assert not bad.timer.isActive()
    good.expire()
    assert [row.notice.text for row in bar.rows] == ["Failed"]


# --- the rest ---


def test_an_elided_label_tells_the_whole_in_its_tooltip(qtbot: QtBot, theme: Theme) -> None:
    label = ElidedLabel("a very long sentence about what went wrong and where")
    qtbot.addWidget(label)
    label.show()
    label.resize(60, 20)
    assert label.toolTip() == label.text()
    label.resize(1000, 20)
    assert label.toolTip() == ""
    label.setText(20 * label.text())
    assert label.toolTip() == label.text()
    label.setText("short")
    assert label.toolTip() == ""


def test_a_state_is_told_by_icon_word_and_colour(qtbot: QtBot, theme: Theme) -> None:
    label = StateLabel()
    qtbot.addWidget(label)
    label.show_look(client_look("late"))
    assert label.word == "Late"
    icon = part_of(label, IconLabel)
    expected = IconLabel(parent=label)
    expected.show_icon("state-warning", Tone.WARNING)
    expected.resize(icon.sizeHint())
    icon.resize(icon.sizeHint())
    assert icon.grab().toImage() == expected.grab().toImage()
    label.resize(label.sizeHint())
    picture = label.grab().toImage()
    colours = {
        picture.pixelColor(x, y).name() for x in range(picture.width()) for y in range(picture.height())
    }
    assert LIGHT.tones[Tone.WARNING] in colours


def test_an_empty_state_has_a_button_only_when_there_is_something_to_do(qtbot: QtBot, theme: Theme) -> None:
    idle = EmptyState("page-logs", "Nothing yet", "Lines appear here.")
    useful = EmptyState("page-clients", "No clients", "Invite one.", "Invite…", "add")
    for widget in (idle, useful):
        qtbot.addWidget(widget)
        widget.show()
    assert not idle.button.isVisible()
    with qtbot.waitSignal(useful.acted):
        qtbot.mouseClick(useful.button, Qt.MouseButton.LeftButton)


def test_the_status_line_sums_up(qtbot: QtBot, theme: Theme) -> None:
    run = RunStatus(id="x", name="lunar-2", state="running", checkpoint_age_s=130)
    clients = [
        ClientStatus(id="a", name="a", state="online"),
        ClientStatus(id="b", name="b", state="lost"),
        ClientStatus(id="c", name="c", state="left"),
    ]
    status = Status(run=run, clients=clients, server=ServerStatus(disk_free_bytes=61_200_000_000))
    expected = "my-server · lunar-2, running · 1 of 2 clients · checkpoint 2 min ago · 61.2 GB free"
    assert status_words(status, "my-server") == expected
    line = StatusLine()
    qtbot.addWidget(line)
    line.show()
    line.show_status(status, "my-server")
    assert words_of(line) == expected
    ended = run.model_copy(update={"state": "stopped", "checkpoint_env_steps": 16_400})
    line.show_status(Status(run=ended), "my-server")
    assert words_of(line) == "my-server · lunar-2, stopped · checkpoint at 16.4 k steps"


def test_the_status_line_without_run_and_clients() -> None:
    assert status_words(Status(), "") == "no run"
    one = Status(clients=[ClientStatus(id="a", name="a", state="online")])
    assert status_words(one, "here") == "here · no run · 1 client"


def test_the_switch_toggles_by_click_and_by_space(qtbot: QtBot, theme: Theme) -> None:
    switch = ToggleSwitch("Help train")
    qtbot.addWidget(switch)
    switch.show()
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


def test_a_row_is_opened_by_enter(qtbot: QtBot, theme: Theme) -> None:
    table = Table("things", "Things")
    qtbot.addWidget(table)
    model = QStandardItemModel()
    model.appendRow([QStandardItem("first")])
    model.appendRow([QStandardItem("second")])
    table.setModel(model)
    table.show()
    table.setCurrentIndex(model.index(1, 0))
    with qtbot.waitSignal(table.row_opened) as signal:
        qtbot.keyClick(table, Qt.Key.Key_Return)
    assert isinstance(signal.args[0], QModelIndex)
    assert signal.args[0].row() == 1


def test_columns_survive_a_restart(qtbot: QtBot, theme: Theme) -> None:
    first, second = Table("things", "Things"), Table("things", "Things")
    for table in (first, second):
        qtbot.addWidget(table)
        table.setModel(QStandardItemModel(1, 4, table))
    first.setColumnWidth(1, 77)
    first.horizontalHeader().moveSection(0, 2)
    second.restore_columns(first.save_columns())
    assert second.columnWidth(1) == 77
    assert second.horizontalHeader().visualIndex(0) == 2


def test_columns_follow_the_letters_there_and_back(qtbot: QtBot, both_themes: Theme) -> None:
    table, model = Table("t", "Runs"), RunsModel()
    table.setModel(model)
    qtbot.addWidget(table)
    table.show()
    before = table.columnWidth(1)
    both_themes.set_font_scale(150)
    qtbot.waitUntil(lambda: table.columnWidth(1) > 1.2 * before)
    both_themes.set_font_scale(100)
    qtbot.waitUntil(lambda: table.columnWidth(1) == before)


def test_columns_that_were_kept_with_large_letters_fit_small_ones(qtbot: QtBot, both_themes: Theme) -> None:
    def table() -> Table:
        made = Table("t", "Runs")
        made.setModel(RunsModel(made))
        qtbot.addWidget(made)
        made.show()
        return made

    both_themes.set_font_scale(150)
    large = table()
    large.setColumnWidth(1, 300)
    both_themes.set_font_scale(150)
    kept, line_px = large.save_columns(), large.line_px
    both_themes.set_font_scale(100)
    small = table()
    small.restore_columns(kept, line_px)
    assert small.columnWidth(1) == 300 * small.line_px // line_px
    assert small.columnWidth(1) < 300


# --- a button with a menu ---


def test_a_button_whose_menu_was_left_elsewhere_looks_as_if_nobody_points_at_it(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    button = QPushButton("For")
    menu = QMenu(button)
    menu.addAction("an hour")
    qtbot.addWidget(button)
    give_menu(button, menu)
    button.show()
    for place, pointed_at in ((button.rect().center(), True), (button.rect().bottomRight() * 3, False)):
        monkeypatch.setattr(QCursor, "pos", lambda place=place: button.mapToGlobal(place))
        button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, True)
        menu.popup(button.mapToGlobal(button.rect().bottomLeft()))
        menu.close()
        assert button.underMouse() is pointed_at


# --- fields with arrows ---


def test_a_time_keeps_off_the_edge_of_its_field_and_is_whole(qtbot: QtBot, theme: Theme) -> None:
    edit = QTimeEdit()
    qtbot.addWidget(edit)
    edit.setDisplayFormat("HH:mm")
    give_room(edit)
    edit.resize(edit.sizeHint())
    edit.show()
    inner = edit.findChildren(QLineEdit)[0]
    room = inner.width() - inner.textMargins().left()
    assert inner.textMargins().left() > 0
    assert room > inner.fontMetrics().horizontalAdvance("00:00")
