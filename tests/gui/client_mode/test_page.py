import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, Qt, QTime
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton
from pytestqt.qtbot import QtBot

from soulsgui.gui.client_mode.page import ClientPage
from soulsgui.gui.client_mode.parts import MiddleColumn, ToggleSwitch
from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.client_mode.saved_servers import ChangeAddressDialog
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.shell.update import UpdateDialog
from soulsgui.gui.theme import Theme, underline_letters
from soulsgui.wire.control import RunStatus, ServerStatus, Status
from soulsgui.wire.versions import PROTOCOL_NAME, MissingRequirement
from tests import states
from tests.gui.fake_feed import FakeFeed, FakeShell, refusal
from tests.gui.reading import part_of, shown

NAME = "gamer-01"


def _status(**client: Any) -> Status:
    return Status(
        run=RunStatus(id="run-1"),
        services=[states.service("client")],
        clients=[states.client(NAME, **({"episodes": 3, "env_steps": 1234} | client))],
        server=ServerStatus(url="redis://127.0.0.1:1", reachable=True),
    )


Played = tuple[ClientPage, FakeFeed, FakeShell]


@pytest.fixture
def played(qapp: QApplication, theme: Theme, qtbot: QtBot, tmp_path: Path) -> Played:
    fake = FakeFeed(_status())
    shell = FakeShell(tmp_path, ClientSide(feed=fake))  # type: ignore[arg-type]
    page = shown(qtbot, ClientPage(FakeFeed(), shell))  # type: ignore[arg-type]
    return page, fake, shell


def test_the_switch_shows_its_letter_while_alt_is_held(qtbot: QtBot, theme: Theme) -> None:
    toggle = shown(qtbot, ToggleSwitch("&Help train"))
    plain = toggle.grab().toImage()
    press, release = QEvent.Type.KeyPress, QEvent.Type.KeyRelease
    for held in (press, release):
        key = QKeyEvent(held, Qt.Key.Key_Alt, Qt.KeyboardModifier.NoModifier)
        underline_letters(toggle, key)
        assert (toggle.grab().toImage() == plain) == (held is release)


def test_every_control_sends_its_command(played: Played, qtbot: QtBot) -> None:
    page, fake, _ = played
    pausing = page.pausing

    def sends(press: Callable[[], object], command: str, **params: Any) -> None:
        press()
        assert (fake.sent[-1].command, fake.sent[-1].params) == (command, params)
        fake.sent[-1].call.answer({})

    sends(pausing.now.click, "clients.pause", client=NAME, after_episode=False)
    sends(pausing.later.click, "clients.pause", client=NAME, after_episode=True)
    choices = pausing.for_a_time.menu().actions()
    assert [choice.text().replace("&", "") for choice in choices] == ["30 minutes", "1 hour"]
    for choice, for_s in zip(choices, (1800.0, 3600.0), strict=True):
        sends(choice.trigger, "clients.pause", client=NAME, after_episode=False, for_s=for_s)
        fake.take_snapshot(_status(wish="pause", paused_until=time.time() + for_s))
        qtbot.waitUntil(lambda: "Paused by you until " in page.state.words)
        assert (pausing.for_a_time.isEnabled(), pausing.now.isEnabled()) == (True, True)
    assert not pausing.later.isEnabled()
    fake.take_snapshot(_status(wish="pause"))
    qtbot.waitUntil(lambda: not pausing.now.isEnabled())
    sends(pausing.resume.click, "clients.resume", client=NAME)
    sends(page.switch.toggle.click, "service.stop", name="client")


@pytest.mark.parametrize("width", [480, 760, 1280])
def test_every_button_keeps_its_words_however_narrow_the_window_is(
    played: Played, qtbot: QtBot, width: int
) -> None:
    page, fake, _ = played
    page.resize(width, 600)
    assert (page.server.change.isHidden(), page.server.paste.isHidden()) == (True, True)
    fake.take_snapshot(_lost())
    qtbot.waitUntil(lambda: page.server.change.isVisible() and page.server.paste.isVisible())
    for row in (page.server, page.pausing, page.servers):
        for button in row.findChildren(QPushButton):
            qtbot.waitUntil(lambda button=button: button.width() >= button.sizeHint().width())
            assert button.text(), button.accessibleName()
            assert button.mapTo(page, button.rect().topRight()).x() < width, button.text()


