"""Agents of every algorithm, each with what it learns from: what all of them must do is tested over these."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from soulsgui.environments.actions import BoxActionSpec, action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import TERMINATED, Segments
from soulsgui.policies.exploration import Moment
from soulsgui.rl.agents.crossq import CrossQAgent
from soulsgui.rl.agents.dqn import DQNAgent, R2D2Agent
from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.agents.td3 import TD3Agent
from soulsgui.rl.agents.vtrace import VTraceAgent
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.buffers.sequences import SequenceBatch
from soulsgui.rl.gradients.dqn import AutogradDQNGradient
from soulsgui.rl.gradients.ppo import AutogradPPOGradient
from soulsgui.rl.gradients.sac import AutogradSACGradient
from tests.environments.toys import SPACES_TAKEN
from tests.rl.recurrent import played, recurrent_agent
from tests.rl.support import (
    SPACES,
    dqn_settings,
    ppo_settings,
    random_batch,
    sac_settings,
    transitions,
    vtrace_settings,
)

BURN_IN, LENGTH = 3, 5
IMAGE = replace(SPACES, observation=BoxSpec((1, 36, 36), "uint8"))
BOUNDED = replace(SPACES, action=BoxActionSpec(BoxSpec((2,), "float32", (-2.0, 0.0), (2.0, 1.0))))
MEMBERS: dict[str, dict[str, Any]] = {
    "dueling": {"dueling": True},
    "noisy": {"exploration": "noisy"},
    "noisy dueling": {"exploration": "noisy", "dueling": True},
    "qr_dqn": {"agent": "qr_dqn"},
    "dueling qr_dqn": {"agent": "qr_dqn", "dueling": True},
    "c51": {"agent": "c51"},
    "iqn": {"agent": "iqn"},
    "dueling iqn": {"agent": "iqn", "dueling": True},
    "rainbow": {"agent": "rainbow"},
}
CHOICES: dict[str, dict[str, Any]] = {
    "values normalised": {"normalize_value": True},
    "values normalised and clipped": {"normalize_value": True, "value_clip": 0.2, "value_huber": 0.5},
    "advantages scaled in minibatches": {"normalize_advantage": "minibatch"},
    "advantages as they are": {"normalize_advantage": "none", "recompute_advantages": False},
    "pieces shuffled": {"shuffle": "trajectories"},
    "pieces in order": {"shuffle": "none"},
    "layers shared": {"shared": True},
    "no limit of the gradient": {"max_grad_norm": None},
    "another Adam": {"adam_beta1": 0.5, "adam_beta2": 0.9, "adam_epsilon": 1e-3},
    "rewards scaled": {"rewards": True, "reward_clip": 1.0},
    "schedules": {"learning_rate": {"schedule": "linear", "from": 1e-2, "to": 0.0, "over": 1000}},
}
STATE: dict[str, Any] = {"action_std": "state_dependent"}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "choices": ("choices", {}),
    "table": ("table", {}),
    "switches": ("switches", {}),
    "box": ("box", {}),
    "box by state": ("box", STATE),
    "box cut off": ("box", {"squash": "clip"}),
    "free": ("free", STATE),
    "half": ("half", {"std_transform": "exponential"}),
}
"""Of actions, and how they are drawn."""


def taking(takes: str, masked: bool = False) -> SpacesSpec:
    """Return spaces whose actions are of a kind."""
    return SpacesSpec(SPACES.observation, action_from_space(SPACES_TAKEN[takes])).with_masks(masked)


def windows(count: int, seed: int = 0, spaces: SpacesSpec = SPACES) -> NStepBatch:
    """Return windows of several steps of random observations."""
    one = transitions(count, seed, spaces)
    rng = np.random.default_rng(seed)
    discount = np.where(one.discount == 0, 0, 0.9 ** rng.integers(1, 4, count)).astype(np.float32)
    return one._replace(discount=discount, weight=rng.random(count, np.float32))


def sequences(agent: R2D2Agent, seed: int = 0, count: int = 6) -> SequenceBatch:
    """Return sequences of random steps: whole and short ones, some begin their episodes, some end them."""
    rng = np.random.default_rng(seed)
    steps = BURN_IN + LENGTH
    valid = np.arange(steps)[:, None] < np.array([steps, steps, steps, 2, 6, 1])
    exact = np.array([True, False, False, True, False, True])
    terminated = np.zeros((steps, count), np.bool_)
    terminated[-1, 0] = terminated[1, 3] = True
    state = rng.normal(0, 0.5, (count, agent.online.torso.state_size)).astype(np.float32)
    state[exact] = 0
    mask = rng.random((steps, count, 3)) < 0.7
    mask[:, :, 0] = True
    behind = np.arange(steps)[:, None] >= BURN_IN
    return SequenceBatch(
        number=np.arange(count),
        weight=rng.uniform(0.2, 1, count).astype(np.float32),
        obs=rng.normal(3, 2, (steps + 1, count, 4)).astype(np.float32),
        action=np.where(valid, rng.integers(1, 4, (steps, count)), 0),
        reward=rng.normal(0, 3, (steps, count)).astype(np.float32),
        terminated=terminated,
        valid=valid,
        learned=valid & (behind | exact),
        state=state,
        exact=exact,
        next_mask=mask,
    )


def round_of(agent: PPOAgent, number: int) -> Segments:
    """Return a round whose last segment goes on in the next one, with returns far from 0."""
    batch = random_batch(agent, seed=number)
    segments = batch.count
    ended = np.arange(segments) < segments - 1
    first = np.where(ended, 0, number * batch.length)
    episode = np.where(ended, number, 0)
    where = {"source": np.arange(segments), "episode": episode, "first_step": first}
    return replace(batch, flags=(ended * TERMINATED).astype(np.uint8), reward=batch.reward + 5, **where)


def aged_batch(agent: VTraceAgent, older: float = 0.7) -> Segments:
    """A batch of a policy that differs: its log-probabilities are of other sizes."""
    batch = random_batch(agent, seed=4)
    shift = np.random.default_rng(7).normal(0, older, batch.steps).astype(np.float32)
    return replace(batch, log_prob=batch.log_prob + shift)


def r2d2_agent(seed: int = 0, updates: int = 0, cell: str = "lstm", **changes: Any) -> R2D2Agent:
    """Return an agent that was shown observations around 3, after some updates."""
    small = {"agent": "r2d2", "recurrent": cell, "recurrent_size": 7, "hidden_sizes": (6,)}
    quick = {"burn_in": BURN_IN, "n_step": 2, "target_interval": 3}
    agent = R2D2Agent(SPACES, dqn_settings(**small | quick | changes), seed)
    rng = np.random.default_rng(seed)
    agent.observe(rng.normal(3, 2, (50, 4)).astype(np.float32))
    for index in range(updates):
        agent.update(sequences(agent, seed=index))
    return agent


def by_autograd(agent: Any) -> Any:
    """Let an agent whose gradient is written out take it by autograd."""
    if isinstance(agent, PPOAgent):
        agent._gradient = AutogradPPOGradient(agent.policy, agent.value, agent._flat)
    elif isinstance(agent, DQNAgent):
        agent._gradient = AutogradDQNGradient(agent.online, agent.target, agent._flat)
    else:
        agent._gradient = AutogradSACGradient(agent.networks, agent._flat)
    return agent


class Recorder:
    """Stands before an agent's gradient; keeps what it was given, with which settings, and what it told."""

    def __init__(self, agent: Any) -> None:
        self.rows: list[Any] = []
        self.settings: list[Any] = []
        self.told: list[Any] = []
        self.gradient, agent._gradient = agent._gradient, self

    def __call__(self, rows: Any, settings: Any) -> Any:
        told = self.gradient(rows, settings)
        self.rows.append(rows)
        self.settings.append(settings)
        self.told.append(told)
        return told

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gradient, name)


