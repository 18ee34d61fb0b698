from typing import get_args

import pytest

from soulsgui.config.paths import shipped
from soulsgui.gui.states import (
    Look,
    client_look,
    clients_here,
    level_look,
    phase_word,
    run_look,
    service_look,
    service_title,
)
from soulsgui.wire.beats import ClientState
from soulsgui.wire.control import ClientStatus, RunState, ServiceState
from soulsgui.wire.messages.node import NodePhase

SERVICES = [service_look(state) for state in get_args(ServiceState)]
CLIENTS = [client_look(state) for state in (*ClientState, "invited")]
RUNS = [run_look(state) for state in get_args(RunState)]
LEVELS = [level_look(level) for level in ("info", "success", "warning", "error")]


@pytest.mark.parametrize(
    "looks", [SERVICES, CLIENTS, RUNS, LEVELS], ids=["service", "client", "run", "level"]
)
def test_every_state_has_a_word_and_an_icon_and_differs_not_in_colour_alone(looks: list[Look]) -> None:
    for look in looks:
        assert look.icon != "help"
        assert look.word[0].isupper()
        assert shipped("resources", "icons", f"{look.icon}.svg").is_file()
    assert len({look.word for look in looks}) == len(looks)
    assert len({look.icon for look in looks}) >= len(looks) - 1


def test_what_a_newer_server_tells_is_shown_as_it_is() -> None:
    assert client_look("hibernating").word == "Hibernating"
    assert service_look("hibernating").icon == "help"
    titles = [service_title(*of) for of in (("redis", "redis"), ("client-2", "client"), ("new-1", "new"))]
    assert titles == ["Redis", "Client 2", "new-1"]
    assert all(phase_word(phase)[0].isupper() for phase in get_args(NodePhase))
    assert phase_word("") == ""


def test_clients_are_counted_by_who_is_here_and_who_should_be() -> None:
    def count(*states: str) -> tuple[int, int]:
        return clients_here(ClientStatus(id=state, name=state, state=state) for state in states)

    assert count("online", "late", "waiting", "joining", "paused", "draining") == (6, 6)
    assert count("quarantined") == (0, 1)
    assert count("invited", "lost", "left", "refused", "revoked") == (0, 0)
    serves = ClientStatus(id="inference-1", name="inference-1", state="online")
    assert clients_here([serves]) == (0, 0)
