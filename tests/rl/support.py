"""Builders that several tests of the learning floor share."""

import json
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from soulsgui.config.schema import Settings
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.rl.agents.actor_critic import ActorCritic
from soulsgui.rl.buffers.replay import NStepBatch
from tests.experience.segments import segments_of

SPACES = SpacesSpec(BoxSpec((4,), "float32"), DiscreteSpec(3, start=1))

_NETWORK = {"recurrent_size": 16}
_GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": {
        "ppo": {"gae_lambda": 0.9, "minibatch_size": 128, "sequence_length": 8, "learning_rate": 1e-3},
        "network": _NETWORK,
    },
    "dqn": {
        "dqn": {
            "gamma": 0.9,
            "learning_rate": 1e-3,
            "target_interval": 5,
            "target_tau": 1.0,
            "n_step": 1,
            "quantiles": 16,
            "atoms": 21,
            "burn_in": 3,
        },
        "network": _NETWORK | {"hidden_sizes": (32, 32), "value_hidden_sizes": (32,)},
    },
    "sac": {
        "sac": {"learning_rate": 1e-3, "target_tau": 0.05, "initial_temperature": 0.5},
        "network": {
            "hidden_sizes": (32, 32),
            "value_hidden_sizes": (32, 32),
            "activation": "relu",
            "initial_std": 1.0,
        },
    },
    "vtrace": {
        "vtrace": {
            "gamma": 0.9,
            "trace_lambda": 1.0,
            "epochs": 1,
            "learning_rate": 1e-2,
            "clip": None,
            "entropy_coef": 0.0,
            "max_grad_norm": 1e9,
            "normalize_advantage": False,
        },
        "network": _NETWORK | {"policy_init_scale": 1.0},
    },
}
"""Small networks and quick moves, where these differ from what is shipped."""


def changed(settings: Settings, group: str, **values: Any) -> Settings:
    """Return settings with values of a group replaced, also by such as the program would refuse."""
    assert values.keys() <= type(getattr(settings, group)).model_fields.keys()
    return settings.model_copy(update={group: getattr(settings, group).model_copy(update=values)})


def settings_of(algorithm: str, **changes: Any) -> Settings:
    """Return settings for tests of an algorithm, with changes by name: of its group, or else of others."""
    settings = Settings()
    for group in (algorithm, "network", "normalize"):
        names = type(getattr(settings, group)).model_fields
        mine = {name: changes.pop(name) for name in list(changes) if name in names}
        settings = changed(settings, group, **_GROUPS[algorithm].get(group, {}) | mine)
    assert not changes
    return settings


ppo_settings, dqn_settings, sac_settings, vtrace_settings = (partial(settings_of, name) for name in _GROUPS)


def transitions(count: int, seed: int = 0, spaces: SpacesSpec = SPACES) -> NStepBatch:
    """Return transitions with random observations around 3; every fifth is final, others discount by 0.9."""
    rng = np.random.default_rng(seed)
    shape = (count, *spaces.observation.shape)
    action = rng.normal(size=(count, *spaces.action.shape)).astype(np.float32)
    if isinstance(spaces.action, DiscreteSpec):
        action = rng.integers(spaces.action.n, size=count) + spaces.action.start
    return NStepBatch(
        obs=rng.normal(3.0, 2.0, shape).astype(spaces.observation.dtype),
        action=action,
        reward=rng.normal(size=count).astype(np.float32),
        next_obs=rng.normal(3.0, 2.0, shape).astype(spaces.observation.dtype),
        discount=np.where(rng.random(count) < 0.2, np.float32(0), np.float32(0.9)),
    )


def client_of(agent: Any) -> Any:
    """Return the policy that a client makes of what an agent tells."""
    policy: Policy = make_policy(json.loads(json.dumps(agent.policy_spec())))
    policy.load(load(save(agent.export_weights())))
    return policy


def random_batch(agent: ActorCritic, seed: int = 0, lengths: tuple[int, ...] = (40, 1, 30, 57)) -> Segments:
    """Return a round of random observations, acted on by the agent's numpy policy."""
    rng = np.random.default_rng(seed)
    policy = client_of(agent)
    rows = sum(lengths) + len(lengths)
    obs: NDArray[np.float32] = rng.normal(3, 2, (rows, *agent.spaces.observation.shape)).astype(np.float32)
    acted_on = np.delete(obs, np.cumsum(np.array(lengths) + 1) - 1, axis=0)
    action, log_prob = policy.act(acted_on, rng)
    ended = rng.random(len(lengths))
    return segments_of(
        obs=obs,
        length=np.array(lengths),
        action=action,
        log_prob=log_prob,
        reward=rng.normal(size=sum(lengths)).astype(np.float32),
        terminated=ended < 0.4,
        truncated=ended > 0.8,
    )