def test_page_and_question_are_as_wide_as_their_letters_want(played: Played, both_themes: Theme) -> None:
    page, _, _ = played
    columns = [one.inside for one in page.findChildren(MiddleColumn)]
    before = [column.maximumWidth() for column in columns]
    assert len(columns) == 2
    both_themes.set_font_scale(200)
    assert all(column.maximumWidth() > 1.8 * width for column, width in zip(columns, before, strict=True))


def test_what_is_no_invitation_is_said_until_a_good_one_is_pasted(
    qapp: QApplication, played: Played, tmp_path: Path
) -> None:
    page, _, shell = played
    shell.notify("error", "The trainer crashed.")
    said = ["The trainer crashed.", "There is no invitation to paste.", "The link is damaged or cut off."]
    for text in ("", "soulsgui://join/abc"):
        qapp.clipboard().setText(text)
        page.servers.paste.click()
    page.servers.open_path(str(tmp_path / "nowhere.soulsgui"))
    assert [told.text for told in shell.told][:3] == said
    assert "There is no invitation in" in shell.told[-1].text
    assert shell.client_side().invitation is None
    qapp.clipboard().setText(states.invitation().link)
    page.servers.paste_link()
    assert page.consent.title.text() == "Help atelier train?"
    assert [told.text for told in shell.told] == ["The trainer crashed."]


def test_a_curve_that_can_t_be_read_is_told_once(played: Played, qtbot: QtBot) -> None:
    page, fake, shell = played
    fake.answers["history.query"] = refusal("The store is damaged.", "Look at its log.")
    page.curve.view.renew()
    qtbot.waitUntil(lambda: len(fake.sent_of("history.query")) > 2)
    assert [(told.text, told.detail) for told in shell.told] == [
        ("The store is damaged.", "Look at its log.")
    ]


def test_the_filter_of_the_log_searches_all_that_is_kept(played: Played, qtbot: QtBot) -> None:
    page, fake, _ = played
    page.log.button.click()
    part_of(page.log.pane, QLineEdit).setText("needle")
    qtbot.waitUntil(lambda: fake.sent[-1].params.get("filter") == "needle")
    assert fake.sent[-1].command == "history.logs"
    assert "level" not in fake.sent[-1].params, "each of them"


def test_a_refused_switch_goes_back_and_an_answer_to_an_earlier_wish_does_not_move_it(
    played: Played, qtbot: QtBot
) -> None:
    page, fake, shell = played
    toggle = page.switch.toggle
    fake.answers["service.stop"] = refusal("It does not stop.", "Wait.")
    toggle.click()
    assert not toggle.isChecked()
    qtbot.waitUntil(toggle.isChecked)
    assert [(told.text, told.detail) for told in shell.told] == [("It does not stop.", "Wait.")]
    del fake.answers["service.stop"]
    for _ in range(3):
        toggle.click()
    first, second, third = (sent.call for sent in fake.sent[-3:])
    first.answer({})
    second.refuse(refusal())
    assert not toggle.isChecked(), "the last wish is not answered yet"
    third.silent.emit(refusal("No answer."))
    assert toggle.isChecked(), "nothing has changed, so the switch goes back"
    toggle.click()
    third.answer({})
    assert not toggle.isChecked(), "it came after all, and too late"
    fake.sent[-1].call.answer({})
    assert toggle.isChecked()


