"""What joining means, in words."""

from soulsgui.gui.models.consent import consent_lines, consent_title
from soulsgui.wire.control import OfferedServer, SavedServer
from soulsgui.wire.invitation import Invitation

INVITATION = Invitation(
    server_id="server-1",
    server_name="atelier",
    client="gamer-01",
    addresses=(("192.168.1.5", 6379), ("fd00::5", 6379), ("atelier", 6379), ("atelier.local", 6379)),
    secret="0123456789abcdef-for-tests",
    prefix="souls:",
    created=1.0,
)
SERVER = SavedServer(
    server_id="server-1", server_name="atelier", client="gamer-01", addresses=[], created=1.0
)


def words(offered: OfferedServer | None, trouble: str = "", plays_for: str = "") -> dict[str, str]:
    return {
        line.name: f"{line.words} {line.look.word if line.look else ''}".strip()
        for line in consent_lines(INVITATION, offered, trouble, plays_for)
    }


def test_it_says_who_asks_what_runs_what_is_sent_what_it_costs_and_who_decides() -> None:
    offered = OfferedServer(
        server=SERVER,
        known=False,
        address="192.168.1.5:6379",
        round_trip_s=0.0031,
        env_id="Toy-v0",
        num_envs=4,
        cores=8,
    )
    said = words(offered)
    assert consent_title(INVITATION) == "Help atelier train?"
    assert list(said) == ["who", "what", "sent", "cpu", "you"]
    assert "atelier, at 192.168.1.5:6379, [fd00::5]:6379, atelier:6379 and 1 more address" in said["who"]
    assert "knows this computer as gamer-01. It answers at 192.168.1.5:6379, in 3 ms" in said["who"]
    assert said["what"].startswith("Toy-v0, 4 copies side by side")
    assert "warnings and errors" in said["sent"]
    assert "No files" in said["sent"]
    assert said["sent"].endswith("it is not encrypted.")
    pinned = INVITATION.model_copy(update={"pin": "0" * 64})
    assert consent_lines(pinned, offered)[2].words.endswith("it is encrypted.")
    assert "one of this computer's 8 cores" in said["cpu"]
    assert "pause it at any time" in said["you"]


def test_before_the_answer_and_without_one_it_says_so() -> None:
    assert words(None)["who"].endswith("Asking it …")
    assert words(None, "No runner answers.")["who"].endswith("No runner answers.")
    away = OfferedServer(
        server=SERVER, known=False, error="No answer from 192.168.1.5:6379 (no route to host)."
    )
    assert "You can agree all the same" in words(away)["who"]
    assert words(away)["what"].startswith("The environment that is trained there")


def test_it_says_whom_this_computer_leaves_for_it() -> None:
    assert "plays for cellar at present" in words(None, plays_for="cellar")["instead"]


def test_it_says_how_many_processes_run_here_and_what_else_is_called() -> None:
    offered = OfferedServer(
        server=SERVER,
        known=False,
        env_id="Toy-v0",
        num_envs=4,
        workers=3,
        restart_hook="toys:start",
        cores=8,
    )
    said = words(offered)
    assert "3 more for its environments: while they play, up to 3 of this computer's 8 cores" in said["cpu"]
    assert "toys:start is called on this computer" in said["what"]
    one = offered.model_copy(update={"num_envs": 1, "workers": 9, "restart_hook": ""})
    assert "one more for its environments" in words(one)["cpu"], "no worker is without an environment"
    assert "called" not in words(one)["what"]
    small = offered.model_copy(update={"num_envs": 64, "workers": 64, "cores": 2})
    assert "64 more for its environments: while they play, up to 2 of" in words(small)["cpu"]
