"""Rounds that a policy with a memory has played, for several tests."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.numpy_recurrent import FIELD, NumpyRecurrentPolicy
from soulsgui.policies.schedules import START
from soulsgui.rl.agents.recurrent_ppo import RecurrentPPOAgent
from soulsgui.rl.buffers.rollout import RolloutBatch
from tests.rl.support import SPACES, ppo_settings

CUTS = ((17, True), (6, False), (6, True), (3, False), (1, False), (20, True))
"""Steps of each segment, and whether its episode ends with it."""


def recurrent_agent(
    seed: int = 0, updates: int = 0, spaces: SpacesSpec = SPACES, **changes: Any
) -> RecurrentPPOAgent:
    """Return an agent whose policy depends on what it saw, after some updates."""
    settings = {"recurrent": "lstm", "policy_init_scale": 3.0, "epochs": 2, "minibatch_size": 16, **changes}
    agent = RecurrentPPOAgent(spaces, ppo_settings(hidden_sizes=(12,), **settings), seed)
    for index in range(updates):
        agent.update(played(agent, seed=index), START)
    return agent


def numpy_policy(agent: RecurrentPPOAgent) -> NumpyRecurrentPolicy:
    """Return what a client makes of the agent."""
    policy = NumpyRecurrentPolicy(agent.policy_spec())
    policy.load(agent.export_weights())
    return policy


def played(
    agent: RecurrentPPOAgent, seed: int = 0, cuts: tuple[tuple[int, bool], ...] = CUTS
) -> RolloutBatch:
    """Return a round of random observations of one environment, acted on and remembered in numpy."""
    rng = np.random.default_rng(seed)
    policy = numpy_policy(agent)
    rows: list[NDArray[np.float32]] = []
    state, action, log_prob, joined = [], [], [], []
    obs, begins = _seen(rng), True
    for length, ends in cuts:
        state.append(policy.remembered.fields[FIELD][0])
        joined.append(not begins)
        for _ in range(length):
            rows.append(obs)
            one, its = policy.act(obs[None], rng)
            action.append(one[0])
            log_prob.append(its[0])
            obs = _seen(rng)
        rows.append(obs)
        begins = ends
        if ends:
            obs = _seen(rng)
            policy.remembered.forget(np.array([True]))
    steps = len(action)
    return RolloutBatch(
        obs=np.array(rows),
        lengths=np.array([length for length, _ in cuts]),
        action=np.array(action),
        log_prob=np.array(log_prob, np.float32),
        reward=rng.normal(size=steps).astype(np.float32),
        terminated=np.array([ends for _, ends in cuts]),
        truncated=np.zeros(len(cuts), np.bool_),
        state={FIELD: np.array(state)},
        joined=np.array(joined),
    )


def _seen(rng: np.random.Generator) -> NDArray[np.float32]:
    return rng.normal(3.0, 2.0, 4).astype(np.float32)
