"""The question before a computer joins, before a played runner: a yes under way, a no, a second question."""

from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.gui.client_side import ClientSide
from soulsgui.gui.pages.client_consent import ConsentPanel
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.command_button import Stage
from soulsgui.wire.control import ApiError, OfferedServer, SavedServer
from soulsgui.wire.invitation import Invitation
from tests.gui.fake_feed import FakeFeed, refusal

FIRST = Invitation(
    server_id="server-1",
    server_name="atelier",
    client="gamer-01",
    addresses=(("192.168.1.5", 6379),),
    secret="0123456789abcdef-for-tests",
    prefix="souls:",
    created=1.0,
)
SECOND = FIRST.model_copy(update={"server_id": "server-2", "server_name": "cellar"})


class _Asked:
    """The panel, asking about the first invitation, and what came of it."""

    def __init__(self, qtbot: QtBot) -> None:
        self.feed = FakeFeed()
        self.side = ClientSide(feed=self.feed)  # type: ignore[arg-type]
        self.panel = ConsentPanel(self.side)
        qtbot.addWidget(self.panel)
        self.answered = 0
        self.problems: list[ApiError] = []
        self.panel.answered.connect(self._count)
        self.panel.problem.connect(self.problems.append)
        self.panel.ask(FIRST)

    def _count(self) -> None:
        self.answered += 1

    def commands(self) -> list[tuple[str, dict[str, Any]]]:
        return [(one.command, one.params) for one in self.feed.sent if one.command != "servers.look"]


@pytest.fixture
def asked(qapp: QApplication, theme: Theme, qtbot: QtBot) -> _Asked:
    return _Asked(qtbot)


def test_while_it_joins_there_is_no_no(asked: _Asked) -> None:
    panel = asked.panel
    assert panel.decline.isEnabled()
    panel.accept.click()
    assert not panel.decline.isEnabled()
    panel.decline.click()
    assert asked.answered == 0
    asked.feed.sent[-1].call.refuse(refusal("The server is full."))
    assert panel.decline.isEnabled()
    assert [one.message for one in asked.problems] == ["The server is full."]
    panel.decline.click()
    assert (asked.answered, asked.commands()) == (1, [("servers.join", {"invitation": FIRST.link})])


def test_a_second_question_is_not_answered_by_the_first_yes(asked: _Asked) -> None:
    panel = asked.panel
    panel.accept.click()
    joining = asked.feed.sent[-1].call
    panel.ask(SECOND)
    joining.answer({"server_id": "server-1"})
    assert asked.answered == 0
    assert panel.title.text() == "Help cellar train?"
    assert panel.decline.isEnabled()
    panel.accept.click()
    assert asked.feed.sent[-1].params == {"invitation": SECOND.link}
    asked.feed.sent[-1].call.answer({"server_id": "server-2"})
    assert asked.answered == 1


@pytest.mark.parametrize(
    ("known", "undone"),
    [(False, ("servers.forget", {"server_id": "server-1"})), (True, ("service.stop", {"name": "client"}))],
)
def test_a_no_after_silence_is_kept_also_when_the_join_goes_through_later(
    asked: _Asked, known: bool, undone: tuple[str, dict[str, Any]]
) -> None:
    panel, feed = asked.panel, asked.feed
    server = SavedServer(server_id="server-1", server_name="", client="", addresses=[], created=1.0)
    feed.sent[-1].call.answer(OfferedServer(server=server, known=known).model_dump(mode="json"))
    panel.accept.click()
    joining = feed.sent[-1].call
    joining.silent.emit(refusal("No answer."))
    assert panel.accept.stage is Stage.SILENT
    panel.decline.click()
    panel.ask(FIRST)
    joining.answer({"server_id": "server-1"})
    assert asked.commands()[-1] == undone
    assert asked.answered == 1, "the question that is asked again is not answered by that"
