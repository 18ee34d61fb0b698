"""What a client without a policy and its inference server say to each other: `infer:req`, `infer:rep`.

A request carries all environments of the client: what the last actions led to, and what to act on next. It is
numbered within its unroll; one that is repeated gets the same answer, and makes no second transition.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.choices import Mask, action_left
from soulsgui.environments.observations import ObservationSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import LARGEST, StepResult
from soulsgui.experience.frame_stacks import field_of
from soulsgui.wire.codec import CodecError, pack, unpack
from soulsgui.wire.messages.heartbeat import MAX_ENVS

MOST_IN_FLIGHT = 2
"""Requests of a client that may wait: the newest one, and once more the same."""

_BOOLS, _REWARDS = np.dtype("?"), np.dtype("<f4")


@dataclass(frozen=True)
class ActionOutcome:
    """What the actions of the last answer led to: the step's result, and which of its rows `[N]` are kept."""

    result: StepResult
    keep: NDArray[np.bool_]


@dataclass(frozen=True)
class Request:
    """A request for actions in `N` environments.

    Attributes:
        unroll: Names the unroll: another one when the client or its environments began anew.
        number: Number within the unroll, from 0.
        obs: What to act on, `[N, *shape]` as it is stored.
        mask: Valid actions `[N, A]`; None: all are.
        outcome: What the last answer led to; None in the first request.
        round_trip_ms: How long the last answer took to come; 0 in the first request.
    """

    unroll: str
    number: int
    obs: NDArray[Any]
    mask: Mask | None = None
    outcome: ActionOutcome | None = None
    round_trip_ms: float = 0.0

    def pack(self) -> bytes:
        """Return the request as bytes. An observation is sent once; final ones of episodes come aside."""
        told: dict[str, Any] = {
            "unroll": self.unroll,
            "number": self.number,
            "round_trip_ms": round(self.round_trip_ms, 3),
            "obs": _sent(self.obs),
            "mask": _sent(self.mask),
        }
        if self.outcome is not None:
            result, keep = self.outcome.result, self.outcome.keep
            flags = np.array((result.terminated, result.truncated, result.valid, keep))
            told |= {"reward": _sent(result.reward), "flags": _sent(flags)}
            if np.count_nonzero(ended := _ended(result)):
                told["final_obs"] = _sent(result.next_obs[ended])
                told["final_mask"] = _sent(None if result.next_mask is None else result.next_mask[ended])
        return pack(told)

    @classmethod
    def read(cls, data: bytes, spaces: SpacesSpec) -> Self:
        """Return the request in `data`; `CodecError` where it is none that can be used in these spaces."""
        told = unpack(data)
        if not isinstance(told, dict):
            raise CodecError("a request is a map")
        unroll, number, took_ms = told.get("unroll"), told.get("number"), told.get("round_trip_ms")
        if not isinstance(unroll, str) or not isinstance(number, int) or number < 0 or len(unroll) > 64:
            raise CodecError("a request names its unroll and its number")
        if not isinstance(took_ms, int | float) or not 0 <= took_ms < float("inf"):
            raise CodecError("a round trip takes time")
        obs = _observations(told.get("obs"), spaces.observation)
        count = len(obs)
        if not 1 <= count <= MAX_ENVS:
            raise CodecError("a request is for one environment at least")
        mask = _masks(told.get("mask"), count, spaces)
        outcome = _outcome(told, obs, mask, spaces) if "reward" in told else None
        return cls(unroll, number, obs, mask, outcome, float(took_ms))


def _outcome(
    told: Mapping[str, Any], obs: NDArray[Any], mask: Mask | None, spaces: SpacesSpec
) -> ActionOutcome:
    count = len(obs)
    reward = _received(told["reward"], _REWARDS, (), count)
    if not _moderate(reward):
        raise CodecError("rewards are finite, and not too large")
    terminated, truncated, valid, keep = _received(told.get("flags"), _BOOLS, (count,), 4)
    nobody = np.zeros(count, np.bool_)
    result = StepResult(obs, reward, terminated, truncated, valid, obs, nobody, mask, mask)
    ended = _ended(result)
    if many := int(np.count_nonzero(ended)):
        next_obs = obs.copy()
        next_obs[ended] = _observations(told.get("final_obs"), spaces.observation, many)
        result = result._replace(next_obs=next_obs)
        if mask is not None:
            next_mask = mask.copy()
            next_mask[ended] = _masks(told.get("final_mask"), many, spaces)
            result = result._replace(next_mask=next_mask)
    return ActionOutcome(result, keep & valid)


def _ended(result: StepResult) -> NDArray[np.bool_]:
    return (result.terminated | result.truncated) & result.valid


def _sent(array: NDArray[Any] | None) -> tuple[str, bytes] | None:
    """Return an array as it is sent: its shape is known from the spaces."""
    return None if array is None else (array.dtype.str, array.tobytes())


def _received(
    sent: Any, dtype: np.dtype[Any], shape: tuple[int, ...], count: int | None = None
) -> NDArray[Any]:
    """Return what was sent, rows `[N, *shape]`: as many as are asked for, or at least one."""
    kind, data = sent if isinstance(sent, list) and len(sent) == 2 else ("", b"")
    size = dtype.itemsize * math.prod(shape)
    fits = kind == dtype.str and isinstance(data, bytes) and len(data) and not len(data) % size
    if not fits or (count is not None and len(data) != count * size):
        raise CodecError(f"expected rows {shape} of {dtype}")
    if dtype == _BOOLS and data.translate(None, b"\0\1"):
        raise CodecError("truth values other than 0 and 1")
    return np.frombuffer(data, dtype).reshape(-1, *shape)


def _moderate(numbers: NDArray[Any]) -> bool:
    """Whether all are finite, and not too large."""
    # The sum of squares is quick, and small only if each is. Of numbers with a NaN the largest is NaN.
    return bool(np.vdot(numbers, numbers) <= LARGEST or np.abs(numbers).max() <= LARGEST)


def _observations(sent: Any, space: ObservationSpec, count: int | None = None) -> NDArray[Any]:
    obs = _received(sent, np.dtype(space.dtype), space.shape, count)
    for name, _ in space.fields:
        numbers = field_of(obs, name)
        if numbers.dtype.kind == "f" and not _moderate(numbers):
            raise CodecError("observations are finite, and not too large")
    if not space.contains(obs).all():
        raise CodecError("observations are within their bounds")
    return obs


def _masks(sent: Any, count: int, spaces: SpacesSpec) -> Mask | None:
    if not spaces.masked_actions:
        return None
    mask = _received(sent, _BOOLS, (spaces.masked_actions,), count)
    if not action_left(mask, spaces.action.sizes).all():
        raise CodecError("a mask leaves an action")
    return mask


@dataclass(frozen=True)
class ActionReply:
    """The answer to one request.

    Attributes:
        unroll, number: Of the request.
        generation: Which process of the inference server answered (`heartbeat.InferenceFigures`).
        model_id, update: The weights that chose, and the updates up to them.
        action: What the environments take, `[N, …]`.
    """

    unroll: str
    number: int
    generation: int
    model_id: int
    update: int
    action: NDArray[Any]

    def pack(self) -> bytes:
        """Return the answer as bytes."""
        return pack(vars(self))

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Return the answer in `data`; `CodecError` where there is none."""
        told = unpack(data)
        try:
            reply = cls(**told)
        except TypeError as error:
            raise CodecError("not an answer") from error
        if not isinstance(reply.action, np.ndarray):
            raise CodecError("an answer has actions")
        return reply
