"""The agent of each algorithm, made of the settings of a run."""

from collections.abc import Callable
from typing import TypeVar

from soulsgui.config.schema import Settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.rl.agents.base import Agent
from soulsgui.rl.agents.dqn import DQNAgent, R2D2Agent
from soulsgui.rl.agents.ppo import PPOAgent, RecurrentPPOAgent
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.agents.vtrace import VTraceAgent
from soulsgui.rl.gradients.dqn import DQNParts
from soulsgui.training.hardware import choose_mixed

Maker = Callable[[Settings, SpacesSpec, str], Agent]
AnyAgent = TypeVar("AnyAgent", bound=Agent)


def make_ppo(settings: Settings, spaces: SpacesSpec, device: str) -> PPOAgent:
    """Make an agent that learns from rounds; it remembers, if `network.recurrent` says so."""
    kind = PPOAgent if settings.network.recurrent == "none" else RecurrentPPOAgent
    return _mixed(kind(spaces, settings, settings.seed, device), settings, spaces, device)


def make_dqn(settings: Settings, spaces: SpacesSpec, device: str) -> DQNAgent:
    """Make an agent of the DQN family, as `dqn.agent` says."""
    kind = R2D2Agent if DQNParts.of(settings.dqn).kind == "recurrent" else DQNAgent
    return _mixed(kind(spaces, settings, settings.seed, device), settings, spaces, device)


def make_sac(settings: Settings, spaces: SpacesSpec, device: str) -> SACAgent:
    """Make a soft actor-critic."""
    return _mixed(SACAgent(spaces, settings, settings.seed, device), settings, spaces, device)


def make_vtrace(settings: Settings, spaces: SpacesSpec, device: str) -> VTraceAgent:
    """Make an agent that learns from segments of older weights."""
    return _mixed(VTraceAgent(spaces, settings, settings.seed, device), settings, spaces, device)


MAKERS: dict[str, Maker] = {"ppo": make_ppo, "dqn": make_dqn, "sac": make_sac, "vtrace": make_vtrace}
"""By `algorithm`: makes an agent of settings, spaces and the device, as torch names it."""


def _mixed(agent: AnyAgent, settings: Settings, spaces: SpacesSpec, device: str) -> AnyAgent:
    if choose_mixed(settings.learner.precision, device, spaces.observation.shape):
        agent.learn_mixed()
    return agent
