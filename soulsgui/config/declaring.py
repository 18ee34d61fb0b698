"""How a setting is declared: its value with everything a form, a file or a validation asks about it.

A setting may also change over a run: it is then a number, or a map that says how it goes on.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationInfo, field_validator
from pydantic_core import CoreSchema, core_schema


class Effect(StrEnum):
    """When a changed value is used."""

    NEW_RUN = "new run"
    RESUME = "new run or resume"
    """It does not make another experiment: a run that goes on may be given another value (`run.resume`)."""
    NOW = "now"
    """A run that goes on uses it from the next update on (`config.apply`)."""
    NEXT_ROUND = "next round"
    """The same, where updates are made after each round."""
    SAVED = "once it is saved"
    """It is the server's own, which reads it anew when the file has changed."""
    RESTART_RUNNER = "restart of the runner"

    @property
    def live(self) -> bool:
        """Whether a run can be given another value while it goes on; clients are never told of those."""
        return self in (Effect.NOW, Effect.NEXT_ROUND)

    @property
    def of_server(self) -> bool:
        """Whether it is the server's own, and no run's."""
        return self in (Effect.SAVED, Effect.RESTART_RUNNER)


def setting(
    default: Any,
    description: str,
    *,
    effect: Effect | None = None,
    unit: str = "",
    to_clients: bool | None = None,
    secret: bool = False,
    **constraints: Any,
) -> Any:
    """Declare one setting.

    Args:
        default: The shipped value.
        description: One or two sentences for a person who sees it for the first time.
        effect: When a change takes effect; None: as the section says.
        unit: Unit of the value, empty for plain numbers and words.
        to_clients: Whether clients receive it through the `config` key; None: as the section says.
        secret: Whether the value is left out of every file, log and message.
        **constraints: What else pydantic checks (`min_length`, `pattern`, ...); ranges are part of the type.
    """
    extra: dict[str, Any] = {"effect": effect, "unit": unit, "to_clients": to_clients, "secret": secret}
    return Field(default, description=description, json_schema_extra=extra, **constraints)


