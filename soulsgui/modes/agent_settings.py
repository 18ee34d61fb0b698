"""Settings of an agent, as a Python program gives them to a trainer."""

from types import SimpleNamespace
from typing import Any

from soulsgui.config.layers import ConfigLike
from soulsgui.config.schema import Settings

NO_GOAL: dict[str, Any] = {"stop.env_steps": None, "stop.mean_return": None, "stop.judged_by": "training"}
"""Overrides that leave the end of a training to the program."""


def dqn_unless_named(given: ConfigLike) -> ConfigLike:
    """Return settings with algorithm dqn, unless they name one themselves or by a preset."""
    named = vars(given) if isinstance(given, SimpleNamespace) else given
    if isinstance(named, Settings) or {"algorithm", "preset"} & set(named):
        return given
    return {"algorithm": "dqn", **named}
