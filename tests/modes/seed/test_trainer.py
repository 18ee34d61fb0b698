"""Central inference from a Python program."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gymnasium
import numpy as np
import psutil
import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import as_settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import EnvironmentCheckError, HardwareError, UsageError
from soulsgui.modes.seed.trainer import TrainStats, _Clock
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.training.seed import Config, Trainer
from tests.faults.waiting import until

ENV = "CartPole-v1"


def made(name: str) -> DQNAgent:
    env = gymnasium.make(ENV)
    spaces = SpacesSpec.from_env(env.observation_space, env.action_space)
    settings = {"algorithm": "dqn", "dqn": {"agent": name}, "network.hidden_sizes": [16]}
    return DQNAgent(spaces, as_settings(settings), seed=0)


def test_fields_and_defaults_of_the_source_stand_for_settings() -> None:
    assert Config().overrides(ENV) == {
        "env.id": ENV,
        "env.num_envs": 4,
        "inference": "server",
        "central.inference_servers": 1,
        "central.inference_batchsize": 4,
        "central.inference_delay": 0.1,
        "central.inference_device": "auto",
        "central.broadcast_period": 2.5,
        "dqn.n_step": 3,
        "dqn.learning_starts": 1000,
        "dqn.epsilon": 0.1,
        "learner.max_updates_per_s": None,
    }


def test_settings_of_the_environment_a_limit_of_steps_and_a_ladder() -> None:
    config = Config(max_environment_steps=50, epsilon="ladder", max_train_frequency=7)
    trainer = Trainer({"env.id": "Other-v0"}, config, {"id": ENV, "wrappers": ["FlattenObservation"]})
    settings = trainer._settings
    assert (settings.env.id, settings.algorithm) == (ENV, "dqn")
    assert settings.env.wrappers == ("FlattenObservation",)
    assert settings.env.kwargs == {"max_episode_steps": 50}
    assert (settings.dqn.exploration, settings.dqn.epsilon) == ("ladder", 0.4)
    assert settings.learner.max_updates_per_s == 7


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ({"actor_processes": 0}, UsageError, "actor_processes"),
        ({"actor_processes": 1.5}, UsageError, "actor_processes should be a whole number"),
        ({"actor_processes": "2"}, UsageError, "actor_processes"),
        ({"actor_process": 2}, UsageError, r"actor_process is .* .did you mean actor_processes\?.\.$"),
        ({"max_environment_steps": 0}, UsageError, "max_environment_steps"),
        ({"max_environment_steps": -7}, UsageError, "max_environment_steps"),
        ({"max_environment_steps": 2.5}, UsageError, "max_environment_steps"),
        ({"max_train_frequency": -0.5}, UsageError, "max_train_frequency"),
        ({"max_train_frequency": float("nan")}, UsageError, "max_train_frequency"),
        ({"epsilon": "lader"}, UsageError, "epsilon should be a number from 0 to 1, or ladder"),
        ({"epsilon": 1.5}, UsageError, "epsilon"),
        ({"broadcast_period": "now"}, UsageError, "broadcast_period"),
        ({"n_step": 0}, ConfigError, r": n_step = 0"),
        ({"inference_delay": -1}, ConfigError, r": inference_delay = -1"),
        ({"inference_servers": 65}, ConfigError, r": inference_servers = 65"),
        ({"inference_device": "gpu"}, ConfigError, r": inference_device = 'gpu'"),
    ],
)
def test_mistakes_are_told_before_anything_starts(
    config: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Trainer({}, Config(**config), ENV)


@pytest.mark.parametrize(
    ("agent", "environment", "error", "words"),
    [
        ({}, None, UsageError, "environment is None"),
        ({}, 5, UsageError, "environment is 5"),
        ({}, {"id": ENV, "kwargs": None}, ConfigError, "env.kwargs"),
        ({}, "Nowhere-v0", EnvironmentCheckError, "There is no environment “Nowhere-v0”"),
        ({}, "Pendulum-v1", EnvironmentCheckError, "dqn can't choose .*\nChoose another environment"),
        ({"learner.device": "cuda"}, ENV, HardwareError, "no GPU"),
    ],
)
def test_an_environment_that_can_not_be_learned_is_told_before_anything_starts(
    agent: dict[str, Any],
    environment: Any,
    error: type[Exception],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(error, match=words):
        Trainer(agent, Config(max_environment_steps=9), environment)


@pytest.mark.parametrize("duration", [float("nan"), -1.0, "30"])
def test_what_is_no_duration_is_told(duration: Any) -> None:
    with pytest.raises(UsageError, match=f"The duration is {duration!r}"):
        Trainer({}, Config(), ENV).start(duration)


def test_one_that_is_told_to_stop_first_begins_nothing() -> None:
    trainer = Trainer({}, Config(), ENV)
    trainer.stop()
    assert trainer.start(float("inf")) == TrainStats(0, 0, 0, 0.0, {})
    assert not trainer._stop.is_set(), "the next one begins"


@pytest.mark.parametrize("duration", [float("inf"), 1e10])
def test_a_training_may_last_as_long_as_one_likes(duration: float) -> None:
    learner, stop = cast(Any, SimpleNamespace(began=time.monotonic())), threading.Event()
    clock = _Clock(learner, duration, stop)
    clock._thread.join(0.1)
    assert clock._thread.is_alive()
    clock.close()
    assert not stop.is_set()


@pytest.mark.parametrize("named", [{"algorithm": "sac"}, {"algorithm": "ppo"}, {"preset": "pendulum_sac"}])
def test_another_algorithm_is_told(named: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="DQN family alone"):
        Trainer(named, Config(), ENV)


def test_a_preset_s_goal_does_not_end_the_training() -> None:
    stop = Trainer({"preset": "cartpole_seed", "stop.env_steps": 9}, Config(), ENV)._settings.stop
    assert (stop.mean_return, stop.env_steps, stop.judged_by) == (None, None, "training")


def test_another_agent_is_told() -> None:
    with pytest.raises(UsageError, match="float is not an agent of the DQN family"):
        Trainer(cast(Any, 3.0), Config(), ENV)


def test_a_recurrent_agent_has_its_own_windows() -> None:
    with pytest.raises(UsageError, match=r"made for dqn\.n_step 5; n_step is 3"):
        Trainer(made("r2d2"), Config(), ENV)
    assert Trainer(made("r2d2"), Config(n_step=5), ENV)._settings.dqn.n_step == 5


def test_an_agent_of_other_spaces_is_told() -> None:
    with pytest.raises(UsageError, match="other spaces than Acrobot-v1"):
        Trainer(made("rainbow"), Config(), "Acrobot-v1")


@pytest.mark.processes
def test_a_given_agent_is_trained_where_it_is_and_nothing_is_left(tmp_path: Path) -> None:
    agent = made("rainbow")
    before, children = agent.export_weights(noise=False), psutil.Process().children(recursive=True)
    config = Config(minimum_buffer_size=100, max_train_frequency=20, max_environment_steps=9)
    trainer = Trainer(agent, config, ENV, run_dir=tmp_path / "run")
    with ThreadPoolExecutor() as training:
        ended = training.submit(trainer.start, float("inf"))
        until(lambda: agent.updates > 20 or ended.done(), "updates")
        trainer.stop()
        stats = ended.result()
    assert trainer.agent is agent
    assert 0 < agent.updates == stats.updates <= 20 * stats.seconds + 3
    assert stats.env_steps >= 100
    assert stats.episodes >= stats.env_steps // 9 - 4, "episodes of nine steps at most"
    assert stats.restarts == {}
    after = agent.export_weights(noise=False)
    assert any(not np.array_equal(after[name], before[name]) for name in before)
    assert (tmp_path / "run" / "checkpoint" / "manifest.json").exists()
    left = [one for one in psutil.Process().children(recursive=True) if one not in children]
    assert [one for one in left if "resource_tracker" not in " ".join(one.cmdline())] == []
