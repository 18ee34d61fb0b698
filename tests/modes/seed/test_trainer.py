"""Central inference from a Python program."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import psutil
import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import as_settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import UsageError
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
        (Config(actor_processes=0), UsageError, "actor_processes"),
        (Config(actor_processes=-1), UsageError, "actor_processes is -1"),
        (Config(max_environment_steps=0), UsageError, "max_environment_steps"),
        (Config(max_environment_steps=-7), UsageError, "max_environment_steps is -7"),
        (Config(max_train_frequency=-0.5), UsageError, "max_train_frequency"),
        (Config(n_step=0), ConfigError, r"dqn\.n_step"),
        (Config(inference_delay=-1), ConfigError, r"central\.inference_delay"),
    ],
)
def test_mistakes_are_told_before_anything_starts(config: Config, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Trainer({}, config, ENV)


@pytest.mark.parametrize("named", [{"algorithm": "sac"}, {"algorithm": "ppo"}, {"preset": "pendulum_sac"}])
def test_another_algorithm_is_told(named: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="DQN family alone"):
        Trainer(named, Config(), ENV)


def test_a_preset_s_goal_does_not_end_the_training() -> None:
    stop = Trainer({"preset": "cartpole_seed", "stop.env_steps": 9}, Config(), ENV)._settings.stop
    assert (stop.mean_return, stop.env_steps, stop.judged_by) == (None, None, "training")


def test_another_agent_is_told() -> None:
    with pytest.raises(UsageError, match="float is no agent of the DQN family"):
        Trainer(cast(Any, 3.0), Config(), ENV)


def test_a_recurrent_agent_has_its_own_windows() -> None:
    with pytest.raises(UsageError, match=r"made for dqn\.n_step 5; n_step is 3"):
        Trainer(made("r2d2"), Config(), ENV)
    assert Trainer(made("r2d2"), Config(n_step=5), ENV)._settings.dqn.n_step == 5


@pytest.mark.processes
def test_an_agent_of_other_spaces_is_told_and_everything_ends() -> None:
    with pytest.raises(UsageError, match="other spaces than Acrobot-v1"):
        Trainer(made("rainbow"), Config(), "Acrobot-v1").start(60.0)


@pytest.mark.processes
def test_a_given_agent_is_trained_where_it_is_and_nothing_is_left(tmp_path: Path) -> None:
    agent = made("rainbow")
    before, children = agent.export_weights(noise=False), psutil.Process().children(recursive=True)
    config = Config(minimum_buffer_size=100, max_train_frequency=20, max_environment_steps=9)
    trainer = Trainer(agent, config, ENV, run_dir=tmp_path / "run")
    with ThreadPoolExecutor() as training:
        ended = training.submit(trainer.start, 600.0)
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
