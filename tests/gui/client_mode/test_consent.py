from typing import Any

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from soulsgui.gui.client_mode.consent import ConsentPanel, agree_dialog, consent_lines, consent_title
from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.command_button import Stage
from soulsgui.wire.control import ApiError, OfferedServer, SavedServer
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.messages.server_config import Execution
from tests.gui.fake_feed import FakeFeed, refusal
from tests.states import invitation

INVITATION = invitation(
    addresses=(("192.168.1.5", 6379), ("fd00::5", 6379), ("atelier", 6379), ("atelier.local", 6379))
)
SECOND = INVITATION.model_copy(update={"server_id": "server-2", "server_name": "cellar"})
SERVER = SavedServer(
    server_id="server-1", server_name="atelier", client="gamer-01", addresses=[("10.0.0.1", 1)], created=1.0
)
TOY = Execution(env_id="Toy-v0", num_envs=4)
OFFERED = OfferedServer(server=SERVER, known=False, runs=TOY, cores=8)


def words(offered: OfferedServer | None, trouble: str = "", plays_for: str = "") -> dict[str, str]:
    return {
        line.name: f"{line.words} {line.look.word if line.look else ''}".strip()
        for line in consent_lines(INVITATION, offered, trouble, plays_for)
    }


def test_it_says_who_asks_what_runs_what_is_sent_what_it_costs_and_who_decides() -> None:
    offered = OFFERED.model_copy(update={"address": "192.168.1.5:6379", "round_trip_s": 0.0031})
    said = words(offered)
    assert consent_title(INVITATION) == "Help atelier train?"
    assert list(said) == ["who", "what", "files", "sent", "cpu", "you"]
    assert "atelier, at 192.168.1.5:6379, [fd00::5]:6379, atelier:6379 and 1 more address" in said["who"]
    assert "knows this computer as gamer-01. It answers at 192.168.1.5:6379, in 3 ms" in said["who"]
    assert said["what"].startswith("Environment: Toy-v0 × 4")
    assert said["files"].startswith("Only files in a folder of its own")
    free = words(offered.model_copy(update={"unconfined": "Only Linux can keep it to a folder."}))
    assert free["files"] == "Files, wherever you may write yourself. Only Linux can keep it to a folder."
    assert "warnings and errors" in said["sent"]
    assert "No files" in said["sent"]
    assert said["sent"].endswith("it is encrypted.")
    assert "one of this computer's 8 cores" in said["cpu"]
    assert "pause it at any time" in said["you"]


def test_it_says_what_it_does_not_know_yet_whom_this_computer_leaves_and_what_else_is_called_here() -> None:
    assert words(None)["who"].endswith("Asking it …")
    assert words(None, "No runner answers.")["who"].endswith("No runner answers.")
    away = OfferedServer(server=SERVER, known=False, error="No answer from 192.168.1.5:6379.")
    assert "You can agree anyway" in words(away)["who"]
    assert words(away)["what"].startswith("The environment that is trained there")
    assert "plays for cellar at present" in words(None, plays_for="cellar")["instead"]
    more = {"env_kwargs": {"wind": True}, "restart_hook": "toys:start", "network": "nets:Mine"}
    wrappers = ["TimeLimit", {"toys:Wrap": {"by": 2}}]
    told = words(
        OFFERED.model_copy(update={"runs": TOY.model_copy(update=more | {"env_wrappers": wrappers})})
    )
    assert told["what"].splitlines() == [
        "Environment: Toy-v0 × 4",
        'Arguments: {"wind": true}',
        'Wrappers: TimeLimit, {"toys:Wrap": {"by": 2}}',
        "Called when it fails: toys:start",
        "Network: nets:Mine",
        "Imported: nets, toys",
        "You are asked again before anything else runs here.",
    ]
    assert "alled" not in words(OFFERED)["what"]


def test_it_says_how_many_processes_run_here() -> None:
    def cost(workers: int, num_envs: int, cores: int) -> str:
        runs = TOY.model_copy(update={"workers": workers, "num_envs": num_envs})
        return words(OFFERED.model_copy(update={"runs": runs, "cores": cores}))["cpu"]

    more = "more for its environments"
    assert f"3 {more}: while they play, up to 3 of this computer's 8 cores" in cost(3, 4, 8)
    assert f"one {more}" in cost(9, 1, 8), "none without an environment"
    assert f"2 {more}: while they play, up to 2" in cost(64, 64, 2)