def test_a_lost_connection_dims_what_is_known_and_without_a_runner_the_switch_starts_one(
    played: Played, qtbot: QtBot
) -> None:
    page, fake, shell = played
    values, toggle = page.given.values, page.switch.toggle
    qtbot.waitUntil(lambda: values["episodes"].text() == "3")
    assert values["share"].text() == "—"
    fake.take_snapshot(_status(share=0.25))
    qtbot.waitUntil(lambda: values["share"].text() == "25 %")
    fake.connect_as(Connection(ConnectionState.RECONNECTING, "this computer", since=1.0))
    qtbot.waitUntil(lambda: not page.given.isEnabled())
    assert (values["episodes"].text(), values["steps"].text()) == ("3", "1,234")
    assert not page.curve.isEnabled()
    fake.connect_as(Connection(ConnectionState.WELCOME))
    qtbot.waitUntil(lambda: "Not joined" in page.state.words)
    assert not toggle.isChecked()
    assert not page.pausing.now.isEnabled()
    with qtbot.waitSignal(shell.client_side().start_wanted):
        toggle.click()
    assert toggle.isChecked()
    fake.connect_as(Connection(ConnectionState.STARTING))
    qtbot.waitUntil(lambda: "Connecting" in page.state.words)
    assert toggle.isChecked()


def test_nothing_is_drawn_while_the_page_is_hidden_and_the_buttons_stay_when_a_sentence_goes(
    played: Played, qtbot: QtBot
) -> None:
    page, fake, _ = played
    qtbot.waitUntil(lambda: "Playing, episode 4" in page.state.words)
    place = page.pausing.now.mapTo(page, page.pausing.now.rect().topLeft())
    page.hide()
    fake.take_snapshot(_status(wish="pause"))
    qtbot.wait(150)
    assert "Playing, episode 4" in page.state.words
    page.show()
    qtbot.waitUntil(lambda: page.state.words == "Paused by you")
    assert page.pausing.now.mapTo(page, page.pausing.now.rect().topLeft()) == place


def _lost() -> Status:
    server = ServerStatus(url="redis://192.168.1.5:6379", name="atelier", reachable=False)
    return _status().model_copy(update={"server": server})


def test_a_test_of_the_server_is_told_in_words(played: Played, qtbot: QtBot) -> None:
    page, fake, shell = played
    fake.answers["servers.test"] = {"address": "127.0.0.1:1", "round_trip_s": 0.003, "env_id": "Toy-v0"}
    page.server.test.click()
    qtbot.waitUntil(lambda: bool(shell.told))
    (told,) = shell.told
    assert (told.level, told.detail) == ("success", "It trains Toy-v0; the versions fit.")
    assert "answers at 127.0.0.1:1 in 3 ms" in told.text


def test_another_address_is_taken_at_once_where_the_server_is_and_else_when_confirmed(
    played: Played, qtbot: QtBot
) -> None:
    page, fake, _ = played
    saved = {"server_id": "server-1", "server_name": "atelier", "client": NAME, "created": 1.0}
    saved |= {"addresses": [["192.168.1.5", 6379]]}
    fake.sent_of("servers.list")[-1].call.answer({"chosen": "server-1", "servers": [saved]})
    fake.take_snapshot(_lost())
    qtbot.waitUntil(lambda: page.servers.chosen is not None and page.server.change.isEnabled())
    page.server.change.click()
    dialog = part_of(page, ChangeAddressDialog)
    assert dialog.place.text() == "192.168.1.5:6379"

    def use(place: str, **answer: Any) -> None:
        dialog.place.setText(place)
        dialog.use.send()
        wanted = {"server_id": "server-1", "place": place, "confirmed": False}
        assert (fake.sent[-1].command, fake.sent[-1].params) == ("servers.change_address", wanted)
        fake.sent[-1].call.answer({"taken": False, "why": "Another server answers."} | answer)

    use("192.168.1.8", final=True)
    assert "Ask its owner for a new invitation." in dialog.wrong.text()
    assert dialog.insist.isHidden(), "one with another certificate can't be confirmed"
    use("192.168.1.9")
    assert dialog.wrong.text() == "Another server answers."
    assert not dialog.insist.isHidden()
    dialog.place.setText("192.168.1.10")
    dialog.place.textEdited.emit("192.168.1.10")
    assert dialog.insist.isHidden(), "nothing was said of that one yet"
    use("192.168.1.9")
    dialog.insist.click()
    confirmed = {"server_id": "server-1", "place": "192.168.1.9", "confirmed": True}
    assert fake.sent[-1].params == confirmed
    with qtbot.waitSignal(dialog.accepted):
        fake.sent[-1].call.answer({"taken": True})


