import base64
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QMessageBox
from pytestqt.qtbot import QtBot

from soulsgui.gui.clients.look import LookDialog
from soulsgui.gui.clients.model import COLUMNS
from soulsgui.gui.clients.page import ClientLogDialog, ClientsPage
from soulsgui.gui.clients.section import spark_points
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.dialog import NameDialog
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.wire.control import ClientLog, ClientStatus, LogLine, Status
from soulsgui.wire.messages.session import GamePicture
from tests import states
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell, refusal
from tests.gui.questions import answer
from tests.gui.reading import part_of, shown, words_of

INVITED = 1_790_000_000.0


def client(name: str, *refused: str, **fields: Any) -> ClientStatus:
    allowed = {f"clients.{action}": f"{name} can't be asked that." for action in refused}
    return states.client(name, **({"age_s": 0.5, "allowed": allowed} | fields))


STAYS = ("forget", "release")
ONLINE = client("gamer-01", *STAYS, invited=INVITED, rejected={"late": 12, "shape": 3}, version="0.4.0")
NEVER_SEEN = client("gamer-02", *STAYS, state="joining", age_s=None, invited=INVITED)
LONG_LOST = client("gamer-03", *STAYS, state="lost", age_s=3.2 * 86_400, invited=INVITED, wish="pause")
REVOKED = client(
    "gamer-04", "pause", "resume", "drain", "stop", "release", state="revoked", age_s=None, invited=INVITED
)
LOCAL = client("client-1", *STAYS, "revoke", local=True, error="it raised")


@pytest.fixture
def page(qtbot: QtBot, fake: FakeFeed, shell: FakeShell) -> ClientsPage:
    made = shown(qtbot, ClientsPage(fake, shell), 1100, 700)  # type: ignore[arg-type]
    fake.change_clients([ONLINE, NEVER_SEEN, LONG_LOST, REVOKED, LOCAL])
    qtbot.waitUntil(lambda: made.roster.model.rowCount() == 5)
    return made


def column(page: ClientsPage, name: str) -> dict[str, str]:
    model = page.roster.model
    place = model.column_number(name)
    rows = range(model.rowCount())
    return {str(model.name_at(row)): str(model.index(row, place).data()) for row in rows}


def test_everyone_is_listed_and_the_chosen_one_told_of(page: ClientsPage) -> None:
    assert column(page, "state") == {
        "client-1": "Online",
        "gamer-01": "Online",
        "gamer-02": "Invited, never seen",
        "gamer-03": "Lost for 3 d, will pause when back",
        "gamer-04": "Revoked",
    }
    assert not page.details.isVisible()
    page.roster.choose("gamer-01")
    assert page.details.isVisible()
    assert page.details.values["rejected"].text() == "12 late, 3 shape"
    assert page.details.values["version"].text() == "0.4.0"
    page.roster.choose("client-1")
    assert page.details.values["error"].text() == "it raised"
    assert page.details.values["invited"].text() == "one of this server's own"
    page.roster.choose("gamer-01", "client-1")
    assert not page.details.isVisible()


def test_an_inference_server_is_no_row_of_the_table(qtbot: QtBot, fake: FakeFeed, page: ClientsPage) -> None:
    fake.change_clients([client("inference-1"), client("client-2")])
    qtbot.waitUntil(lambda: "client-2" in column(page, "name"))
    assert "inference-1" not in column(page, "name")
    fake.change_clients([], removed=["gamer-01", "gamer-02", "gamer-03", "gamer-04", "client-1", "client-2"])
    qtbot.waitUntil(lambda: part_of(page, EmptyState).isVisible())


def test_what_can_not_work_is_off_and_says_why(page: ClientsPage) -> None:
    buttons = page.roster.buttons
    assert buttons["stop"].toolTip() == "Choose a client first."
    for chosen, allowed in (
        (ONLINE, {"pause", "drain", "stop", "purge", "revoke"}),
        (NEVER_SEEN, {"pause", "drain", "stop", "purge", "revoke"}),
        (LONG_LOST, {"resume", "drain", "stop", "purge", "revoke"}),
        (REVOKED, {"purge", "forget"}),
        (LOCAL, {"pause", "drain", "stop", "purge"}),
    ):
        page.roster.choose(chosen.id)
        assert {name for name, button in buttons.items() if button.isEnabled()} == allowed
        assert all(button.toolTip() for button in buttons.values())
        entries = page.roster.entries
        assert {name for name, entry in entries.items() if entry.isEnabled()} == allowed & entries.keys()
        assert page.rename.isEnabled()
        assert page.log.isEnabled() is (chosen.local or chosen.age_s is not None)


