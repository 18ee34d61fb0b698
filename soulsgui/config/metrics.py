"""Metrics of episodes that a user defines: what `telemetry.metrics` holds."""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from soulsgui.config.errors import reason_of

MOST = 20
OF_EPISODE = ("return", "length", "seconds")
"""What is known of every episode; any other key is one of the environment's info."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_TAKEN = re.compile(r"return|length|seconds|mean_return|evaluation_.*|.*_mean")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class EpisodeMetric(BaseModel):
    """One number of each episode.

    Attributes:
        key: `return`, `length`, `seconds`, or a key of the environment's info; `a.b` is b within a.
        over: Which of its values in the episode counts: the last, their sum, mean, largest or smallest.
        scale, offset: The value is multiplied by the one, then the other is added.
        compare: With `value`: the metric is 1 where this holds, as for a win, else 0.
        value: What it is compared with.
        window: Episodes of the moving average, told as `NAME_mean`; 0 for none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    key: str = Field(min_length=1, max_length=100)
    over: Literal["last", "sum", "mean", "max", "min"] = "last"
    scale: float = 1.0
    offset: float = 0.0
    compare: Literal["<", "<=", "==", "!=", ">=", ">"] | None = None
    value: float = 0.0
    window: int = Field(default=0, ge=0, le=100_000)

    @model_validator(mode="before")
    @classmethod
    def _key_alone(cls, value: Any) -> Any:
        return {"key": value} if isinstance(value, str) else value

    def of(self, raw: float) -> float:
        """Return the metric of what stood under its key."""
        found = raw * self.scale + self.offset
        return found if self.compare is None else float(_COMPARE[self.compare](found, self.value))


def read_metrics(told: Mapping[str, Any]) -> dict[str, EpisodeMetric]:
    """Return the metrics that a map describes.

    Raises:
        ValueError: It describes none; says why, for the user.
    """
    if len(told) > MOST:
        raise ValueError(f"there are at most {MOST} metrics, not {len(told)}")
    found = {}
    for name, value in told.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or _TAKEN.fullmatch(name):
            raise ValueError(
                f"“{name}” is not a metric name: it has letters, digits and “_”, and is neither one of "
                "every episode (return, length, seconds) nor begins with `evaluation_` or ends with `_mean`"
            )
        try:
            found[name] = EpisodeMetric.model_validate(value)
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            place = ".".join(map(str, (name, *wrong["loc"])))
            raise ValueError(f"{place}: {reason_of(wrong)}") from error
    return found


def info_keys(metrics: Mapping[str, EpisodeMetric]) -> tuple[str, ...]:
    """Return the keys of the environment's info that metrics need."""
    return tuple(dict.fromkeys(one.key for one in metrics.values() if one.key not in OF_EPISODE))
