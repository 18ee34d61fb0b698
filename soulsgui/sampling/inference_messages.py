"""What a client without a policy and its inference server say to each other: `infer:req`, `infer:rep`.

A request carries all environments of the client: what the last actions led to, and what to act on next. It is
numbered within its unroll; one that is repeated gets the same answer, and makes no second transition.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from soulsgui.config.sections.run import MAX_NUM_ENVS
from soulsgui.environments.choices import Mask, action_left
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import LARGEST, StepResult
from soulsgui.experience.frame_stacks import field_of
from soulsgui.wire.codec import CodecError, pack, unpack

MOST_IN_FLIGHT = 2
"""Requests of a client that may wait: the newest one, and once more the same."""

_REWARDS = np.dtype("<f4")
_FLAGS = ("terminated", "truncated", "valid", "keep")


class ActionOutcome(NamedTuple):
    """What the actions of the last answer led to: the step's result, and which of its rows `[N]` are kept."""

    result: StepResult
    keep: NDArray[np.bool_]

    def of(self, rows: slice) -> Self:
        """Return some of its rows."""
        parts = [None if part is None else part[rows] for part in self.result]
        return type(self)(StepResult._make(parts), self.keep[rows])


class Request(NamedTuple):
    """A request for actions in `N` environments.

    Attributes:
        unroll: Names the unroll: another one when the client or its environments began anew.
        number: Number within the unroll, from 0.
        obs: What to act on, `[N, *shape]` as it is stored.
        mask: Valid actions `[N, A]`; None: all are.
        outcome: What the last answer led to; None in the first request.
        round_trip_ms: How long the last answer took to come; 0 in the first request.
        follows: `checksum` of that answer: the same request may have been answered twice, by two processes of
            the inference server. None: not told.
    """

    unroll: str
    number: int
    obs: NDArray[Any]
    mask: Mask | None = None
    outcome: ActionOutcome | None = None
    round_trip_ms: float = 0.0
    follows: int | None = None

    def pack(self) -> bytes:
        """Return the request as bytes. An observation is sent once; final ones of episodes come aside."""
        told: dict[str, Any] = {
            "unroll": self.unroll,
            "number": self.number,
            "round_trip_ms": round(self.round_trip_ms, 3),
            "follows": self.follows,
            "obs": self.obs.tobytes(),
        }
        if self.mask is not None:
            told["mask"] = self.mask.tobytes()
        if self.outcome is not None:
            result, keep = self.outcome.result, self.outcome.keep
            flags = np.array((result.terminated, result.truncated, result.valid, keep))
            told |= {"reward": result.reward.tobytes(), "flags": flags.T.tobytes()}
            if np.count_nonzero(ended := _ended(result)):
                told["final_obs"] = result.next_obs[ended].tobytes()
                if result.next_mask is not None:
                    told["final_mask"] = result.next_mask[ended].tobytes()
        return pack(told)


class ReceivedRequest(NamedTuple):
    """A request whose numbers were not looked at yet: `RequestReader.checked` does so for a whole batch.

    Attributes:
        unroll, number, round_trip_ms, follows: As of the `Request`.
        num_envs: Environments it asks for, `N`.
        has_outcome: Whether it tells what the last answer led to.
        columns: What it tells of each environment, one after the other: `obs`, `mask`, `reward`, `flags`;
            and of those whose episode ended, `final_obs`, `final_mask`.
    """

    unroll: str
    number: int
    round_trip_ms: float
    follows: int | None
    num_envs: int
    has_outcome: bool
    columns: Mapping[str, bytes]