def test_each_button_sends_its_command_for_the_chosen_one_while_there_is_a_connection(
    page: ClientsPage, fake: FakeFeed, qtbot: QtBot
) -> None:
    page.roster.choose("gamer-01")
    for name in ("pause", "drain", "stop", "revoke"):
        if name == "revoke":
            page.roster.entries[name].trigger()
            assert not fake.sent_of("clients.revoke"), "it asks first"
            answer(page, "Revoke")
        else:
            page.roster.buttons[name].click()
        assert (fake.sent[-1].command, fake.sent[-1].params) == (f"clients.{name}", {"client": "gamer-01"})
    page.rename.trigger()
    rename = part_of(page, NameDialog)
    rename.name.setText(" Anna's PC ")
    rename.save.click()
    assert fake.sent[-1].command == "clients.rename"
    assert fake.sent[-1].params == {"client": "gamer-01", "name": "Anna's PC"}
    with qtbot.waitSignal(rename.accepted):
        fake.sent[-1].call.answer({})
    fake.connect_as(LOST)
    deeds = page.roster.buttons | page.roster.entries
    buttons = [*deeds.values(), page.rename, page.log, page.invite]
    assert not any(button.isEnabled() for button in buttons)
    assert all("Not connected" in button.toolTip() for button in buttons)
    assert len(column(page, "name")) == 5, "all stays in sight"
    fake.connect_as(LIVE)
    assert page.rename.isEnabled()


def test_the_filter_finds_states_and_an_empty_page_says_what_to_do(
    page: ClientsPage, fake: FakeFeed, shell: FakeShell, qtbot: QtBot
) -> None:
    empty = page.roster.empty
    page.roster.words.setText("never seen")
    assert list(column(page, "name")) == ["gamer-02"]
    page.roster.words.setText("nobody at all")
    assert "No client matches" in words_of(empty)
    assert not empty.button.isVisible()
    page.roster.words.clear()
    fake.take_snapshot(Status())
    qtbot.waitUntil(lambda: "Nobody plays" in words_of(empty))
    empty.button.click()
    assert shell.opened == [("invite", {})]


def test_a_local_client_has_its_log_on_the_page_of_the_logs_and_another_computer_what_it_has_told(
    page: ClientsPage, fake: FakeFeed, shell: FakeShell, qtbot: QtBot
) -> None:
    page.roster.choose("client-1")
    page.log.trigger()
    assert shell.shown == [("logs", {"service": "client-1"})]
    line = LogLine(service="gamer-01", number=1, time=INVITED, level="error", text="the game crashed")
    fake.answers["clients.log"] = ClientLog(lines=[line], whole=False)
    page.roster.choose("gamer-01")
    page.log.trigger()
    dialog = part_of(page, ClientLogDialog)
    qtbot.waitUntil(lambda: "the game crashed" in dialog.pane.text)
    qtbot.keyClick(part_of(dialog.pane, FilterEdit), Qt.Key.Key_Return)
    assert dialog.isVisible(), "Enter in the filter closes nothing"
    assert fake.sent_of("clients.log")[0].params == {"client": "gamer-01", "n": 200}
    fake.answers["clients.log"] = refusal("It was taken away.")
    dialog.renew.click()
    qtbot.waitUntil(lambda: "taken away" in dialog.wrong.text())
    dialog.reject()