@dataclass(frozen=True)
class Case:
    """An agent, made of a seed and changed settings, and what it learns from at an update."""

    algorithm: str
    make: Callable[..., Any]
    batch: Callable[[Any, int], Any]

    def learn(self, agent: Any, number: int) -> Any:
        """Make an update with batch `number`, and return what it tells."""
        return self.learn_from(agent, self.batch(agent, number), number)

    def learn_from(self, agent: Any, batch: Any, number: int = 0) -> Any:
        """Make an update with a batch, and return what it tells."""
        if self.algorithm in ("ppo", "vtrace"):
            return agent.update(batch, Moment(100 * number))
        agent.observe(batch.obs.reshape(-1, *agent.spaces.observation.shape))
        return agent.update(batch)


def ppo_case(batch: Callable[[Any, int], Any] = random_batch, **own: Any) -> Case:
    """Return a small PPO agent with settings of its own."""
    quick = {"epochs": 2, "minibatch_size": 32, "hidden_sizes": (8,), "value_hidden_sizes": (8,)} | own
    spaces = quick.pop("spaces", SPACES)
    return Case("ppo", lambda seed, **changes: PPOAgent(spaces, ppo_settings(**quick | changes), seed), batch)


def _dqn(count: int = 7, **own: Any) -> Case:
    def masked(agent: DQNAgent, seed: int) -> NStepBatch:
        batch = windows(count, seed, agent.spaces)
        mask = np.random.default_rng(seed).random((count, 3)) < 0.6
        mask[:, 0] = True
        return batch._replace(next_mask=mask)

    spaces, own = own.pop("spaces", SPACES), {"target_interval": 2} | own
    return Case("dqn", lambda seed, **changes: DQNAgent(spaces, dqn_settings(**own | changes), seed), masked)


