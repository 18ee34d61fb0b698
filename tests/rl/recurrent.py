"""Rounds that a policy with a memory has played, for several tests."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import START
from soulsgui.policies.specs import MEMORY
from soulsgui.rl.agents.ppo import RecurrentPPOAgent
from tests.experience.segments import segments_of
from tests.rl.support import SPACES, client_of, ppo_settings

CUTS = ((17, True), (6, False), (6, True), (3, False), (1, False), (20, True))
"""Steps of each segment, and whether its episode ends with it."""


def recurrent_agent(
    seed: int = 0, updates: int = 0, spaces: SpacesSpec = SPACES, **changes: Any
) -> RecurrentPPOAgent:
    """Return an agent whose policy depends on what it saw, after some updates."""
    settings: dict[str, Any] = {"recurrent": "lstm", "policy_init_scale": 3.0, "hidden_sizes": (12,)}
    settings |= {"epochs": 2, "minibatch_size": 16, **changes}
    agent = RecurrentPPOAgent(spaces, ppo_settings(**settings), seed)
    for index in range(updates):
        agent.update(played(agent, seed=index), START)
    return agent


def stepped(recurrent: Any, inputs: Sequence[Tensor], state: NDArray[np.float32]) -> list[Tensor]:
    """Go through inputs `[T, B, size]` of a memory by PyTorch's cells, one after the other; return
    features."""
    layer, size = recurrent._layer, recurrent.features
    lstm = isinstance(layer, torch.nn.LSTM)
    cell = (torch.nn.LSTMCell if lstm else torch.nn.GRUCell)(layer.input_size, size)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, name).data = getattr(layer, f"{name}_l0").detach()
    rows, found = torch.from_numpy(state), []
    parts: Any = (rows[:, :size], rows[:, size:]) if lstm else rows
    for one in inputs:
        parts = cell(one, parts)
        found.append(parts[0] if lstm else parts)
    return found


def _numbers(rng: np.random.Generator) -> NDArray[Any]:
    return rng.normal(3.0, 2.0, 4).astype(np.float32)


def played(
    agent: Any,
    seed: int = 0,
    cuts: tuple[tuple[int, bool], ...] = CUTS,
    seen: Callable[[np.random.Generator], NDArray[Any]] = _numbers,
) -> Segments:
    """Return a round of random observations of one environment, acted on and remembered by a client."""
    rng = np.random.default_rng(seed)
    policy = client_of(agent)
    rows: list[NDArray[Any]] = []
    state, action, log_prob, joined = [], [], [], []
    obs, begins = seen(rng), True
    for length, ends in cuts:
        state.append(policy.remembered.fields[MEMORY][0])
        joined.append(not begins)
        for _ in range(length):
            rows.append(obs)
            one, its = policy.act(obs[None], rng)
            action.append(one[0])
            log_prob.append(its[0])
            obs = seen(rng)
        rows.append(obs)
        begins = ends
        if ends:
            obs = seen(rng)
            policy.remembered.forget(np.array([True]))
    steps = len(action)
    return segments_of(
        obs=np.stack(rows),
        length=np.array([length for length, _ in cuts]),
        action=np.array(action),
        log_prob=np.array(log_prob, np.float32),
        reward=rng.normal(size=steps).astype(np.float32),
        terminated=np.array([ends for _, ends in cuts]),
        truncated=np.zeros(len(cuts), np.bool_),
        state={MEMORY: np.array(state)},
        joined=np.array(joined),
    )