def test_a_game_is_looked_at_as_long_as_the_dialog_is_open(
    page: ClientsPage, fake: FakeFeed, qtbot: QtBot
) -> None:
    page.roster.choose("gamer-01")
    assert not page.look.isEnabled()
    assert "its owner allows it" in page.look.toolTip()
    fake.change_clients([ONLINE.model_copy(update={"shown": True})])
    qtbot.waitUntil(page.look.isEnabled)
    rgb = bytes([255, 0, 0, 0, 0, 255])
    fake.answers["clients.look"] = GamePicture(look=1, width=2, height=1, rgb=base64.b64encode(rgb).decode())
    page.look.trigger()
    dialog = part_of(page, LookDialog)
    qtbot.waitUntil(lambda: not dialog.picture.image.isNull())
    image = dialog.picture.image
    assert (image.pixelColor(0, 0).name(), image.pixelColor(1, 0).name()) == ("#ff0000", "#0000ff")
    fake.answers["clients.look"] = GamePicture(look=2, width=9, height=9, rgb="AAAA")
    qtbot.waitUntil(lambda: "can't be shown" in words_of(dialog.empty))
    fake.answers["clients.look"] = refusal("No picture came.")
    qtbot.waitUntil(lambda: "No picture came." in words_of(dialog.empty))
    dialog.reject()
    asked = len(fake.sent_of("clients.look"))
    qtbot.wait(700)
    assert len(fake.sent_of("clients.look")) == asked


def test_a_name_that_looks_like_markup_is_read_as_it_was_given(
    page: ClientsPage, fake: FakeFeed, qtbot: QtBot
) -> None:
    fake.change_clients([ONLINE.model_copy(update={"name": "<i>Eve</i>"})])
    qtbot.waitUntil(lambda: column(page, "name")["gamer-01"] == "<i>Eve</i>")
    page.roster.choose("gamer-01")
    assert page.details.values["id"].text() == "<i>Eve</i> (gamer-01)"
    page.log.trigger()
    page.roster.entries["revoke"].trigger()
    dialogs = [*page.findChildren(ClientLogDialog), *page.findChildren(QMessageBox)]
    said = [label for dialog in dialogs for label in dialog.findChildren(QLabel) if "Eve" in label.text()]
    assert len(said) == 2
    assert {label.textFormat() for label in said} == {Qt.TextFormat.PlainText}
    for dialog in dialogs:
        dialog.reject()


def test_rates_are_remembered_while_nobody_looks_and_columns_are_where_the_user_left_them(
    page: ClientsPage, fake: FakeFeed, shell: FakeShell, qtbot: QtBot
) -> None:
    page.roster.table.setColumnWidth(1, 333)
    page.hide()
    for rate in (100.0, 300.0, 200.0):
        fake.change_clients([client("gamer-01", env_steps_per_s=rate)])
    fake.take_snapshot(fake.status)
    again = ClientsPage(fake, shell)  # type: ignore[arg-type]
    qtbot.addWidget(again)
    assert again.roster.table.columnWidth(1) == 333
    page.show()
    qtbot.waitUntil(lambda: column(page, "rate")["gamer-01"] == "200")
    model = page.roster.model
    rates = model.rates_at(model.row_of("gamer-01") or 0)
    assert list(rates) == [0.0, 100.0, 300.0, 200.0, 200.0]


def test_a_small_curve_ends_at_the_right_edge_and_stands_on_zero() -> None:
    points = spark_points((0.0, 10.0, 5.0), 90, 10, 10)
    assert [(point.x(), point.y()) for point in points.toList()] == [(70, 10), (80, 0), (90, 5)]
    assert spark_points((1.0,), 90, 10, 10).isEmpty()
    assert spark_points((0.0, 0.0), 90, 10, 10).isEmpty()


def shown_columns(page: ClientsPage) -> list[str]:
    table = page.roster.table
    return [column.name for place, column in enumerate(COLUMNS) if not table.isColumnHidden(place)]


def test_what_says_least_gives_way_to_the_rest_and_nothing_is_scrolled_sideways(
    page: ClientsPage, both_themes: Theme, qtbot: QtBot
) -> None:
    bar = page.roster.table.horizontalScrollBar()
    page.resize(2600, 700)
    assert shown_columns(page) == [column.name for column in COLUMNS]
    page.resize(1160, 700)  # beside the pages' list in a window of 1,280 pixels
    usual = shown_columns(page)
    assert {"state", "name", "host", "env", "episodes", "mean", "rate", "lag", "age", "error"} <= set(usual)
    qtbot.waitUntil(lambda: bar.maximum() == 0)
    both_themes.set_font_scale(150)
    qtbot.waitUntil(lambda: bar.maximum() == 0 and len(shown_columns(page)) < len(usual))
    assert {"state", "name", "mean", "age"} <= set(shown_columns(page))
    both_themes.set_font_scale(100)
    qtbot.waitUntil(lambda: shown_columns(page) == usual)
