"""The cards of the services: what they say, allow and send."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Call
from soulsgui.gui.overview.services import ServiceCard
from soulsgui.gui.theme import Theme
from soulsgui.wire.control import (
    ServiceStatus,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Server:
    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, object]]] = []
        self.calls: list[Call] = []

    def __call__(self, command: str, params: dict[str, object]) -> Call:
        self.sent.append((command, params))
        self.calls.append(Call(command, "my-server"))
        return self.calls[-1]

    def answer(self) -> None:
        for call in self.calls:
            call.answer({})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def card(qtbot: QtBot, theme: Theme, server: Server, clock: Clock) -> ServiceCard:
    made = ServiceCard("trainer", server, clock=clock)
    qtbot.addWidget(made)
    made.resize(330, 140)
    made.show()
    return made


def status(state: str, **fields: object) -> ServiceStatus:
    return ServiceStatus.model_validate({"name": "trainer", "kind": "trainer", "state": state} | fields)


@pytest.mark.parametrize(
    ("state", "buttons"),
    [
        ("stopped", {"start"}),
        ("failed", {"start"}),
        ("starting", {"stop", "restart"}),
        ("running", {"stop", "restart"}),
        ("backoff", {"stop", "restart"}),
        ("stopping", {"stop", "restart"}),
    ],
)
def test_only_buttons_that_make_sense_are_shown(card: ServiceCard, state: str, buttons: set[str]) -> None:
    card.show_status(status(state))
    shown = {name for name in ("start", "stop", "restart") if getattr(card, name).isVisible()}
    assert shown == buttons
    assert card.stop.isEnabled() is (state != "stopping")


@pytest.mark.parametrize(
    ("state", "name", "command"),
    [
        ("stopped", "start", "service.start"),
        ("running", "stop", "service.stop"),
        ("backoff", "restart", "service.restart"),
    ],
)
def test_buttons_send_their_command(
    qtbot: QtBot, card: ServiceCard, server: Server, state: str, name: str, command: str
) -> None:
    card.show_status(status(state))
    qtbot.mouseClick(getattr(card, name), Qt.MouseButton.LeftButton)
    assert server.sent == [(command, {"name": "trainer"})]
    server.answer()


def test_the_log_button_names_the_service(qtbot: QtBot, card: ServiceCard) -> None:
    card.show_status(status("failed"))
    with qtbot.waitSignal(card.log_asked) as signal:
        qtbot.mouseClick(card.log, Qt.MouseButton.LeftButton)
    assert signal.args == ["trainer"]


def test_the_countdown_and_the_uptime_go_on_with_ticks(card: ServiceCard, clock: Clock) -> None:
    card.show_status(status("backoff", restart_in_s=8.0, failures=2, outcome="killed by signal 9"))
    assert "Restarting in 8 s (2/5)" in card.words
    clock.now += 3
    card.tick()
    assert "Restarting in 5 s (2/5)" in card.words
    assert "killed by signal 9" in card.words


def test_without_connection_it_stands_still_and_says_why_nothing_works(
    card: ServiceCard, clock: Clock
) -> None:
    card.show_status(status("running", uptime_s=60.0))
    card.connect_commands(False, "Not connected to my-server.")
    clock.now += 30
    card.tick()
    assert "00:01:00" in card.words
    assert not card.stop.isEnabled()
    assert card.stop.toolTip() == "Not connected to my-server."
    assert card.log.isEnabled()
    card.connect_commands(True)
    assert card.stop.isEnabled()


def test_a_long_state_is_read_to_its_end_on_a_narrow_card(qtbot: QtBot, card: ServiceCard) -> None:
    card.show_status(status("running", phase="updating", detail="waits for samples 62 %, samples wait 25 %"))
    card.resize(168, card.heightForWidth(168))
    said = next(label for label in card.findChildren(QLabel) if label.text().startswith("Updating"))
    assert said.height() > 1.8 * said.fontMetrics().height()
    assert said.height() >= said.heightForWidth(said.width())
    assert "waits for samples" in said.toolTip()


def test_screen_readers_hear_state_and_outcome(card: ServiceCard) -> None:
    card.show_status(status("failed", outcome="exit code 3"))
    assert card.accessibleName() == "Trainer: Failed. exit code 3"


def test_a_forbidden_button_says_why(card: ServiceCard) -> None:
    card.show_status(status("running", allowed={"service.stop": "Nothing can go on without it."}))
    assert not card.stop.isEnabled()
    assert card.stop.toolTip() == "Nothing can go on without it."
    assert card.restart.isEnabled()
    card.show_status(status("running"))
    assert card.stop.isEnabled()
