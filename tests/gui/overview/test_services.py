from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from soulsgui.gui.colours import Tone
from soulsgui.gui.overview.services import CardSignals, ServiceCard, ServiceRow, card_words, group_words
from soulsgui.gui.theme import GAP_S, Theme
from soulsgui.wire.control import Status
from tests.gui.fake_feed import FakeFeed
from tests.gui.reading import shown, words_of
from tests.states import service


def test_a_running_service_tells_its_numbers_and_one_that_never_ran_nothing_instead_of_zeros() -> None:
    usage = {"cpu_percent": 98.2, "memory_bytes": 412_000_000, "restarts": 2}
    words = card_words(service(pid=4130, port=6379, uptime_s=2467.0, **usage), 0)
    assert (words.title, words.state) == ("Trainer", "Running on port 6379")
    assert words.facts == "pid 4130 · 00:41:07"
    assert words.usage == "CPU 98 % · 412 MB · 2 restarts"
    never = card_words(service(state="stopped"), 5)
    assert (never.facts, never.usage, never.sentence) == ("", "", "")


def test_a_node_tells_what_it_does() -> None:
    for phase, detail, state, icon in (
        ("updating", "62 updates/s", "Updating: 62 updates/s", "state-good"),
        ("waiting", "1 of 2 clients are ready", "Waiting: 1 of 2 clients are ready", "state-waiting"),
        ("paused", "", "Paused", "state-paused"),
        ("frozen", "loss is NaN", "Frozen: loss is NaN", "state-frozen"),
    ):
        words = card_words(service(phase=phase, detail=detail), 0)
        assert (words.state, words.look.icon) == (state, icon)


def test_a_service_that_ended_says_why() -> None:
    ended = service(state="backoff", restart_in_s=8.2, failures=3, outcome="exit code 1: port is taken")
    for passed_s, left_s in ((0.0, 8), (2.6, 6), (99.0, 0)):
        words = card_words(ended, passed_s)
        assert words.state == f"Restarting in {left_s} s (3/5)"
        assert (words.sentence, words.tone) == ("exit code 1: port is taken", Tone.WARNING)
    words = card_words(service(state="failed", outcome="killed by signal 9"), 0)
    assert (words.state, words.sentence, words.tone) == ("Failed", "killed by signal 9", Tone.BAD)
    assert card_words(service(state="failed"), 0).sentence == "It could not be started."


def test_the_local_clients_are_told_of_as_the_one_that_needs_attention() -> None:
    troubled = service("client-2", "backoff", restart_in_s=8.0, failures=3, outcome="exit 1", restarts=2)
    words = group_words([service("client-1", cpu_percent=20.0, memory_bytes=50_000_000), troubled], 3.0)
    assert (words.title, words.state) == ("Local clients 1/2", "Restarting in 5 s (3/5)")
    assert words.sentence == "Client 2: exit 1"
    assert words.usage == "CPU 20 % · 50.0 MB · 2 restarts"
    assert words.speaker == "client-2"
    none = group_words([], 0.0)
    assert (none.title, none.speaker) == ("Local clients 0/0", "")
    for states, state in (
        (["running", "running"], "Running"),
        (["running", "starting", "starting"], "2 of 3 starting"),
        (["stopped", "running"], "1 of 2 stopped"),
    ):
        clients = [service(f"client-{number}", one) for number, one in enumerate(states, 1)]
        assert group_words(clients, 0.0).state == state


@pytest.fixture
def time() -> SimpleNamespace:
    return SimpleNamespace(now=100.0)


@pytest.fixture
def card(qtbot: QtBot, theme: Theme, fake: FakeFeed, time: SimpleNamespace) -> ServiceCard:
    return shown(
        qtbot,
        ServiceCard("trainer", fake.call, None, lambda: time.now, lambda: None, CardSignals()),
        330,
        140,
    )


def test_only_buttons_that_make_sense_are_shown_and_send_theirs(card: ServiceCard, fake: FakeFeed) -> None:
    shown = {name: getattr(card, name) for name in ("start", "stop", "restart")}
    card.details.setChecked(True)
    for state, buttons, pressed in (
        ("stopped", {"start"}, "start"),
        ("failed", {"start"}, "start"),
        ("starting", {"stop", "restart"}, "stop"),
        ("running", {"stop", "restart"}, "stop"),
        ("backoff", {"stop", "restart"}, "restart"),
        ("stopping", {"stop", "restart"}, ""),
    ):
        card.show_status(service(state=state))
        assert {name for name, button in shown.items() if button.isVisible()} == buttons
        assert {name for name in buttons if shown[name].isEnabled()} == (buttons if pressed else set())
        if pressed:
            shown[pressed].click()
            sent = fake.sent.pop()
            assert (sent.command, sent.params) == (f"service.{pressed}", {"name": "trainer"})
            sent.call.answer({})


def test_a_card_goes_on_with_ticks_and_is_read_aloud(card: ServiceCard, time: SimpleNamespace) -> None:
    card.show_status(service(state="backoff", restart_in_s=8.0, failures=2, outcome="killed by signal 9"))
    assert "Restarting in 8 s (2/5)" in words_of(card)
    time.now += 3
    card.tick()
    assert "Restarting in 5 s (2/5)" in words_of(card)
    assert card.accessibleName() == "Trainer: Restarting in 5 s (2/5). killed by signal 9"


def test_without_connection_it_stands_still_and_says_why(card: ServiceCard, time: SimpleNamespace) -> None:
    card.show_status(service(uptime_s=60.0))
    card.connect_commands(False, "Not connected to my-server.")
    time.now += 30
    card.tick()
    assert "00:01:00" in words_of(card)
    assert (card.stop.isEnabled(), card.stop.toolTip()) == (False, "Not connected to my-server.")
    assert card.log.isEnabled()
    card.connect_commands(True)
    assert card.stop.isEnabled()


def test_a_long_state_is_read_to_its_end_on_a_narrow_card(qtbot: QtBot, card: ServiceCard) -> None:
    card.show_status(service(phase="updating", detail="waits for samples 62 %, samples wait 25 %"))
    card.details.setChecked(True)
    card.resize(168, card.heightForWidth(168))
    told = [label for label in card.findChildren(QLabel) if label.text().startswith("Updating")]
    said = next(label for label in told if not label.isHidden())
    assert "62\N{NO-BREAK SPACE}%" in said.text()
    assert said.height() > 1.8 * said.fontMetrics().height()
    assert said.height() >= said.heightForWidth(said.width())
    assert "waits for samples" in said.toolTip()


def test_one_that_ended_in_order_and_has_nothing_to_do_is_one_line(card: ServiceCard) -> None:
    ended = service(state="stopped", outcome="ended as asked")
    card.show_status(ended)
    assert card.is_open, "it can be started"
    card.show_status(ended.model_copy(update={"allowed": {"service.start": "No run is active."}}))
    assert not card.is_open


def test_more_cards_than_have_room_for_their_words_still_stand_in_one_line(
    qtbot: QtBot, theme: Theme, fake: FakeFeed
) -> None:
    row = shown(qtbot, ServiceRow(fake))
    names = ("redis", "gateway", "trainer", "telemetry", "evaluator")
    row.show_status(Status(services=[service(name, phase="updating") for name in names]))
    cards = [*row.cards.values(), row.clients]
    gaps = GAP_S * (len(cards) - 1)
    least = sum(card.minimumSizeHint().width() for card in cards) + gaps
    whole = sum(card.sizeHint().width() for card in cards) + gaps
    assert least < whole
    row.resize(least, row.height())
    qtbot.waitUntil(lambda: len({card.y() for card in cards}) == 1)