def _r2d2(cell: str) -> Case:
    return Case("dqn", lambda seed, **changes: r2d2_agent(seed, cell=cell, **changes), sequences)


def _recurrent(cell: str) -> Case:
    return Case("ppo", lambda seed, **changes: recurrent_agent(seed, recurrent=cell, **changes), played)


def _vtrace(**own: Any) -> Case:
    spaces = own.pop("spaces", SPACES)

    def cut_in_two(agent: VTraceAgent, seed: int) -> Segments:
        batch = aged_batch(agent)
        return replace(batch, joined=np.array([False, True, False, False]), reward=batch.reward + seed)

    def make(seed: int, **changes: Any) -> VTraceAgent:
        return VTraceAgent(spaces, vtrace_settings(**own | changes), seed)

    return Case("vtrace", make, cut_in_two)


def _autograd(case: Case) -> Case:
    return replace(case, make=lambda seed, **changes: by_autograd(case.make(seed, **changes)))


def _sac(kind: type[SACAgent], **own: Any) -> Case:
    def make(seed: int, **changes: Any) -> SACAgent:
        return kind(BOUNDED, sac_settings(**own | changes), seed)

    return Case("sac", make, lambda agent, seed: transitions(7, seed, BOUNDED))


BY_HAND = {
    "ppo": ppo_case(),
    **{f"ppo, {name}": ppo_case(round_of, **choice) for name, choice in CHOICES.items()},
    "dqn": _dqn(),
    "sac": _sac(SACAgent),
}
"""Gradients that are written out, and have an equal by autograd."""

CASES = BY_HAND | {
    **{f"{name} by autograd": _autograd(BY_HAND[name]) for name in ("ppo", "dqn", "sac")},
    **{f"ppo of {name}": ppo_case(spaces=taking(takes), **own) for name, (takes, own) in KINDS.items()},
    "td3": _sac(TD3Agent, agent="td3"),
    "tqc": _sac(SACAgent, agent="tqc", critics=3, quantiles=4, dropped_quantiles=1),
    "crossq": _sac(CrossQAgent, agent="crossq"),
    "ppo with an lstm": _recurrent("lstm"),
    "ppo with a gru": _recurrent("gru"),
    "vtrace": _vtrace(),
    "vtrace clipped, normalised, shared": _vtrace(clip=0.2, normalize_advantage=True, shared=True, epochs=2),
    "vtrace of box": _vtrace(spaces=taking("box")),
    **{name: _dqn(**own) for name, own in MEMBERS.items()},
    "dqn of images": _dqn(spaces=IMAGE, name="nature_cnn", hidden_sizes=(8,), observations=False),
    "r2d2 with an lstm": _r2d2("lstm"),
    "r2d2 with a gru": _r2d2("gru"),
}