class _Asked:
    def __init__(self, qtbot: QtBot) -> None:
        self.feed = FakeFeed()
        self.panel = ConsentPanel(ClientSide(feed=self.feed))  # type: ignore[arg-type]
        qtbot.addWidget(self.panel)
        self.answered = 0
        self.problems: list[ApiError] = []
        self.panel.answered.connect(self._count)
        self.panel.problem.connect(self.problems.append)

    def ask(self, invitation: Invitation = INVITATION, known: bool = False) -> None:
        """Ask, and answer what is asked of the server."""
        self.panel.ask(invitation)
        assert not self.panel.accept.isEnabled(), "a yes is to what is shown"
        offered = OFFERED.model_copy(update={"known": known})
        self.feed.sent[-1].call.answer(offered.model_dump(mode="json"))

    def _count(self) -> None:
        self.answered += 1

    def commands(self) -> list[tuple[str, dict[str, Any]]]:
        return [(one.command, one.params) for one in self.feed.sent if one.command != "servers.look"]


@pytest.fixture
def asked(theme: Theme, qtbot: QtBot) -> _Asked:
    return _Asked(qtbot)


def test_while_it_joins_there_is_no_no_and_a_second_question_is_not_answered_by_the_first_yes(
    asked: _Asked,
) -> None:
    panel = asked.panel
    asked.ask()
    assert panel.decline.isEnabled()
    panel.accept.click()
    assert not panel.decline.isEnabled()
    panel.decline.click()
    assert asked.answered == 0
    asked.feed.sent[-1].call.refuse(refusal("The server is full."))
    assert panel.decline.isEnabled()
    assert [one.message for one in asked.problems] == ["The server is full."]
    panel.decline.click()
    agreed: dict[str, Any] = {"digest": TOY.digest, "always": False}
    assert asked.answered == 1
    assert asked.commands() == [("servers.join", {"invitation": INVITATION.link, **agreed})]
    asked.ask()
    panel.accept.click()
    joining = asked.feed.sent[-1].call
    asked.ask(SECOND)
    joining.answer({"server_id": "server-1"})
    assert asked.answered == 1
    assert panel.title.text() == "Help cellar train?"
    assert panel.decline.isEnabled()
    panel.always.setChecked(True)
    panel.accept.click()
    agreed["always"] = True
    assert asked.feed.sent[-1].params == {"invitation": SECOND.link, **agreed}
    asked.feed.sent[-1].call.answer({"server_id": "server-2"})
    assert asked.answered == 2


@pytest.mark.parametrize(
    ("known", "undone"),
    [(False, ("servers.forget", {"server_id": "server-1"})), (True, ("service.stop", {"name": "client"}))],
)
def test_a_no_after_silence_is_kept_also_when_the_join_goes_through_later(
    asked: _Asked, known: bool, undone: tuple[str, dict[str, Any]]
) -> None:
    panel, feed = asked.panel, asked.feed
    asked.ask(known=known)
    panel.accept.click()
    joining = feed.sent[-1].call
    joining.silent.emit(refusal("No answer."))
    assert panel.accept.stage is Stage.SILENT
    panel.decline.click()
    panel.ask(INVITATION)
    joining.answer({"server_id": "server-1"})
    assert asked.commands()[-1] == undone
    assert asked.answered == 1, "the question that is asked again is not answered by that"


def test_something_new_is_shown_whole_and_agreed_to_by_its_digest(theme: Theme, qtbot: QtBot) -> None:
    feed, asks = FakeFeed(), TOY.model_copy(update={"restart_hook": "toys:start"})
    dialog = agree_dialog(feed, SERVER, asks)  # type: ignore[arg-type]
    qtbot.addWidget(dialog)
    said = "\n".join(label.text() for label in dialog.findChildren(QLabel))
    assert all(word in said for word in ("Toy-v0", "toys:start", "Imported", "toys"))
    dialog.run.click()
    assert (feed.sent[-1].command, feed.sent[-1].params) == (
        "servers.agree", {"server_id": "server-1", "digest": asks.digest, "always": False},
    )  # fmt: skip
    feed.sent[-1].call.refuse(refusal("There is no room."))
    assert "There is no room." in dialog.wrong.text()
    dialog.always.setChecked(True)
    dialog.run.click()
    assert feed.sent[-1].params["always"] is True
    feed.sent[-1].call.answer({})
    assert dialog.result() == dialog.DialogCode.Accepted


def test_what_is_agreed_to_is_shown_to_its_last_word(asked: _Asked, qtbot: QtBot) -> None:
    wrappers = [f"harmless_{number}.wrappers:TimeLimit" for number in range(300)]
    asks = TOY.model_copy(update={"env_wrappers": [*wrappers, "zz_canary:Own"]})
    assert not asks.too_long
    dialog = agree_dialog(asked.feed, SERVER, asks)
    qtbot.addWidget(dialog)
    said = [label.text() for label in dialog.findChildren(QLabel)]
    assert len([words for words in said if "zz_canary" in words]) == 2, "among the wrappers and the modules"
    asked.panel.ask(INVITATION)
    offered = OFFERED.model_copy(update={"runs": asks})
    asked.feed.sent[-1].call.answer(offered.model_dump(mode="json"))
    assert asked.panel.lines["what"].words.text().count("zz_canary") == 2
