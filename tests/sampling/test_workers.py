"""The environments of a client: in processes as in one vector, their masks, and what hangs."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import psutil
import pytest
from gymnasium.vector import AutoresetMode

from soulsgui.environments.make import make_vector
from soulsgui.environments.step import EnvStepper, StepResult
from soulsgui.errors import EnvironmentCheckError, EnvironmentFault, ProcessFault
from soulsgui.process import child_env, own_command
from soulsgui.sampling import environment
from soulsgui.sampling.environment import Environment
from soulsgui.sampling.watchdog import EnvironmentLimits, Watchdog, WatchedStepper
from soulsgui.sampling.workers import SpreadStepper
from soulsgui.system import kill_descendants
from soulsgui.wire.codec import send
from soulsgui.wire.messages.server_config import ON_POLICY
from tests.faults.waiting import LIMIT_S

TOYS = "tests.environments.toys"


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    made = Watchdog(EnvironmentLimits(60.0), _hung)
    made.start()
    yield made
    made.close()


Spread = Callable[..., SpreadStepper]


@pytest.fixture
def spread(watchdog: Watchdog) -> Iterator[Spread]:
    """Makes environments in processes, of which none is left at the end."""
    with ExitStack() as made:

        def spread(env: tuple[str, Any, Any], num_envs: int, workers: int) -> SpreadStepper:
            stepper = SpreadStepper(env, num_envs, workers, watchdog, 60.0)
            stepper.open()
            return made.enter_context(closing(stepper))

        yield spread
    assert _children() == []


def _children() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if "worker" in one.cmdline()]


def assert_same(told: StepResult, expected: StepResult) -> None:
    for name in StepResult._fields:
        found, wanted = getattr(told, name), getattr(expected, name)
        if wanted is None:
            assert found is None
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=name)
            assert found.dtype == wanted.dtype


@pytest.mark.parametrize(
    ("env", "workers"),
    [
        # With a wrapper there is no vector form of its own, and each environment has its own seed.
        (("CartPole-v1", {}, [{"TimeLimit": {"max_episode_steps": 9}}]), 4),
        ((f"{TOYS}:ToysRoom-v0", {"length": 3}, []), 2),
        ((f"{TOYS}:ToysMasked-v0", {"length": 3}, []), 2),
    ],
    ids=["numbers", "images and numbers", "masks"],
)
def test_processes_give_the_numbers_of_one(spread: Spread, env: tuple[str, Any, Any], workers: int) -> None:
    alone, several = EnvStepper(make_vector(*env, 3)), spread(env, 3, workers)
    assert alone.vector_env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert several.spaces.action.n == alone.vector_env.single_action_space.n
    assert len(_children()) == min(workers, 3)
    assert several.mask is None
    rng = np.random.default_rng(1)
    for _ in range(2):
        np.testing.assert_array_equal(several.reset(3), alone.reset(3))
        for _ in range(15):
            np.testing.assert_array_equal(several.mask, alone.mask)
            assert (several.mask is None) == ("Masked" not in env[0])
            actions = rng.integers(0, 2, 3) if alone.mask is None else alone.mask.argmax(axis=1) + 1
            told = several.step(actions)
            assert_same(told, alone.step(actions))
            assert told.reset_mask is several.mask
    assert several.timer.step_s > 0


@pytest.mark.allow_warnings
def test_what_can_not_be_made_is_told_as_in_one_process(spread: Spread) -> None:
    with pytest.raises(EnvironmentCheckError, match="CartPool-v1") as told:
        spread(("CartPool-v1", {}, []), 2, 2)
    assert "CartPole-v1" in told.value.remedy
    assert _children() == []


@pytest.mark.allow_warnings
def test_what_raises_is_told_with_its_traceback_and_so_is_a_process_that_is_gone(spread: Spread) -> None:
    faulty = spread((f"{TOYS}:ToysFaulty-v0", {"fault": "raises"}, []), 2, 2)
    faulty.reset(0)
    with pytest.raises(EnvironmentFault, match="The environment raised in a step: RuntimeError") as told:
        faulty.step(np.zeros(2, np.int64))
    assert "toys.py" in told.value.details
    faulty.kill()
    with pytest.raises(EnvironmentFault, match="A worker process of the environment is gone"):
        faulty.step(np.zeros(2, np.int64))


def test_processes_before_one_that_fails_are_ended(spread: Spread, monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen
    started: list[int] = []

    def start_one(*args: Any, **kwargs: Any) -> Any:
        if started:
            raise OSError("no more processes")
        process = start(*args, **kwargs)
        started.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", start_one)
    with pytest.raises(OSError, match="no more processes"):
        spread(("CartPole-v1", {}, []), 3, 3)
    assert not psutil.pid_exists(started[0])


def test_a_worker_that_hangs_ends_also_when_its_client_is_gone() -> None:
    process = subprocess.Popen(
        own_command("worker"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | child_env()
    )
    try:
        with process.stdin:
            process.stdout.close()
            env = ("tests.sampling.odd_toys:ToysHangs-v0", {}, [])
            send(process.stdin, {"env": json.dumps(env), "num_envs": 1, "hang_s": 0.5})  # type: ignore[arg-type]
            assert process.wait(LIMIT_S) == 1
    finally:
        process.kill()
        process.wait()


HANGING = {
    "env.id": "tests.sampling.odd_toys:ToysHangs-v0",
    "env.kwargs": {},
    "env.wrappers": [],
    "env.num_envs": 2,
    "client.workers": 2,
    "client.hang_seconds": 100.0,
}


def _hung(_fault: object) -> None:
    raise AssertionError


def made(name: str, workers: int, masked: bool | None = None) -> Environment:
    settings: dict[str, Any] = {"env.id": f"{TOYS}:Toys{name}-v0", "env.kwargs": {}, "env.wrappers": []}
    return Environment(settings, 2, _hung, workers, masked)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "masked", "workers"), [("Masked", True, 0), ("Masked", True, 1), ("Camera", False, 0)]
)
def test_where_nobody_says_so_it_is_asked_for_its_masks(name: str, masked: bool, workers: int) -> None:
    with closing(made(name, workers)) as found:
        assert found.spaces.action.masked is masked
        found.make_anew()
        assert found.spaces.action.masked is masked


def test_what_the_server_says_of_masks_is_believed_until_the_first_reset_and_in_the_contract() -> None:
    contracts = set()
    for masked in (True, False):
        with closing(made("Masked", 0, masked)) as found:
            assert found.stepper.mask is None
            assert found.spaces.action.masked is masked
            contracts |= {found.contract(ON_POLICY, state) for state in ({}, {"hidden": (3,)})}
    assert len(contracts) == 4, "and the state of the policy"


@pytest.mark.processes
def test_workers_that_hang_while_they_are_made_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # Their own watchdogs find nothing: the client's, which looks later by rights, looks first.
    monkeypatch.setattr(environment, "_LATER_S", -99.0)
    ended: list[ProcessFault] = []

    def on_hang(fault: ProcessFault) -> None:
        ended.append(fault)
        kill_descendants()

    with pytest.raises(EnvironmentFault, match="A worker process of the environment is gone"):
        Environment(HANGING, None, on_hang)
    assert ended == []


@pytest.mark.processes
@pytest.mark.allow_warnings
@pytest.mark.filterwarnings("ignore:.*render method")
def test_a_game_is_looked_at_also_in_a_worker_and_one_that_can_not_be_goes_on(
    spread: Spread, watchdog: Watchdog, caplog: pytest.LogCaptureFixture
) -> None:
    env = "CartPole-v1", {"render_mode": "rgb_array"}, []
    with closing(make_vector(*env, 2)) as vector:
        alone, several = WatchedStepper(vector, watchdog), spread(env, 2, 2)
        for stepper in (alone, several):
            stepper.reset(seed=3)
        there, here = several.shown(), alone.shown()
        assert here is not None
        assert there is not None
        assert here.shape == there.shape == (133, 200, 3)
        np.testing.assert_array_equal(several.step(np.ones(2, np.int64)).reward, np.ones(2))
    blind = spread((f"{TOYS}:ToysCounter-v0", {}, []), 1, 1)
    blind.reset(seed=0)
    assert blind.shown() is None
    assert blind.step(np.zeros(1, np.int64)).reward == 1.0
    with closing(make_vector("CartPole-v1", {}, [], 1)) as vector:
        unable = WatchedStepper(vector, watchdog)
        unable.reset(seed=0)
        assert unable.shown() is None
        assert "the game can't be shown" in caplog.text
