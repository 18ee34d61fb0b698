"""What a segment must be before the learner sees it; many segments are judged at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec, MultiDiscreteSpec, action_left
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import LARGEST
from soulsgui.experience.frame_stacks import NUMBERS, Observations, field_of
from soulsgui.experience.segments import TERMINATED, TRUNCATED, Segments
from soulsgui.wire.messages.chunk import Reason

Codes = NDArray[np.uint8]
"""What is said of each segment: `GOOD`, `LEFT_OUT`, or `CODES` of the reason why it is refused."""

GOOD = 0
LEFT_OUT = 255
"""Neither accepted nor refused here: its chunk was refused whole, or nothing is wanted any more."""

CODES: Mapping[Reason, int] = {reason: number for number, reason in enumerate(Reason, start=1)}

# Of an action that is one of several; a density may be as large as it likes.
_LARGEST_LOG_PROB = 1e-3

# So many segments are looked at one by one, rather than halved once more to find the bad ones among them.
_FEW = 64
# So many numbers side by side are compared as fast as memory allows; a row of observations may be short.
_WIDE = 512


def count_refused(codes: Codes) -> dict[str, int]:
    """Return the number of refused segments by reason."""
    counts = np.bincount(codes, minlength=LEFT_OUT)
    return {reason.value: int(counts[code]) for reason, code in CODES.items() if counts[code]}


def check_segments(
    segments: Segments,
    spaces: SpacesSpec,
    digests: Mapping[int, int],
    oldest: int,
    newest: int,
    num_envs: int | NDArray[np.integer[Any]],
) -> Codes:
    """Say of each segment whether it is good, or the first reason why not, `[S]` uint8."""
    codes = np.zeros(segments.count, np.uint8)
    if not segments.count:
        return codes
    first, last = segments.model_id_first, segments.model_id_last
    ids, where = np.unique(last, return_inverse=True)
    known = np.array([digests.get(model_id, 0) for model_id in ids.tolist()], np.uint64)[where]
    remembered = np.array([model_id in digests for model_id in ids.tolist()], np.bool_)[where]
    _refuse(codes, (first < oldest) | (last > newest) | (first > last) | ~remembered, Reason.LATE)
    _refuse(codes, segments.digest != known, Reason.LINEAGE)
    _check_steps(segments, spaces, codes, 0, segments.count)
    _refuse(codes, (segments.env_index < 0) | (segments.env_index >= num_envs), Reason.BOUNDS)
    _refuse(codes, (segments.episode < 0) | (segments.first_step < 0), Reason.BOUNDS)
    _refuse(codes, segments.flags > (TERMINATED | TRUNCATED), Reason.BOUNDS)
    return codes


def _refuse(codes: Codes, bad: NDArray[np.bool_], reason: Reason) -> None:
    """Refuse the bad ones among those that were good so far."""
    if bad.any():
        codes[bad & (codes == GOOD)] = CODES[reason]


def _check_steps(segments: Segments, spaces: SpacesSpec, codes: Codes, begin: int, end: int) -> None:
    """Refuse the bad ones from `begin` up to `end`, found by halving: they cost the good ones little."""
    part = segments.cut(begin, end)
    if _all_good(part, spaces):  # one glance at the smallest and largest values; almost always it is enough
        return
    if end - begin <= _FEW:
        _refuse(codes[begin:end], _not_finite(part), Reason.NOT_FINITE)
        _refuse(codes[begin:end], _out_of_bounds(part, spaces), Reason.BOUNDS)
        _refuse(codes[begin:end], _against_masks(part, spaces), Reason.MASK)
        return
    middle = (begin + end) // 2
    _check_steps(segments, spaces, codes, begin, middle)
    _check_steps(segments, spaces, codes, middle, end)


def _all_good(part: Segments, spaces: SpacesSpec) -> bool:
    """Whether every number of every step is finite and within its bounds."""
    log_prob = part.log_prob
    # A comparison with NaN is false, and the smallest and largest of numbers with a NaN among them are NaN.
    return bool(
        spaces.action.all_within(part.action)
        and log_prob.max() <= _largest_log_prob(spaces)
        and log_prob.min() > -np.inf
        and part.reward.min() >= -LARGEST
        and part.reward.max() <= LARGEST
        and all(_all_in_box(field_of(part.obs, name), box) for name, box in spaces.observation.fields)
        and spaces.observation.all_whole(part.obs)
        and (part.action.dtype.kind != "f" or np.abs(part.action).max() <= LARGEST)
        and all(np.abs(values).max(initial=0) <= LARGEST for values in part.state.values())
        and not (part.action_mask is not None and _against_masks(part, spaces).any())
    )


def _all_in_box(values: Observations, box: BoxSpec) -> bool:
    """Whether all values are finite, within their bounds, and fit to compute with."""
    low, high = (limit.reshape(-1) for limit in box.limits)
    if values.dtype.kind != "f":
        info = np.iinfo(values.dtype)
        if (low == info.min).all() and (high == info.max).all():
            return True
    smallest, largest = _column_range(np.asarray(values).reshape(len(values), -1))
    within = bool((smallest >= low).all() and (largest <= high).all())
    if values.dtype.kind == "f":
        within = within and bool((smallest >= -LARGEST).all() and (largest <= LARGEST).all())
    return within


def _column_range(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return smallest and largest of each column of `[N, D]`; short rows are taken several at once."""
    count, width = rows.shape
    together = max(min(_WIDE // width, count), 1)
    whole = count - count % together
    folded = rows[:whole].reshape(-1, together * width)
    rest = rows[whole:]
    ranges = []
    for extreme in (np.minimum, np.maximum):
        found = extreme.reduce(extreme.reduce(folded, axis=0).reshape(together, width), axis=0)
        ranges.append(extreme(found, extreme.reduce(rest, axis=0)) if len(rest) else found)
    return ranges[0], ranges[1]


def _largest_log_prob(spaces: SpacesSpec) -> float:
    return LARGEST if isinstance(spaces.action, BoxActionSpec) else _LARGEST_LOG_PROB


def _not_finite(part: Segments) -> NDArray[np.bool_]:
    numbers = ~(np.isfinite(part.reward) & np.isfinite(part.log_prob))
    obs = np.asarray(field_of(part.obs, NUMBERS))
    found = _any_of(~_finite(obs), part.length + 1) | _any_of(numbers | ~_finite(part.action), part.length)
    for values in part.state.values():
        found |= ~_finite(values)
    return found


def _out_of_bounds(part: Segments, spaces: SpacesSpec) -> NDArray[np.bool_]:
    """Return for each segment whether a value of it is out of its bounds, or too large to compute with."""
    steps = ~spaces.action.contains(part.action) | _huge(part.action) | _huge(part.reward)
    steps |= part.log_prob > _largest_log_prob(spaces)
    obs = np.asarray(part.obs)
    bad = ~spaces.observation.contains(obs) | _huge(field_of(obs, NUMBERS))
    found = _any_of(bad, part.length + 1) | _any_of(steps, part.length)
    for values in part.state.values():
        found |= _huge(values)
    return found


def _against_masks(part: Segments, spaces: SpacesSpec) -> NDArray[np.bool_]:
    """Return for each segment whether a mask leaves no action, or an action was taken that was not valid."""
    mask = part.action_mask
    if mask is None:
        return np.zeros(part.count, np.bool_)
    rows = np.arange(part.steps) + np.repeat(np.arange(part.count), part.length)
    action = spaces.action
    if not isinstance(action, DiscreteSpec | MultiDiscreteSpec):
        raise ValueError(f"masks of actions that are not numbered: {action}")
    taken = action.allowed(part.action, mask, rows)
    return _any_of(~action_left(mask, action.sizes), part.length + 1) | _any_of(~taken, part.length)


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
    huge: NDArray[np.bool_] = (np.abs(array) > LARGEST).reshape(len(array), -1).any(axis=1)
    return huge


def _any_of(bad: NDArray[np.bool_], sizes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Return for each of the parts of these sizes, all at least 1, whether anything in it is bad."""
    starts = np.cumsum(sizes, dtype=np.int64) - sizes
    found: NDArray[np.bool_] = np.logical_or.reduceat(bad, starts)
    return found
