"""Samples on their way to the trainer: several segments in columns, one array per field.

A segment is a run of contiguous steps of one environment within one episode. Its observations are sent
once: a segment of T steps has T + 1 of them, the last one being what followed its last step.

A chunk is a head, then its columns, little-endian, each whole:

    head (`HEAD`) | S records (`RECORD`) | action [N] | reward [N] | log_prob [N]
    | each field of the state [S] | action_mask [N + S], a bit for each action | obs [N + S]

The observations of images with numbers beside them are two columns, the numbers first.

What an observation and an action are, whether there are masks, and which fields the state has, both sides
know from the contract; the bytes must be exactly as many as it says. Images are compressed
(`messages.frames`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.frame_stacks import IMAGE, NUMBERS, Observations, field_of
from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.chunk_layout import FLOAT, HEAD, MAGIC, RECORD, mark
from soulsgui.wire.messages.frames import is_image, pack_frames

TERMINATED = 1
TRUNCATED = 2

MAX_CHUNK_BYTES = 16 * 2**20
NUMBER_FIELD = b"n"


class Reason(StrEnum):
    """Why samples were refused."""

    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    PROTOCOL = "protocol"
    RUN = "other_run"
    CONTRACT = "contract"
    SHAPE = "shape"
    NOT_FINITE = "not_finite"
    BOUNDS = "out_of_bounds"
    LATE = "late"
    LINEAGE = "lineage"
    REPEATED = "repeated"
    WRONG_TYPE = "wrong_type"
    NOT_ADMITTED = "not_admitted"
    MASK = "action_mask"
    CUT_OFF = "cut_off"


_MAX_DETAIL = 200


class ChunkError(ValueError):
    """A chunk that must be refused whole.

    Args:
        reason: Why.
        detail: More of it, for the log; what a stranger wrote is cut short.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail[:_MAX_DETAIL]}" if detail else reason.value)
        self.reason = reason


@dataclass(frozen=True)
class Segments:
    """`S` segments with `N` steps in all.

    | field | shape, dtype | meaning |
    |---|---|---|
    | env_index | `[S]` int32 | environment of the client |
    | episode | `[S]` int64 | number of the episode in that environment |
    | first_step | `[S]` int64 | number of the first step within its episode |
    | length | `[S]` int32 | steps |
    | model_id_first, model_id_last | `[S]` int64 | weights that chose the first and the last action |
    | digest | `[S]` uint64 | first 8 bytes of the hash of those weights, big-endian |
    | flags | `[S]` uint8 | `TERMINATED`, `TRUNCATED`, of the last step |
    | obs | `[N + S, *obs_shape]` | observations, segment after segment (`frame_stacks.Observations`) |
    | action | `[N, *action_shape]` | as they are stored (`environments.actions`): `[N]` int64 for Discrete |
    | reward | `[N]` float32 | |
    | log_prob | `[N]` float32 | log-probability of the action when it was chosen |
    | action_mask | `[N + S, A]` bool, or None | which actions are valid at each observation; None: all are |
    | state | name → `[S, *shape]` float32 | what a recurrent policy remembered before each first step |
    """

    env_index: NDArray[np.int32]
    episode: NDArray[np.int64]
    first_step: NDArray[np.int64]
    length: NDArray[np.int32]
    model_id_first: NDArray[np.int64]
    model_id_last: NDArray[np.int64]
    digest: NDArray[np.uint64]
    flags: NDArray[np.uint8]
    obs: Observations
    action: NDArray[Any]
    reward: NDArray[np.float32]
    log_prob: NDArray[np.float32]
    action_mask: NDArray[np.bool_] | None = None
    state: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Number of steps, `N`."""
        return len(self.action)

    @property
    def count(self) -> int:
        """Number of segments, `S`."""
        return len(self.length)


def digest_number(digest: str) -> int:
    """Return the hexadecimal digest of a weights header as the number segments carry."""
    return int(digest, 16)


def pack_chunk(run_id: str, contract: str, segments: Segments) -> bytes:
    """Return segments as the bytes of one chunk."""
    records = np.zeros(segments.count, RECORD)
    for name in RECORD.names or ():
        if name != "padding":
            records[name] = getattr(segments, name)
    stacking, *obs = _obs_columns(segments.obs, segments.length)
    fields = MAGIC, PROTOCOL, stacking, b"", mark(run_id), mark(contract), segments.count, segments.steps
    mask = segments.action_mask
    return b"".join(
        (
            np.array(fields, HEAD).tobytes(),
            records.tobytes(),
            segments.action.astype(segments.action.dtype.newbyteorder("<"), copy=False).tobytes(),
            segments.reward.astype(FLOAT, copy=False).tobytes(),
            segments.log_prob.astype(FLOAT, copy=False).tobytes(),
            *(segments.state[name].astype(FLOAT, copy=False).tobytes() for name in sorted(segments.state)),
            b"" if mask is None else np.packbits(mask, axis=1).tobytes(),
            *obs,
        )
    )


def _obs_columns(obs: Observations, lengths: NDArray[np.int32]) -> tuple[Any, ...]:
    """Return how the observations are stacked, and their bytes, numbers beside images apart."""
    if obs.dtype.names:
        stacking, images = _obs_columns(field_of(obs, IMAGE), lengths)
        return stacking, _bytes_of(field_of(obs, NUMBERS)), images
    array = np.asarray(obs)
    if is_image(array.shape[1:], array.dtype.str):
        return pack_frames(array, lengths)
    return 0, _bytes_of(array)


def _bytes_of(array: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
