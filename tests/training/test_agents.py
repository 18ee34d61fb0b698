from types import SimpleNamespace
from typing import Any, cast

import pytest

from soulsgui.config.layers import as_settings
from soulsgui.errors import HardwareError
from soulsgui.training.agents import choose_device, choose_threads, hardware_words, learner_device

VECTOR, IMAGE = False, True


@pytest.mark.parametrize(
    ("wanted", "gpus", "observation", "hidden", "chosen"),
    [
        ("auto", 0, IMAGE, (64,), "cpu"),
        ("auto", 1, VECTOR, (64, 64), "cpu"),
        ("auto", 1, IMAGE, (64, 64), "cuda"),
        ("auto", 1, VECTOR, (64, 1024), "cuda"),
        ("auto", 1, VECTOR, (), "cpu"),
        ("cpu", 1, IMAGE, (1024,), "cpu"),
        ("cuda", 1, VECTOR, (64,), "cuda"),
    ],
)
def test_small_networks_stay_on_the_cpu_unless_it_is_said_otherwise(
    wanted: str, gpus: int, observation: bool, hidden: tuple[int, ...], chosen: str
) -> None:
    assert choose_device(wanted, gpus, observation, hidden) == chosen


def test_every_network_that_is_trained_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    spaces = SimpleNamespace(observation=SimpleNamespace(fields=((None, SimpleNamespace(shape=(8,))),)))
    for algorithm, network, chosen in (
        ("sac", {"value_hidden_sizes": [64, 2048]}, "cuda"),
        ("ppo", {"value_hidden_sizes": [64, 2048]}, "cuda"),
        ("dqn", {"value_hidden_sizes": [64, 2048]}, "cpu"),
        ("ppo", {"recurrent": "lstm", "recurrent_size": 2048}, "cuda"),
        ("ppo", {"recurrent_size": 2048}, "cpu"),
    ):
        settings = as_settings({"algorithm": algorithm, "network": network, "learner": {"device": "auto"}})
        assert learner_device(settings, cast(Any, spaces)) == chosen
    told = [hardware_words(*on) for on in (("cpu", 1), ("cpu", 3), ("cuda", 1), ("cuda", 4))]
    assert told == ["the CPU", "the CPU, 3 processes", "a GPU", "4 GPUs"]


def test_a_gpu_that_is_wanted_and_not_there_is_said() -> None:
    with pytest.raises(HardwareError, match="finds no GPU"):
        choose_device("cuda", 0, VECTOR, (64,))
    for wanted in ("auto", "cuda"):
        with pytest.raises(HardwareError, match="processes is 4, and torch finds 2 GPUs"):
            choose_device(wanted, 2, IMAGE, (64,), processes=4)
        assert choose_device(wanted, 2, IMAGE, (64,), processes=2) == "cuda"
    assert choose_device("auto", 0, IMAGE, (64,), processes=4) == "cpu"
    assert choose_device("auto", 4, VECTOR, (64,), processes=4) == "cuda", "they are wanted for their GPUs"


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
def test_threads_go_by_weights_and_cores(wanted: int, weights: int, cores: int, threads: int) -> None:
    assert choose_threads(wanted, weights, cores) == threads
