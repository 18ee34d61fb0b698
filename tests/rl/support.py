"""Builders that several tests of the learning floor share."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec
from soulsgui.policies.policy import make_policy
from soulsgui.rl.agents.actor_critic import ActorCritic
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.buffers.rollout import RolloutBatch

SPACES = SpacesSpec(BoxSpec((4,), "float32"), DiscreteSpec(3, start=1))


def ppo_settings(**changes: Any) -> SimpleNamespace:
    """Return settings as the agent reads them: those tuned for CartPole, with changes by name."""
    network = {
        "name": "mlp",
        "channels": "auto",
        "hidden_sizes": (64, 64),
        "value_hidden_sizes": (64, 64),
        "activation": "tanh",
        "policy_init_scale": 0.01,
        "value_init_scale": 1.0,
        "shared": False,
        "action_std": "state_independent",
        "initial_std": 0.5,
        "std_transform": "softplus",
        "squash": "tanh",
        "recurrent": "none",
        "recurrent_size": 16,
    }
    normalize = {"observations": True, "rewards": False, "reward_clip": None}
    ppo = {
        "gamma": 0.99,
        "gae_lambda": 0.9,
        "epochs": 10,
        "minibatch_size": 128,
        "sequence_length": 8,
        "learning_rate": 1e-3,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-5,
        "shuffle": "transitions",
        "clip": 0.2,
        "entropy_coef": 0.0,
        "value_coef": 1.0,
        "value_clip": None,
        "value_huber": None,
        "normalize_value": False,
        "max_grad_norm": 0.5,
        "normalize_advantage": "round",
        "recompute_advantages": True,
        "target_kl": None,
    }
    for group in (network, normalize, ppo):
        group.update({name: changes.pop(name) for name in list(changes) if name in group})
    assert not changes
    return SimpleNamespace(
        network=SimpleNamespace(**network),
        normalize=SimpleNamespace(clip=10.0, **normalize),
        ppo=SimpleNamespace(**ppo),
    )


def dqn_settings(**changes: Any) -> SimpleNamespace:
    """Return settings as the agent reads them: small networks and quick moves, with changes by name."""
    network = {
        "name": "mlp",
        "channels": "auto",
        "hidden_sizes": (32, 32),
        "activation": "tanh",
        "recurrent": "none",
        "recurrent_size": 16,
    }
    normalize = {"observations": True, "clip": 10.0, "rewards": False, "reward_clip": None}
    dqn = {
        "gamma": 0.9,
        "learning_rate": 1e-3,
        "double": True,
        "loss": "huber",
        "target_interval": 5,
        "target_tau": 1.0,
        "max_grad_norm": 10.0,
        "agent": "dqn",
        "dueling": False,
        "exploration": "epsilon",
        "noisy_sigma": 0.5,
        "replay": "uniform",
        "n_step": 1,
        "quantiles": 16,
        "kappa": 1.0,
        "atoms": 21,
        "value_min": -10.0,
        "value_max": 10.0,
        "q_clip": None,
        "burn_in": 3,
        "priority_mix": 0.9,
    }
    for group in (network, normalize, dqn):
        group.update({name: changes.pop(name) for name in list(changes) if name in group})
    assert not changes
    return SimpleNamespace(
        network=SimpleNamespace(value_hidden_sizes=(32,), policy_init_scale=0.01, **network),
        normalize=SimpleNamespace(**normalize),
        dqn=SimpleNamespace(**dqn),
    )


def sac_settings(**changes: Any) -> SimpleNamespace:
    """Return settings as the agent reads them: small networks and quick moves, with changes by name."""
    network = {
        "hidden_sizes": (32, 32),
        "value_hidden_sizes": (32, 32),
        "activation": "relu",
        "policy_init_scale": 0.01,
        "initial_std": 1.0,
    }
    normalize = {"observations": True, "clip": 10.0, "rewards": False, "reward_clip": None}
    sac = {
        "learning_rate": 1e-3,
        "target_tau": 0.05,
        "initial_temperature": 0.5,
        "learn_temperature": True,
        "target_entropy": None,
    }
    for group in (network, normalize, sac):
        group.update({name: changes.pop(name) for name in list(changes) if name in group})
    assert not changes
    return SimpleNamespace(
        network=SimpleNamespace(**network),
        normalize=SimpleNamespace(**normalize),
        sac=SimpleNamespace(**sac),
    )


def transitions(count: int, seed: int = 0, spaces: SpacesSpec = SPACES) -> NStepBatch:
    """Return transitions with random observations around 3; every fifth is final, others discount by 0.9."""
    rng = np.random.default_rng(seed)
    shape = (count, *spaces.observation.shape)
    return NStepBatch(
        obs=rng.normal(3.0, 2.0, shape).astype(spaces.observation.dtype),
        action=rng.integers(spaces.action.n, size=count) + spaces.action.start,
        reward=rng.normal(size=count).astype(np.float32),
        next_obs=rng.normal(3.0, 2.0, shape).astype(spaces.observation.dtype),
        discount=np.where(rng.random(count) < 0.2, np.float32(0), np.float32(0.9)),
    )


def random_batch(
    agent: ActorCritic[Any], seed: int = 0, lengths: tuple[int, ...] = (40, 1, 30, 57)
) -> RolloutBatch:
    """Return a round of random observations, acted on by the agent's numpy policy."""
    rng = np.random.default_rng(seed)
    policy = make_policy(agent.policy_spec())
    policy.load(agent.export_weights())
    shape = agent.spaces.observation.shape
    obs: NDArray[np.float32] = rng.normal(3.0, 2.0, (sum(lengths) + len(lengths), *shape)).astype(np.float32)
    acted = np.concatenate(
        [start + np.arange(length) for start, length in zip(_starts(lengths), lengths, strict=True)]
    )
    action, log_prob = policy.act(obs[acted], rng)
    ended = rng.random(len(lengths))
    return RolloutBatch(
        obs=obs,
        lengths=np.array(lengths),
        action=action,
        log_prob=log_prob,
        reward=rng.normal(size=sum(lengths)).astype(np.float32),
        terminated=ended < 0.4,
        truncated=ended > 0.8,
    )


def _starts(lengths: tuple[int, ...]) -> list[int]:
    return [sum(lengths[:index]) + index for index in range(len(lengths))]
