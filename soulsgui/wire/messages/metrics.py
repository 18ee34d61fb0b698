"""Rows on the `metrics` stream: what the curves of the window are made of.

An entry has one field, `row`, with one of these messages as JSON.
"""

import math
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from soulsgui.wire.messages.base import CurveColumn, Keyed, Message, Moment, Whole
from soulsgui.wire.messages.session import GreedyOrder

if TYPE_CHECKING:
    from soulsgui.wire.codec import WeightsHeader  # brings numpy, which `status` does without

ROW_FIELD = b"row"
STREAM_LENGTH = 20_000


def same_length(*columns: Sized) -> None:
    """Refuse columns that don't belong to the same rows.

    Raises:
        ValueError: They are of different lengths.
    """
    if len({len(column) for column in columns}) > 1:
        raise ValueError("the columns are of different lengths")


class EpisodeRows(Message):
    """Finished episodes as columns of equal length, written by telemetry after they were stored.

    Attributes:
        run_id: Run they were played for.
        row: Row number in the store, without gaps, from 1: by it a live tail joins a queried history.
        attempt: Attempt each episode was played in.
        client: Client that played it.
        episode: Number on the curve: finished episodes of the run up to it, from 1.
        env_steps: Environment steps on the curve, after it.
        time: Wall time of storing it, seconds since the epoch.
        total_return: Undiscounted sum of rewards.
        length: Steps.
        model_id: Weights in use at its end.
        mean_return: Mean return over the last `stop.window` episodes, up to it.
        values: Columns of `telemetry.metrics`, by name; None where an episode has none.
    """

    kind: Literal["episodes"] = "episodes"
    run_id: str
    row: CurveColumn[Whole]
    attempt: CurveColumn[Whole]
    client: CurveColumn[str]
    episode: CurveColumn[Whole]
    env_steps: CurveColumn[Whole]
    time: CurveColumn[Moment]
    total_return: CurveColumn[float]
    length: CurveColumn[Whole]
    model_id: CurveColumn[Whole]
    mean_return: CurveColumn[float]
    values: Keyed[CurveColumn[float | None]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        columns = (self.row, self.attempt, self.client, self.episode, self.env_steps, self.time)
        returns = (self.total_return, self.length, self.model_id, self.mean_return)
        same_length(*columns, *returns, *self.values.values())
        return self


EVALUATION_PREFIX = "evaluation_"
"""Beginning of the name of every metric that an evaluation tells, and of no other."""

EVALUATION_RETURN = f"{EVALUATION_PREFIX}return"
"""Mean return of an evaluation's episodes: what models are ranked by."""

EVALUATION_CUT = f"{EVALUATION_PREFIX}cut"
"""Episodes of an evaluation that did not end and were cut (`evaluation.max_steps`); told where some were."""


def evaluation_values(
    returns: Sequence[float], lengths: Sequence[int], seconds: float, cut: int = 0
) -> dict[str, float]:
    """Return what a row tells of an evaluation; what is not finite is left out.

    Args:
        returns: Undiscounted return of each episode, at least one.
        lengths: Steps of each.
        seconds: How long all of it took.
        cut: How many of them were cut.
    """
    mean = sum(returns) / len(returns)
    values = {
        "return": mean,
        "std": math.sqrt(sum((one - mean) * (one - mean) for one in returns) / len(returns)),
        "min": min(returns),
        "max": max(returns),
        "length": sum(lengths) / len(lengths),
        "s": seconds,
    }
    told = {EVALUATION_PREFIX + name: value for name, value in values.items() if math.isfinite(value)}
    return told | ({EVALUATION_CUT: float(cut)} if cut else {})


EVALUATION_METRICS = tuple(evaluation_values((0.0,), (0,), 0.0, cut=1))
"""Names of everything that an evaluation may tell."""


class _Point(Message):
    """A place on the curves."""

    kind: str
    run_id: str
    attempt: Whole
    update: Whole
    env_steps: Whole
    episodes: Whole
    model_id: Whole
    time: Moment


class UpdateRow(_Point):
    """One update of the agent, or several reported together; or an evaluation of the weights of an update.

    (kind, attempt, update) names it.

    Attributes:
        kind: `update` is written by the trainer; `evaluation`, of the weights of an update, by the evaluator,
            or by telemetry where a client plays it.
        previous: The update of the row of this kind before this one; it shows a gap.
        values: Metric name to value: losses, entropy, rates, timings; or what an evaluation gave.
        confirms: What an evaluation was to confirm (`node.Verdict.to_confirm`); None for nothing.
    """

    kind: Literal["update", "evaluation"] = "update"
    previous: Whole
    values: Keyed[float]
    confirms: Whole | None = None


def evaluation_row(
    run_id: str,
    weights: "WeightsHeader | GreedyOrder",
    last: tuple[int, int],
    values: dict[str, float],
    confirms: int | None,
    now: float,
) -> UpdateRow:
    """Return the row of an evaluation.

    Args:
        weights: What was evaluated: the header of weights, or the order to a client.
        last: Attempt and update of the evaluation before.
        values: As `evaluation_values` returns them.
        now: Wall time in seconds since the epoch.
    """
    names = ("attempt", "update", "env_steps", "episodes", "model_id")
    place = {name: getattr(weights, name) for name in names}
    place |= {"previous": last[1] if last[0] == weights.attempt else 0, "time": now}
    return UpdateRow(kind="evaluation", run_id=run_id, **place, values=values, confirms=confirms)


class AttemptRow(_Point):
    """Beginning of an attempt: what earlier attempts hold beyond `env_steps` is overwritten.

    Attributes:
        update: Updates of the checkpoint it begins from, 0 for none.
        env_steps: Environment steps of that checkpoint.
        episodes: Finished episodes of that checkpoint.
        passed_over: Which newer checkpoints are damaged, in words; empty without any.
    """

    kind: Literal["attempt"] = "attempt"
    passed_over: str = ""


RESOURCE_PREFIX = "resource_"
"""Beginning of the name of everything that a `ResourceRow` tells, and of no other metric."""


class ResourceRow(_Point):
    """What the processes of a run used at a moment, written by the runner.

    Attributes:
        values: By name: bytes, bytes a second, or percent of a core (of a service) or of all (of a machine).
    """

    kind: Literal["resources"] = "resources"
    values: Keyed[float]


class AttemptStart(Message):
    """Where an attempt begins on the axes."""

    attempt: Whole
    update: Whole
    env_steps: Whole
    episodes: Whole
    time: Moment


class CheckpointRow(_Point):
    """A checkpoint was saved: a marker on the curves."""

    kind: Literal["checkpoint"] = "checkpoint"
    saved: str = Field(description="current, best, manual or history")
    path: str = ""


Row = Annotated[
    EpisodeRows | UpdateRow | AttemptRow | CheckpointRow | ResourceRow, Field(discriminator="kind")
]
_ROW: TypeAdapter[Row] = TypeAdapter(Row, config=ConfigDict(defer_build=True))


def read_row(data: bytes | str) -> Row | None:
    """Return the row in `data`, or None when it is not one."""
    try:
        return _ROW.validate_json(data)
    except ValidationError:
        return None
