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


@pytest.mark.parametrize("look", [*SERVICES, *CLIENTS, *RUNS, *LEVELS], ids=lambda look: look.word)
def test_every_state_has_a_word_and_a_shipped_icon(look: Look) -> None:
    assert look.icon != "help"
    assert look.word[0].isupper()
    assert shipped("resources", "icons", f"{look.icon}.svg").is_file()


@pytest.mark.parametrize(
    "looks", [SERVICES, CLIENTS, RUNS, LEVELS], ids=["service", "client", "run", "level"]
)
def test_states_of_one_kind_differ_in_shape_or_word_not_in_colour_alone(looks: list[Look]) -> None:
    assert len({look.word for look in looks}) == len(looks)
    shapes = {look.icon for look in looks}
    assert len(shapes) >= len(looks) - 1


def test_a_state_of_a_newer_server_is_shown_as_it_is() -> None:
    assert client_look("hibernating").word == "Hibernating"
    assert service_look("hibernating").icon == "help"


def test_every_phase_of_a_node_has_a_word() -> None:
    assert all(phase_word(phase)[0].isupper() for phase in get_args(NodePhase))
    assert phase_word("") == ""


def test_services_are_named_as_on_the_page() -> None:
    assert service_title("redis", "redis") == "Redis"
    assert service_title("client-2", "client") == "Client 2"
    assert service_title("inference-1", "inference") == "inference-1"


def test_clients_are_counted_by_who_is_here_and_who_should_be() -> None:
    def count(*states: str) -> tuple[int, int]:
        return clients_here(ClientStatus(id=state, name=state, state=state) for state in states)

    assert count("online", "late", "waiting", "joining", "paused", "draining") == (6, 6)
    assert count("lost", "invited", "quarantined") == (0, 3)
    assert count("left", "refused", "revoked") == (0, 0)
