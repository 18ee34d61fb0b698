"""Where a learner computes, and with how many threads."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from soulsgui.config.like import as_settings
from soulsgui.errors import ServiceError
from soulsgui.training.hardware import choose_device, choose_threads
from soulsgui.training.trainee import Trainee

VECTOR, IMAGE = False, True


@pytest.mark.parametrize(
    ("wanted", "available", "observation", "hidden", "chosen"),
    [
        ("auto", False, IMAGE, (64,), "cpu"),
        ("auto", True, VECTOR, (64, 64), "cpu"),
        ("auto", True, IMAGE, (64, 64), "cuda"),
        ("auto", True, VECTOR, (64, 1024), "cuda"),
        ("auto", True, VECTOR, (), "cpu"),
        ("cpu", True, IMAGE, (1024,), "cpu"),
        ("cuda", True, VECTOR, (64,), "cuda"),
    ],
)
def test_small_networks_stay_on_the_cpu_unless_it_is_said_otherwise(
    wanted: str, available: bool, observation: bool, hidden: tuple[int, ...], chosen: str
) -> None:
    assert choose_device(wanted, available, observation, hidden) == chosen


@pytest.mark.parametrize(
    ("algorithm", "network", "chosen"),
    [
        ("sac", {"value_hidden_sizes": [64, 2048]}, "cuda"),
        ("ppo", {"value_hidden_sizes": [64, 2048]}, "cuda"),
        ("dqn", {"value_hidden_sizes": [64, 2048]}, "cpu"),
        ("ppo", {"recurrent": "lstm", "recurrent_size": 2048}, "cuda"),
        ("ppo", {"recurrent_size": 2048}, "cpu"),
    ],
)
def test_every_network_that_is_trained_counts(
    monkeypatch: pytest.MonkeyPatch, algorithm: str, network: dict[str, Any], chosen: str
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    settings = as_settings({"algorithm": algorithm, "network": network, "learner": {"device": "auto"}})
    spaces = SimpleNamespace(observation=SimpleNamespace(fields=((None, SimpleNamespace(shape=(8,))),)))
    node = cast(Trainee, SimpleNamespace(settings=settings, spaces=spaces))
    assert cast(property, Trainee.device).__get__(node) == chosen


def test_a_gpu_that_is_wanted_and_not_there_is_said() -> None:
    with pytest.raises(ServiceError, match="finds no GPU"):
        choose_device("cuda", False, VECTOR, (64,))


@pytest.mark.parametrize(
    ("wanted", "weights", "cores", "threads"),
    [
        (0, 10_000, 64, 1),
        (0, 1_000_000, 2, 1),
        (0, 1_000_000, 16, 4),
        (0, 1_000_000, 128, 8),
        (3, 10_000, 2, 3),
    ],
)
def test_threads_go_by_the_size_of_the_network_and_the_cores(
    wanted: int, weights: int, cores: int, threads: int
) -> None:
    assert choose_threads(wanted, weights, cores) == threads
