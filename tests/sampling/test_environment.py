"""The environments of a client: whether they tell which actions are valid."""

from contextlib import closing
from typing import Any

import pytest

from soulsgui.sampling.environment import Environment
from soulsgui.wire.messages.server_config import ON_POLICY

TOYS = "tests.environments.toys"


def made(name: str, workers: int, masked: bool | None = None) -> Environment:
    def hung(_fault: object) -> None:
        raise AssertionError

    settings: dict[str, Any] = {"env.id": f"{TOYS}:Toys{name}-v0", "env.kwargs": {}, "env.wrappers": []}
    return Environment(settings, 2, hung, workers, masked)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("name", "masked"), [("Masked", True), ("Camera", False)])
def test_where_nobody_says_so_the_environment_is_asked_for_its_masks(
    name: str, masked: bool, workers: int
) -> None:
    with closing(made(name, workers)) as environment:
        assert environment.spaces.action.masked is masked
        environment.make_anew()
        assert environment.spaces.action.masked is masked


@pytest.mark.parametrize("masked", [True, False])
def test_what_the_server_says_of_masks_is_believed_until_the_first_reset(masked: bool) -> None:
    with closing(made("Masked", 0, masked)) as environment:
        assert environment.stepper.mask is None
        assert environment.spaces.action.masked is masked


def test_masks_and_the_state_of_the_policy_belong_to_the_contract() -> None:
    contracts = set()
    for masked in (True, False):
        with closing(made("Masked", 0, masked)) as environment:
            contracts |= {environment.contract(ON_POLICY, state) for state in ({}, {"hidden": (3,)})}
    assert len(contracts) == 4
