"""Who may come in is changed while the server runs, and the webhook of alerts is tried."""

from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from soulsgui.gui.config.server import ServerTab
from soulsgui.wire.control import InvitationList
from tests.gui.fake_feed import LOST, FakeFeed, FakeShell
from tests.gui.reading import shown


def reach(lan: bool = False, public: bool = False, port: int = 6379) -> dict[str, Any]:
    places = [("192.168.1.5" if lan else "127.0.0.1", port)]
    known = InvitationList(lan=lan, public=public, port=port, addresses=places, invitations=[])
    return known.model_dump(mode="json")


@pytest.fixture
def tab(qtbot: QtBot, fake: FakeFeed, shell: FakeShell) -> ServerTab:
    fake.answers["clients.invite.list"] = reach()
    made = shown(qtbot, ServerTab(fake, shell), 900, 500)  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: made.lan.isEnabled())
    return made


def test_others_are_let_in_at_once_and_those_to_be_invited_anew_are_named(
    qtbot: QtBot, tab: ServerTab, fake: FakeFeed, shell: FakeShell
) -> None:
    assert (tab.port.value(), tab.public.isEnabled(), tab.apply.isEnabled()) == (6379, False, False)
    assert "only from the server's computer" in tab.reach.word
    tab.lan.click()
    tab.public.click()
    tab.port.setValue(6380)
    told = {"lan": True, "public": True, "port": 6380, "addresses": [("192.168.1.5", 6380)]}
    fake.answers |= {"server.set": told | {"reissue": ["gamer-01"]}}
    fake.answers["clients.invite.list"] = reach(lan=True, public=True, port=6380)
    with qtbot.waitSignal(tab.changed):
        tab.apply.click()
    assert fake.sent_of("server.set")[-1].params == {"lan": "on", "public": "on", "port": 6380}
    qtbot.waitUntil(lambda: "192.168.1.5:6380" in tab.reach.word)
    assert not tab.apply.isEnabled(), "nothing is changed any more"
    assert "gamer-01" in shell.told[-1].detail
    tab.lan.click()
    tab.apply.click()
    assert fake.sent_of("server.set")[-1].params == {"lan": "off", "public": "off"}


def test_what_is_typed_stays_when_the_state_is_read_again(
    qtbot: QtBot, tab: ServerTab, fake: FakeFeed
) -> None:
    tab.port.setValue(7000)
    asked = len(fake.sent)
    tab.refresh()
    qtbot.waitUntil(lambda: len(fake.sent) > asked and fake.sent[-1].call.over)
    assert tab.port.value() == 7000


def test_an_alert_is_sent_to_try_the_webhook_and_without_one_it_says_why_not(
    qtbot: QtBot, tab: ServerTab, fake: FakeFeed, shell: FakeShell
) -> None:
    fake.change_allowed(alerts_test="No webhook is set, so no alerts are sent.")
    assert (tab.test.isEnabled(), tab.no_test.text()) == (False, "No webhook is set, so no alerts are sent.")
    fake.change_allowed()
    fake.answers["alerts.test"] = {"place": "ntfy.sh", "status": 200}
    tab.test.click()
    qtbot.waitUntil(lambda: bool(shell.told))
    assert shell.told[-1].text == "The test reached ntfy.sh: HTTP status 200."
    fake.connect_as(LOST)
    assert not tab.test.isEnabled()
    assert not tab.apply.isEnabled()
