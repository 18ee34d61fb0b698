"""The environments of a client: their masks; who hangs while it is made is ended, not the client."""

from contextlib import closing
from typing import Any

import pytest

from soulsgui.errors import EnvironmentFault, ProcessFault
from soulsgui.sampling import environment
from soulsgui.sampling.environment import Environment
from soulsgui.system import kill_descendants
from soulsgui.wire.messages.server_config import ON_POLICY

TOYS = "tests.environments.toys"
SETTINGS = {
    "env.id": "tests.sampling.odd_toys:ToysHangs-v0",
    "env.kwargs": {},
    "env.wrappers": [],
    "env.num_envs": 2,
    "client.workers": 2,
    "client.hang_seconds": 100.0,
}


def made(name: str, workers: int, masked: bool | None = None) -> Environment:
    def hung(_fault: object) -> None:
        raise AssertionError

    settings: dict[str, Any] = {"env.id": f"{TOYS}:Toys{name}-v0", "env.kwargs": {}, "env.wrappers": []}
    return Environment(settings, 2, hung, workers, masked)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "masked", "workers"), [("Masked", True, 0), ("Masked", True, 1), ("Camera", False, 0)]
)
def test_where_nobody_says_so_it_is_asked_for_its_masks(name: str, masked: bool, workers: int) -> None:
    with closing(made(name, workers)) as found:
        assert found.spaces.action.masked is masked
        found.make_anew()
        assert found.spaces.action.masked is masked


@pytest.mark.parametrize("masked", [True, False])
def test_what_the_server_says_of_masks_is_believed_until_the_first_reset(masked: bool) -> None:
    with closing(made("Masked", 0, masked)) as found:
        assert found.stepper.mask is None
        assert found.spaces.action.masked is masked


def test_masks_and_the_state_of_the_policy_belong_to_the_contract() -> None:
    contracts = set()
    for masked in (True, False):
        with closing(made("Masked", 0, masked)) as found:
            contracts |= {found.contract(ON_POLICY, state) for state in ({}, {"hidden": (3,)})}
    assert len(contracts) == 4


@pytest.mark.processes
def test_workers_that_hang_while_they_are_made_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # Their own watchdogs find nothing: the client's, which looks later by rights, looks first.
    monkeypatch.setattr(environment, "_LATER_S", -99.0)
    ended: list[ProcessFault] = []

    def on_hang(fault: ProcessFault) -> None:
        ended.append(fault)
        kill_descendants()

    with pytest.raises(EnvironmentFault, match="A worker process of the environment is gone"):
        Environment(SETTINGS, None, on_hang)
    assert ended == []
