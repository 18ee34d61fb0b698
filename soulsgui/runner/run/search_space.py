"""What a sweep searches: ranges and choices of settings, checked against the schema. Pure."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from soulsgui.config.errors import ConfigError, Problem, nearest
from soulsgui.config.layers import combine
from soulsgui.config.parsing import Layer, read_value
from soulsgui.config.schema import SettingInfo, Settings, all_settings, public_values

_SOURCE = "the search space"
_FORMS = "such as 0.0001..0.01:log, 4..64, [tanh, relu] or {low: 0.1, high: 0.3, step: 0.1}"
_RANGE = re.compile(r"\s*(\S+?)\s*\.\.\s*(\S+?)\s*(:\s*log)?\s*")
_MOST_CHOICES = 100
_LONGEST = 10_000  # characters of choices that are typed
_MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class Dimension:
    """A setting that is searched: from `low` to `high`, in steps of `step` if there is one, or `choices`."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    whole: bool = False  # Whether it is a whole number
    choices: tuple[str, ...] = ()  # Each as JSON

    @property
    def ends(self) -> list[Any]:
        """The values that have to be allowed so that all others are."""
        return [json.loads(one) for one in self.choices] or [self.low, self.high]

    @property
    def told(self) -> Any:
        """What is searched, as the API tells it: a list of choices, or `{low, high, log, step}`."""
        if self.choices:
            return self.ends
        return {"low": self.low, "high": self.high, "log": self.log, "step": self.step}

    def value(self, drawn: Any) -> Any:
        """Return the value of the setting that a sampler's choice stands for."""
        return json.loads(drawn) if self.choices else drawn


def search_space(told: Mapping[str, Any], base: Settings) -> dict[str, Dimension]:
    """Return what is searched, by dotted key, over a configuration.

    Raises:
        ConfigError: With every mistake: a key that there is not, a value out of the range of its setting.
    """
    found: dict[str, Dimension] = {}
    problems: list[Problem] = []
    for key, asked in told.items():
        try:
            found[key] = _dimension(key, asked)
        except ValueError as error:
            near = "" if key in all_settings() else nearest(key, all_settings())
            problems.append(Problem(_SOURCE, None, key, asked, f"{error}.", near))
    for key, dimension in found.items():
        for value in dimension.ends:
            try:
                combine([Layer("base", public_values(base)), Layer(_SOURCE, {key: value})])
            except ConfigError as error:
                problems += error.problems
    if problems:
        raise ConfigError(problems)
    return found


def _dimension(key: str, asked: Any) -> Dimension:
    info = all_settings().get(key)
    if info is None:
        raise ValueError("there is no such setting")
    if info.secret or info.effect.of_server:
        raise ValueError("belongs to the server, and is the same in all runs")
    if isinstance(asked, str):
        asked = _parsed(asked)
    if isinstance(asked, list):
        if not 1 <= len(asked) <= _MOST_CHOICES:
            raise ValueError(f"should have 1 to {_MOST_CHOICES} choices")
        return Dimension(choices=tuple(json.dumps(one) for one in asked))
    if not isinstance(asked, Mapping) or not {"low", "high"} <= set(asked) <= {"low", "high", "log", "step"}:
        raise ValueError(f"should be a range or a list of choices, {_FORMS}")
    return _range(info, asked)


def _parsed(text: str) -> Any:
    """Return a range or choices that were typed: `1e-5..1e-2:log`, `[tanh, relu]`."""
    if found := _RANGE.fullmatch(text):
        return {"low": found[1], "high": found[2], "log": bool(found[3])}
    value, why = read_value(text) if len(text) <= _LONGEST else (None, "is too long.")
    if why:
        raise ValueError(f"should be a range or a list of choices, {_FORMS}: it {why.rstrip('.')}")
    return value


def _range(info: SettingInfo, asked: Mapping[str, Any]) -> Dimension:
    kinds = get_args(info.annotation) or (info.annotation,)
    if float not in kinds and int not in kinds:
        raise ValueError("is not a number: list its choices")
    whole, log = float not in kinds, asked.get("log", False)
    if not isinstance(log, bool):
        raise ValueError("`log` should be true or false: {low: 0.0001, high: 0.01, log: true}")
    step = None if asked.get("step") is None else _number(asked["step"], whole)
    low, high = _number(asked["low"], whole), _number(asked["high"], whole)
    if low > high or (log and (low <= 0 or step is not None)):
        raise ValueError("should rise from `low` to `high`; with `log` from above 0, without a `step`")
    span = (high - low) * (1 + 1e-9)  # 0.3 - 0.1 is less than 0.2
    if step is not None and (step <= 0 or not span / _MOST_STEPS <= step <= span):
        raise ValueError(
            f"`step` should be above 0, no more than `high` - `low`, and so that there are {_MOST_STEPS:,} "
            "steps at most"
        )
    return Dimension(low, high, log, step, whole)


def _number(value: Any, whole: bool) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{value!r:.100} is not a number") from error
    if not math.isfinite(number) or (whole and not number.is_integer()):
        raise ValueError(f"{value!r} is not a {'whole' if whole else 'finite'} number")
    return int(number) if whole else number