def _rules(**change: Any) -> dict[str, Any]:
    off = ("only_idle", "not_full_screen", "only_hours", "writes_anywhere", "shows_game")
    return dict.fromkeys(off, False) | {"begin": 1320, "end": 480, "share": "full"} | change


def test_a_changed_rule_is_sent_with_all_the_others_and_a_refused_one_goes_back(played: Played) -> None:
    page, fake, shell = played
    rules = page.rules
    fake.sent_of("rules.get")[-1].call.answer({"rules": _rules()})
    assert (rules.begin.isEnabled(), rules.begin.text()) == (False, "22:00")
    rules.hours.click()
    assert fake.sent[-1].command == "rules.set"
    assert fake.sent[-1].params == {"rules": _rules(only_hours=True)}
    fake.sent[-1].call.answer({"rules": _rules(only_hours=True)})
    assert rules.begin.isEnabled()
    rules.end.setTime(QTime(7, 30))
    assert fake.sent[-1].params == {"rules": _rules(only_hours=True, end=450)}
    fake.sent[-1].call.answer({"rules": _rules(only_hours=True, end=450)})
    rules.anywhere.click()
    assert fake.sent[-1].params == {"rules": _rules(only_hours=True, end=450, writes_anywhere=True)}
    fake.sent[-1].call.answer({"rules": _rules(only_hours=True, end=450, writes_anywhere=True)})
    assert rules.anywhere.isChecked()
    rules.full_screen.click()
    fake.sent[-1].call.refuse(refusal("The disk is full."))
    assert not rules.full_screen.isChecked()
    assert shell.told[-1].text == "The disk is full."


def test_a_rule_that_can_t_be_followed_here_is_off_with_its_reason(played: Played) -> None:
    page, fake, _ = played
    rules, why = page.rules, "xprintidle is not installed."
    known = {"rules": _rules(), "why_not_idle": why, "why_not_one_core": "Not on macOS."}
    known["why_not_confined"] = "Only Linux can keep it to a folder."
    fake.sent_of("rules.get")[-1].call.answer(known)
    assert (rules.idle.isEnabled(), rules.full_screen.isEnabled()) == (False, True)
    assert rules.why_idle.text() == rules.idle.toolTip() == why
    assert (rules.anywhere.isEnabled(), rules.anywhere.toolTip()) == (False, known["why_not_confined"])
    one_core = rules.share.model().index(2, 0)
    assert not rules.share.model().flags(one_core) & Qt.ItemFlag.ItemIsEnabled
    rules.share.setCurrentIndex(1)
    assert fake.sent[-1].params == {"rules": _rules(share="gentle")}


def test_a_network_that_the_inference_server_has_is_not_spoken_of(played: Played, qtbot: QtBot) -> None:
    page, fake, _ = played
    network = page.checks.labels["network"]
    qtbot.waitUntil(network.isVisible)
    fake.take_snapshot(_status(remote=True))
    qtbot.waitUntil(lambda: not network.isVisible())
    fake.take_snapshot(_status())
    qtbot.waitUntil(network.isVisible)


def test_a_computer_that_is_too_old_gets_a_button_that_copies_what_to_type(
    played: Played, qtbot: QtBot, qapp: QApplication
) -> None:
    page, fake, _ = played
    update = page.state.update_button
    assert not update.isVisible()
    newer_here = MissingRequirement(what=PROTOCOL_NAME, has="2", needs="1")
    fake.take_snapshot(_status(checks={"version": False}, lacks=[newer_here]))
    qtbot.waitUntil(lambda: "Update of the server needed" in page.state.words)
    assert not update.isVisible()
    missing = MissingRequirement(what="pygame", has="", needs="2.5")
    fake.take_snapshot(_status(checks={"version": False}, lacks=[missing]))
    qtbot.waitUntil(update.isVisible)
    update.click()
    dialog = part_of(page, UpdateDialog)
    dialog.copy.click()
    assert qapp.clipboard().text().endswith('-m pip install --upgrade "pygame>=2.5"')
    dialog.reject()
