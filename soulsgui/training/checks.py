"""What a segment must be before the learner sees it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.wire.messages.chunk import TERMINATED, TRUNCATED, Reason, Segments

# The square of a larger one may leave the range of float32, and with it the statistics of the normaliser.
_LARGEST_MAGNITUDE = 1e15


@dataclass(frozen=True)
class Checked:
    """Outcome of a check.

    Attributes:
        accepted: Which segments passed, `[S]` bool.
        refused: Number of refused segments by reason.
    """

    accepted: NDArray[np.bool_]
    refused: dict[str, int]


def check_segments(
    segments: Segments, spaces: SpacesSpec, digests: dict[int, int], oldest: int, newest: int, num_envs: int
) -> Checked:
    """Check segments against the spaces and the weights that are in use.

    Args:
        segments: Well-formed segments.
        spaces: Spaces of the run.
        digests: Digest of each model id that is remembered; samples of others count as late.
        oldest: Oldest model id that is accepted.
        newest: Newest model id there is.
        num_envs: Environments the client announced.
    """
    steps_of = np.repeat(np.arange(segments.count), segments.length)
    rows_of = np.repeat(np.arange(segments.count), segments.length + 1)
    first, last = segments.model_id_first, segments.model_id_last
    known = np.array([digests.get(int(model_id), 0) for model_id in last], np.uint64)
    forgotten = np.array([int(model_id) not in digests for model_id in last], np.bool_)
    start = spaces.action.start
    huge = [
        _any_of(_huge(segments.obs), rows_of, segments.count),
        _any_of(_huge(segments.reward), steps_of, segments.count),
    ]
    tests = [
        (Reason.LATE, (first < oldest) | (last > newest) | (first > last) | forgotten),
        (Reason.LINEAGE, segments.digest != known),
        (Reason.NOT_FINITE, _any_of(~_finite(segments.obs), rows_of, segments.count)),
        (
            Reason.NOT_FINITE,
            _any_of(
                ~(np.isfinite(segments.reward) & np.isfinite(segments.log_prob)), steps_of, segments.count
            ),
        ),
        (Reason.BOUNDS, _any_of(~spaces.observation.contains(segments.obs), rows_of, segments.count)),
        (
            Reason.BOUNDS,
            _any_of(
                (segments.action < start)
                | (segments.action >= start + spaces.action.n)
                | (segments.log_prob > 1e-3),
                steps_of,
                segments.count,
            ),
        ),
        (Reason.BOUNDS, (segments.env_index < 0) | (segments.env_index >= num_envs)),
        (Reason.BOUNDS, (segments.episode < 0) | (segments.first_step < 0)),
        (Reason.BOUNDS, segments.flags > (TERMINATED | TRUNCATED)),
        (Reason.BOUNDS, huge[0] | huge[1]),
    ]
    accepted = np.ones(segments.count, np.bool_)
    refused: dict[str, int] = {}
    for reason, bad in tests:
        newly = bad & accepted
        count = int(np.count_nonzero(newly))
        if count:
            refused[reason.value] = refused.get(reason.value, 0) + count
            accepted &= ~bad
    return Checked(accepted, refused)


def _finite(array: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return for each row whether all of it is finite."""
    if array.dtype.kind != "f":
        return np.ones(len(array), np.bool_)
    finite: NDArray[np.bool_] = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    return finite


def _huge(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each row whether any of it is too large to be computed with."""
    if array.dtype.kind != "f":
        return np.zeros(len(array), np.bool_)
    huge: NDArray[np.bool_] = (np.abs(array) > _LARGEST_MAGNITUDE).reshape(len(array), -1).any(axis=1)
    return huge


def _any_of(bad: NDArray[np.bool_], owner: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return for each segment whether any of its rows is bad."""
    return np.bincount(owner, weights=bad, minlength=count) > 0


def select(segments: Segments, accepted: NDArray[np.bool_]) -> Segments:
    """Return only the accepted segments."""
    if accepted.all():
        return segments
    steps = np.repeat(accepted, segments.length)
    rows = np.repeat(accepted, segments.length + 1)
    return Segments(
        env_index=segments.env_index[accepted],
        episode=segments.episode[accepted],
        first_step=segments.first_step[accepted],
        length=segments.length[accepted],
        model_id_first=segments.model_id_first[accepted],
        model_id_last=segments.model_id_last[accepted],
        digest=segments.digest[accepted],
        flags=segments.flags[accepted],
        obs=segments.obs[rows],
        action=segments.action[steps],
        reward=segments.reward[steps],
        log_prob=segments.log_prob[steps],
    )