class RequestReader:
    """Reads the requests of clients that play in these spaces."""

    def __init__(self, spaces: SpacesSpec) -> None:
        self._spaces = spaces
        self._dtype = np.dtype(spaces.observation.dtype)
        row = self._dtype.itemsize * math.prod(spaces.observation.shape)
        self._row_bytes = {"obs": row, "mask": spaces.masked_actions or 0}
        self._row_bytes |= {"reward": _REWARDS.itemsize, "flags": len(_FLAGS)}

    def read(self, data: bytes) -> ReceivedRequest:
        """Return the request in `data`; `CodecError` where it is none of these spaces."""
        told = unpack(data)
        if not isinstance(told, dict):
            raise CodecError("a request is a map")
        unroll, number, took_ms = told.get("unroll"), told.get("number"), told.get("round_trip_ms")
        if not isinstance(unroll, str) or not isinstance(number, int) or number < 0 or len(unroll) > 64:
            raise CodecError("a request names its unroll and its number")
        if not isinstance(took_ms, int | float) or not 0 <= took_ms < float("inf"):
            raise CodecError("a round trip takes time")
        if not isinstance(follows := told.get("follows"), int | None):
            raise CodecError("the answer that was followed is told by a number")
        columns = {name: told.get(name, b"") for name in (*self._row_bytes, "final_obs", "final_mask")}
        if {type(column) for column in columns.values()} != {bytes}:
            raise CodecError("observations and what they led to are sent as bytes")
        count = len(columns["obs"]) // self._row_bytes["obs"]
        if not 1 <= count <= MAX_NUM_ENVS:
            raise CodecError(f"a request is for 1 to {MAX_NUM_ENVS} environments, not for {count}")
        has_outcome = "reward" in told
        if not has_outcome:
            columns |= {name: bytes(count * self._row_bytes[name]) for name in ("reward", "flags")}
        for name, size in self._row_bytes.items():
            if len(columns[name]) != count * size:
                raise CodecError(f"{name} is of {len(columns[name])} bytes, in place of {count} times {size}")
        if (columns["flags"] + columns["mask"] + columns["final_mask"]).translate(None, b"\0\1"):
            raise CodecError("truth values other than 0 and 1")
        return ReceivedRequest(unroll, number, float(took_ms), follows, count, has_outcome, columns)

    def checked(self, received: Sequence[ReceivedRequest]) -> list[Request]:
        """Return requests; `CodecError` where one tells what can't be in these spaces.

        All at once: numpy takes about as long for all as for one.
        """
        columns = {name: b"".join([one.columns[name] for one in received]) for name in received[0].columns}
        obs, mask = self._observations(columns["obs"]), self._masks(columns["mask"])
        ends = list(accumulate(one.num_envs for one in received))
        rows = [slice(end - one.num_envs, end) for one, end in zip(received, ends, strict=True)]
        outcome = self._outcome(columns, obs, mask)
        ended = _ended(outcome.result)
        if columns["final_obs"] or columns["final_mask"] or np.count_nonzero(ended):
            for one, its in zip(received, rows, strict=True):
                many = int(np.count_nonzero(ended[its]))
                for name in ("obs", "mask"):
                    told, size = len(one.columns[f"final_{name}"]), self._row_bytes[name]
                    if told != many * size:
                        raise CodecError(f"final_{name} is of {told} bytes, in place of {many} times {size}")
            next_obs, next_mask = obs.copy(), None if mask is None else mask.copy()
            next_obs[ended] = self._observations(columns["final_obs"])
            if next_mask is not None:
                next_mask[ended] = self._masks(columns["final_mask"])
            outcome = outcome._replace(result=outcome.result._replace(next_obs=next_obs, next_mask=next_mask))
        return [
            Request(
                one.unroll,
                one.number,
                obs[its].copy(),  # it is kept until the next request: not the whole batch with it
                None if mask is None else mask[its].copy(),
                outcome.of(its) if one.has_outcome else None,
                one.round_trip_ms,
                one.follows,
            )
            for one, its in zip(received, rows, strict=True)
        ]

    def _outcome(self, columns: Mapping[str, bytes], obs: NDArray[Any], mask: Mask | None) -> ActionOutcome:
        """Return what all actions led to, as if no episode had ended."""
        reward = np.frombuffer(columns["reward"], _REWARDS)
        if not _moderate(reward):
            raise CodecError("rewards are finite, and not too large")
        flags = np.frombuffer(columns["flags"], np.bool_).reshape(-1, len(_FLAGS))
        terminated, truncated, valid, keep = flags.T.copy()
        nobody = np.zeros(len(obs), np.bool_)
        result = StepResult(obs, reward, terminated, truncated, valid, obs, nobody, mask, mask)
        return ActionOutcome(result, keep & valid)

    def _observations(self, data: bytes) -> NDArray[Any]:
        space = self._spaces.observation
        obs = np.frombuffer(data, self._dtype).reshape(-1, *space.shape)
        for name, _ in space.fields:
            numbers = field_of(obs, name)
            if numbers.dtype.kind == "f" and not _moderate(numbers):
                raise CodecError("observations are finite, and not too large")
        if not space.contains(obs).all():
            raise CodecError("observations are within their bounds")
        return obs

    def _masks(self, data: bytes) -> Mask | None:
        if not self._spaces.masked_actions:
            return None
        mask = np.frombuffer(data, np.bool_).reshape(-1, self._spaces.masked_actions)
        if not action_left(mask, self._spaces.action.sizes).all():
            raise CodecError("a mask leaves an action")
        return mask


def _ended(result: StepResult) -> NDArray[np.bool_]:
    return (result.terminated | result.truncated) & result.valid


def _moderate(numbers: NDArray[Any]) -> bool:
    """Whether all are finite, and not too large."""
    # The sum of squares is quick, and small only if each is. Of numbers with a NaN the largest is NaN.
    return bool(np.vdot(numbers, numbers) <= LARGEST or np.abs(numbers).max() <= LARGEST)


def checksum(answer: bytes) -> int:
    """Return by what a request names the answer whose outcome it tells."""
    return zlib.crc32(answer)


class ActionReply(NamedTuple):
    """The answer to one request.

    Attributes:
        unroll, number: Of the request.
        generation: Which process of the inference server answered (`heartbeat.InferenceFigures`).
        model_id, update: The weights that chose, and the updates up to them.
        action: What the environments take, `[N, …]`; nothing where it is refused.
        refused: Why there are no actions, in words; empty: there are.
    """

    unroll: str
    number: int
    generation: int
    model_id: int
    update: int
    action: NDArray[Any]
    refused: str = ""

    def pack(self) -> bytes:
        """Return the answer as bytes."""
        return pack(self._asdict())

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Return the answer in `data`; `CodecError` where there is none."""
        told = unpack(data)
        try:
            reply = cls(**told)
        except TypeError as error:
            raise CodecError("not an answer") from error
        if not isinstance(reply.action, np.ndarray) or not isinstance(reply.refused, str):
            raise CodecError("an answer has actions, or says why not")
        return reply