Fraction = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A group of settings: unknown keys are refused, a built one does not change.

    A subclass says with `class Name(Section, effect=..., to_clients=...)` what its settings have in common;
    the first paragraph of its docstring describes it to users.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, defer_build=True
    )

    shared_effect: ClassVar[Effect] = Effect.NEW_RUN
    shared_to_clients: ClassVar[bool] = False

    def __init_subclass__(
        cls, effect: Effect = Effect.NEW_RUN, to_clients: bool = False, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls.shared_effect, cls.shared_to_clients = effect, to_clients

    @field_validator("*", mode="before")
    @classmethod
    def _no_word_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `true` where a number is meant; it would pass for 1."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and annotation is not bool:
            raise ValueError("should be a value of its own kind, not true or false")
        return value


Scheduled = float | dict[str, Any]  # a number that stays, or one of the maps that `Within` takes

RAMPS = ("linear", "exponential")
PIECEWISE = "piecewise"


class Ramp(NamedTuple):
    """From one value to another, evenly (`linear`) or by an equal factor with each step (`exponential`).

    Attributes:
        kind: One of `RAMPS`.
        first: The value at the start of the run.
        last: The value at the end of the ramp, and from there on.
        over: Environment steps that it takes; None: `stop.env_steps`.
    """

    kind: str
    first: float
    last: float
    over: int | None


class Points(NamedTuple):
    """Values at environment steps, evenly from each to the next: `steps` rise; `values` stand there."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


def parsed(scheduled: Mapping[str, Any]) -> Ramp | Points:
    """Return the schedule that a map describes.

    Raises:
        ValueError: It describes none; says why, for the user.
    """
    kind = scheduled.get("schedule")
    if kind == PIECEWISE:
        _only(scheduled, {"schedule", "points"}, {"points"})
        return _points(scheduled["points"])
    if kind not in RAMPS:
        known, example = ", ".join((*RAMPS, PIECEWISE)), "{schedule: linear, from: 1, to: 0}"
        raise ValueError(f"should be a number, or a map such as {example}, with a schedule of {known}")
    _only(scheduled, {"schedule", "from", "to", "over"}, {"from", "to"})
    first, last = _number(scheduled["from"], "from"), _number(scheduled["to"], "to")
    over = scheduled.get("over")
    if over is not None and (over := _number(over, "over")) < 1:
        raise ValueError("`over` should be at least 1 environment step")
    if kind == "exponential" and min(first, last) <= 0:
        raise ValueError("an exponential schedule needs `from` and `to` above 0")
    return Ramp(kind, first, last, None if over is None else int(over))


def needs_goal(value: object) -> bool:
    """Whether a setting's value is a schedule over the whole run, whose length must then be known."""
    return isinstance(value, dict) and value.get("schedule") in RAMPS and value.get("over") is None


def _only(scheduled: Mapping[str, Any], known: set[str], needed: set[str]) -> None:
    if not needed <= set(scheduled) <= known:
        told = ", ".join(f"`{name}`" for name in sorted(known))
        raise ValueError(f"the schedule {scheduled['schedule']} takes {told}")


def _points(points: object) -> Points:
    if not isinstance(points, list | tuple) or not 1 <= len(points) <= 100:
        raise ValueError("`points` should be a list such as [[0, 1.0], [10000, 0.1]]")
    if not all(isinstance(point, list | tuple) and len(point) == 2 for point in points):
        raise ValueError("each of the `points` should be [environment steps, value]")
    steps = tuple(int(_number(step, "points")) for step, _ in points)
    if steps[0] < 0 or any(later <= earlier for earlier, later in pairwise(steps)):
        raise ValueError("the environment steps of `points` should rise from 0 on")
    return Points(steps, tuple(_number(value, "points") for _, value in points))


def _number(value: object, name: str) -> float:
    """Return a number; YAML 1.1 takes `1e-3` for a word."""
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            number = float(value)
            if math.isfinite(number):
                return number
    except ValueError:
        pass
    raise ValueError(f"`{name}` should be a number, not {value!r}")


@dataclass(frozen=True)
class Within:
    """Checks a `Scheduled`, also one that may be None: its numbers stay within a range.

    A number that stays must be above `gt`; a schedule may reach it, as a learning rate that ends at 0 does,
    unless `reaches` says otherwise.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    reaches: bool = True

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check after the kind of the value was checked."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def check(self, value: Scheduled | None) -> Scheduled | None:
        """Return the value, its numbers as numbers.

        Raises:
            ValueError: A number is out of range, or the map is no schedule.
        """
        if value is None:
            return None
        if not isinstance(value, dict):
            self._in_range(value, False)
            return value
        told = parsed(value)
        for number in told.values if isinstance(told, Points) else (told.first, told.last):
            self._in_range(number, self.reaches)
        return _written(told)

    def _in_range(self, number: float, reaches: bool) -> None:
        if self.ge is not None and number < self.ge:
            raise ValueError(f"should be greater than or equal to {self.ge:g}, not {number:g}")
        if self.gt is not None and (number < self.gt if reaches else number <= self.gt):
            raise ValueError(f"should be greater than {self.gt:g}, not {number:g}")
        if self.le is not None and number > self.le:
            raise ValueError(f"should be less than or equal to {self.le:g}, not {number:g}")


def _written(told: Ramp | Points) -> dict[str, Any]:
    """Return a schedule as it stands in a file."""
    if isinstance(told, Points):
        points = [list(point) for point in zip(told.steps, told.values, strict=True)]
        return {"schedule": PIECEWISE, "points": points}
    ramp = {"schedule": told.kind, "from": told.first, "to": told.last}
    return ramp if told.over is None else ramp | {"over": told.over}
