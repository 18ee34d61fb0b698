"""Environments in processes of their own: as if they were in one vector."""

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest
from gymnasium.vector import AutoresetMode

from soulsgui.environments.make import make_vector
from soulsgui.environments.step import EnvStepper, StepResult
from soulsgui.errors import EnvironmentCheckError, EnvironmentFault
from soulsgui.process import child_env, own_command
from soulsgui.sampling.watchdog import EnvironmentLimits, Watchdog
from soulsgui.sampling.workers import SpreadStepper, send

TOYS = "tests.environments.toys"


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    def hung(_fault: object) -> None:
        raise AssertionError

    made = Watchdog(EnvironmentLimits(60.0), hung)
    made.start()
    yield made
    made.close()


def _spread(
    watchdog: Watchdog, env: tuple[str, Any, Any], num_envs: int, workers: int, hang_s: float = 60.0
) -> SpreadStepper:
    made = SpreadStepper(env, num_envs, workers, watchdog, hang_s)
    made.open()
    return made


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


def test_several_processes_give_the_numbers_of_one(watchdog: Watchdog) -> None:
    # With a wrapper there is no vector form of its own, and each environment has its own seed.
    env = ("CartPole-v1", {}, [{"TimeLimit": {"max_episode_steps": 9}}])
    alone = EnvStepper(make_vector(*env, 3))
    assert alone.vector_env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    spread = _spread(watchdog, env, 3, 4)
    try:
        assert len(_children()) == 3
        assert spread.spaces.action.n == 2
        np.testing.assert_array_equal(spread.reset(3), alone.reset(3))
        rng = np.random.default_rng(1)
        for _ in range(30):
            actions = rng.integers(0, 2, 3)
            told, expected = spread.step(actions), alone.step(actions)
            assert_same(told, expected)
            assert told.next_mask is None
        assert spread.timer.step_s > 0
    finally:
        spread.close()
        alone.close()
    assert _children() == []


@pytest.mark.parametrize("toy", ["Room", "Masked"])
def test_images_numbers_and_masks_come_from_several_processes_as_from_one(
    watchdog: Watchdog, toy: str
) -> None:
    env = (f"{TOYS}:Toys{toy}-v0", {"length": 3}, [])
    alone, spread = EnvStepper(make_vector(*env, 3)), _spread(watchdog, env, 3, 2)
    try:
        assert spread.mask is None
        for _ in range(2):
            np.testing.assert_array_equal(spread.reset(3), alone.reset(3))
            for _ in range(8):
                np.testing.assert_array_equal(spread.mask, alone.mask)
                assert (spread.mask is None) == (toy == "Room")
                actions = np.zeros(3, int) if alone.mask is None else alone.mask.argmax(axis=1) + 1
                told = spread.step(actions)
                assert_same(told, alone.step(actions))
                assert told.reset_mask is spread.mask
    finally:
        spread.close()
        alone.close()


@pytest.mark.allow_warnings
def test_what_can_not_be_made_is_told_as_in_one_process(watchdog: Watchdog) -> None:
    with pytest.raises(EnvironmentCheckError, match="CartPool-v1") as told:
        _spread(watchdog, ("CartPool-v1", {}, []), 2, 2)
    assert "CartPole-v1" in told.value.remedy
    assert _children() == []


@pytest.mark.allow_warnings
def test_what_raises_is_told_with_its_traceback_and_so_is_a_process_that_is_gone(watchdog: Watchdog) -> None:
    spread = _spread(watchdog, (f"{TOYS}:ToysFaulty-v0", {"fault": "raises"}, []), 2, 2)
    try:
        spread.reset(0)
        with pytest.raises(EnvironmentFault, match="The environment raised in a step: RuntimeError") as told:
            spread.step(np.zeros(2, np.int64))
        assert "toys.py" in told.value.details
        spread.kill()
        with pytest.raises(EnvironmentFault, match="A worker process of the environment is gone"):
            spread.step(np.zeros(2, np.int64))
    finally:
        spread.close()
    assert _children() == []


def test_where_a_process_can_not_be_started_those_before_it_are_ended(
    watchdog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        _spread(watchdog, ("CartPole-v1", {}, []), 3, 3)
    assert not psutil.pid_exists(started[0])


ENDS_WITHIN_S = 60.0


def test_a_worker_that_hangs_ends_also_when_its_client_is_gone() -> None:
    process = subprocess.Popen(
        own_command("worker"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | child_env()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin:
            process.stdout.close()
            env = ("tests.sampling.hanging_toy:ToysHangs-v0", {}, [])
            send(process.stdin, {"env": json.dumps(env), "num_envs": 1, "hang_s": 0.5})  # type: ignore[arg-type]
            assert process.wait(ENDS_WITHIN_S) == 1
    finally:
        process.kill()
        process.wait()
