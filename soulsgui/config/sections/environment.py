"""Settings of the environment."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import field_validator

from soulsgui.config.declaring import Section, setting

_WRAPPER = "a wrapper is a name or {name: {argument: value}}, each an entry of its own"


def _only_json(value: Any) -> Any:
    """Refuse what JSON can't carry to the clients: dates, binary data, numbers that are not finite."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("should have words as keys")
        parts: Iterable[Any] = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"should hold finite numbers, not {value}")
    elif value is None or isinstance(value, (bool, int, float, str)):
        return value
    else:
        raise ValueError(f"should hold numbers, words, lists and maps, not a {type(value).__name__}")
    for part in parts:
        _only_json(part)
    return value


class EnvSettings(Section):
    """What the clients play."""

    id: str = setting(
        "CartPole-v1",
        "Gymnasium id of the environment, or `module:Env-v0` to import a module that registers it.",
        to_clients=True,
        min_length=1,
    )
    kwargs: dict[str, Any] = setting({}, "Keyword arguments the environment is made with.", to_clients=True)
    wrappers: tuple[str | dict[str, dict[str, Any]], ...] = setting(
        (),
        "Wrappers around the environment, innermost first: a name from gymnasium.wrappers or "
        "`module:Class`; arguments as `{name: {argument: value}}`.",
        to_clients=True,
    )
    spaces: Literal["auto", "server"] = setting(
        "auto",
        "Where it is found out what the environment shows and takes: on the server; or, with `auto`, where "
        "its module is not installed there and `clients.local` is 0, from the first client that joins.",
    )
    num_envs: int = setting(
        4, "Environments that each client steps side by side.", to_clients=True, ge=1, le=4096
    )

    @field_validator("kwargs", "wrappers")
    @classmethod
    def _no_more_than_json(cls, value: Any) -> Any:
        return _only_json(value)

    @field_validator("wrappers", mode="before")
    @classmethod
    def _wrappers_in_words(cls, value: Any) -> Any:
        """Say what a wrapper looks like; pydantic would complain of each form it could have had."""
        for entry in value if isinstance(value, (list, tuple)) else ():
            named = isinstance(entry, Mapping) and len(entry) == 1
            if not (isinstance(entry, str) or (named and isinstance(next(iter(entry.values())), Mapping))):
                raise ValueError(f"{_WRAPPER}, not {str(entry)[:80]}")
        return value
