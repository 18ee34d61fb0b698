"""Samples on their way to the trainer: several segments (`experience.segments`) as bytes.

A chunk is a head, then its columns, little-endian, each whole:

    head (`HEAD`) | S records (`RECORD`) | action [N] | reward [N] | log_prob [N]
    | each field of the state [S] | action_mask [N + S], a bit for each action | obs [N + S]

The observations of images with numbers beside them are two columns, the numbers first.

What an observation and an action are, whether there are masks, and which fields the state has, both sides
know from the contract; the bytes must be exactly as many as it says. Images are compressed
(`messages.frames`).
"""

import hashlib
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.experience.frame_stacks import IMAGE, NUMBERS, Observations, field_of
from soulsgui.experience.segments import Segments
from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.frames import is_image, pack_frames

MAGIC = b"SGC1"
HEAD = np.dtype(
    [
        ("magic", "|S4"),
        ("protocol", "<u2"),
        ("stacking", "|u1"),
        ("padding", "|V1"),
        ("run", "|S8"),
        ("contract", "|S8"),
        ("count", "<u4"),
        ("steps", "<u4"),
    ]
)
RECORD = np.dtype(
    [
        ("episode", "<i8"),
        ("first_step", "<i8"),
        ("model_id_first", "<i8"),
        ("model_id_last", "<i8"),
        ("digest", "<u8"),
        ("env_index", "<i4"),
        ("length", "<i4"),
        ("flags", "|u1"),
        ("padding", "|V7"),
    ]
)
FLOAT = np.dtype("<f4")


@lru_cache(maxsize=16)
def mark(text: str) -> bytes:
    """Return what stands for a run or a contract in a head."""
    return hashlib.sha256(text.encode()).digest()[:8]


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
        detail: More of the reason, for the log; what a stranger wrote is cut short.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail[:_MAX_DETAIL]}" if detail else reason.value)
        self.reason = reason


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


def _obs_columns(obs: Observations, lengths: NDArray[np.integer[Any]]) -> tuple[Any, ...]:
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
