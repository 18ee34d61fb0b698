"""Settings of an agent and its environment, as a Python program gives them to a trainer."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from soulsgui.config.layers import ConfigLike
from soulsgui.config.schema import Settings
from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec, action_words
from soulsgui.errors import EnvironmentCheckError, UsageError

NO_GOAL: dict[str, Any] = {"stop.env_steps": None, "stop.mean_return": None, "stop.judged_by": "training"}
"""Overrides that leave the end of a training to the program."""


def dqn_unless_named(given: ConfigLike) -> ConfigLike:
    """Return settings with algorithm dqn, unless they name one themselves or by a preset."""
    named = vars(given) if isinstance(given, SimpleNamespace) else given
    if isinstance(named, Settings) or {"algorithm", "preset"} & set(named):
        return given
    return {"algorithm": "dqn", **named}


def env_settings(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings below `env` of an environment that is given so, or by its id.

    Raises:
        UsageError: It is neither.
    """
    if not isinstance(given, str | Mapping):
        raise UsageError(
            f"The environment is {given!r}.",
            "Give its id, or settings such as {'id': 'CartPole-v1'}.",
        )
    return {"id": given} if isinstance(given, str) else dict(given)


def try_agent(settings: Settings, algorithms: tuple[str, ...]) -> SpacesSpec:
    """Make environment and agent once, before any process begins; return the spaces.

    Args:
        settings: Those of the training.
        algorithms: Which ones its trainer has: no other is advised.

    Raises:
        EnvironmentCheckError: The environment can't be made here, or the agent can't choose its actions.
        HardwareError: There is not what the settings ask for (`learner.device`).
    """
    from soulsgui.training.agents import learner_device, make_agent  # actors need no torch
    from soulsgui.training.spaces import spaces_here

    spaces = spaces_here(settings)
    action, algorithm = spaces.action, settings.algorithm
    fits = {
        "dqn": isinstance(action, DiscreteSpec),
        "sac": isinstance(action, BoxActionSpec) and action.is_bounded,
    }
    if not fits[algorithm]:
        other = next((name for name in algorithms if fits[name]), "")
        raise EnvironmentCheckError(
            f"{algorithm} can't choose the actions of {settings.env.id}: it takes {action_words(action)}.",
            f"Set algorithm: {other}" if other else "Choose another environment.",
        )
    make_agent(algorithm, settings, spaces, learner_device(settings, spaces))
    return spaces
