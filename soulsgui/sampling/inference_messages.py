"""What a client without a policy and its inference server say to each other: `infer:req`, `infer:rep`.

A request carries all environments of the client: what the last actions led to, and what to act on next. It is
numbered within its unroll; one that is repeated gets the same answer, and makes no second transition.
"""

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

# What the rows of an outcome are, one bit each: half of the time of a request went into small arrays.
_TERMINATED, _TRUNCATED, _VALID, _KEPT = (np.uint8(2**bit) for bit in range(4))
_FLAGS, _REWARDS = np.dtype("u1"), np.dtype("<f4")


@dataclass(frozen=True)
class Outcome:
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
    outcome: Outcome | None = None
    round_trip_ms: float = 0.0

    def pack(self) -> bytes:
        """Return the request as bytes. An observation is sent once; final ones of episodes come aside."""
        told: dict[str, Any] = {name: getattr(self, name) for name in ("unroll", "number", "mask")}
        told |= {"obs": _sendable(self.obs), "round_trip_ms": round(self.round_trip_ms, 3)}
        if self.outcome is not None:
            result, flags = self.outcome.result, self.outcome.keep * _KEPT
            flags |= result.terminated * _TERMINATED | result.truncated * _TRUNCATED | result.valid * _VALID
            told |= {"reward": result.reward, "flags": flags}
            if np.count_nonzero(ended := _ended(result)):
                told["final_obs"] = _sendable(result.next_obs[ended])
                told["final_mask"] = None if result.next_mask is None else result.next_mask[ended]
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


def _outcome(told: Mapping[str, Any], obs: NDArray[Any], mask: Mask | None, spaces: SpacesSpec) -> Outcome:
    count = len(obs)
    reward, flags = _array(told["reward"], _REWARDS, (count,)), _array(told.get("flags"), _FLAGS, (count,))
    # Of numbers with a NaN among them the largest is NaN.
    if not np.abs(reward).max() <= LARGEST:
        raise CodecError("rewards are finite, and not too large")
    terminated, truncated, valid, keep = (
        flags & bit != 0 for bit in (_TERMINATED, _TRUNCATED, _VALID, _KEPT)
    )
    nobody = np.zeros(count, np.bool_)
    result = StepResult(obs, reward, terminated, truncated, valid, obs, nobody, mask, mask)
    ended = _ended(result)
    if many := int(np.count_nonzero(ended)):
        final = _observations(told.get("final_obs"), spaces.observation)
        if len(final) != many:
            raise CodecError("each episode that ended has one final observation")
        next_obs = obs.copy()
        next_obs[ended] = final
        result = result._replace(next_obs=next_obs)
        if mask is not None:
            next_mask = mask.copy()
            next_mask[ended] = _masks(told.get("final_mask"), many, spaces)
            result = result._replace(next_mask=next_mask)
    return Outcome(result, keep & valid)


def _ended(result: StepResult) -> NDArray[np.bool_]:
    return (result.terminated | result.truncated) & result.valid


def _sendable(obs: NDArray[Any]) -> NDArray[Any]:
    """Return observations; records of an image and numbers as rows of bytes."""
    return np.ascontiguousarray(obs).view(np.uint8).reshape(len(obs), -1) if obs.dtype.names else obs


def _observations(array: Any, space: ObservationSpec) -> NDArray[Any]:
    dtype = np.dtype(space.dtype)
    if not isinstance(array, np.ndarray) or not array.ndim or not len(array):
        raise CodecError("observations are an array")
    if dtype.names:
        array = _array(array, np.dtype(np.uint8), (len(array), dtype.itemsize)).view(dtype)[:, 0]
    obs = _array(array, dtype, (len(array), *space.shape))
    for name, _ in space.fields:
        numbers = field_of(obs, name)
        if numbers.dtype.kind == "f" and not np.abs(numbers).max() <= LARGEST:
            raise CodecError("observations are finite, and not too large")
    if not space.contains(obs).all():
        raise CodecError("observations are within their bounds")
    return obs


def _masks(array: Any, count: int, spaces: SpacesSpec) -> Mask | None:
    if not spaces.masked_actions:
        return None
    mask = _array(array, np.dtype("?"), (count, spaces.masked_actions))
    if not action_left(mask, spaces.action.sizes).all():
        raise CodecError("a mask leaves an action")
    return mask


def _array(array: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != shape:
        raise CodecError(f"expected an array {shape} of {dtype}")
    return array


@dataclass(frozen=True)
class Reply:
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
