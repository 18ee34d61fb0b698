"""Weights on their way to the clients: a msgpack header and safetensors behind it."""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from soulsgui.wire.codec import CodecError, pack, unpack

HASH_BYTES = 8
HEADER_BYTES = 4096
"""The header fits into so many bytes at the beginning of the blob."""

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class WeightsHeader:
    """What is known of weights before they are read.

    Attributes:
        run_id: Their run.
        attempt: Their attempt.
        model_id: Their id; ids count publishes and never go back.
        update: Updates of the agent up to them.
        digest: First 8 bytes of the SHA-256 of the tensors, hexadecimal: their lineage.
        reference: First outputs of the network at the reference observation
            (`environments.reference.reference_observation`); empty where nobody computed them.
        env_steps: Environment steps trained on up to them.
        episodes: Episodes among these.
    """

    run_id: str
    attempt: int
    model_id: int
    update: int
    digest: str
    reference: tuple[float, ...] = ()
    env_steps: int = 0
    episodes: int = 0


_KINDS = dict(
    zip(
        (field.name for field in fields(WeightsHeader)),
        (str, int, int, int, str, tuple, int, int),
        strict=True,
    )
)


def tensors_digest(blob: bytes) -> str:
    """Return the first bytes of the hash of a safetensors blob, hexadecimal."""
    return hashlib.sha256(blob).digest()[:HASH_BYTES].hex()


def pack_weights(
    run_id: str,
    attempt: int,
    model_id: int,
    update: int,
    tensors: Mapping[str, NDArray[Any]],
    reference: tuple[float, ...] = (),
    env_steps: int = 0,
    episodes: int = 0,
) -> tuple[WeightsHeader, bytes]:
    """Return the header and the whole blob of a set of tensors."""
    body = safetensors.numpy.save({name: np.asarray(value, order="C") for name, value in tensors.items()})
    digest = tensors_digest(body)
    header = WeightsHeader(run_id, attempt, model_id, update, digest, reference, env_steps, episodes)
    head = pack(asdict(header))
    return header, _LENGTH.pack(len(head)) + head + body


def read_header(blob: bytes) -> WeightsHeader:
    """Return the header of packed weights (the first `HEADER_BYTES` of the blob suffice).

    Raises:
        CodecError: The blob is damaged.
    """
    try:
        (length,) = _LENGTH.unpack_from(blob)
        header = _header(unpack(blob[_LENGTH.size : _LENGTH.size + length]))
    except (struct.error, TypeError) as error:
        raise CodecError("not weights") from error
    # Not `astuple`: it copies deeply, which takes longer than all the rest.
    if any(type(getattr(header, name)) is not kind for name, kind in _KINDS.items()):
        raise CodecError("not weights: a field of the header is of another kind")
    return header


def _header(fields: Any) -> WeightsHeader:
    reference = fields.pop("reference", []) if isinstance(fields, dict) else []
    if not isinstance(reference, list) or not all(type(value) is float for value in reference):
        raise CodecError("not weights: the reference is no list of numbers")
    return WeightsHeader(**fields, reference=tuple(reference))


def body_offset(blob: bytes) -> int:
    """Return where the tensors begin in packed weights whose header was read."""
    return _LENGTH.size + int(_LENGTH.unpack_from(blob)[0])


def unpack_body(header: WeightsHeader, body: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors behind a header, after checking the hash.

    Args:
        header: What was read of the blob's beginning.
        body: The blob from `body_offset` on.

    Raises:
        CodecError: The body is damaged, or belongs to other weights.
    """
    if tensors_digest(body) != header.digest:
        raise CodecError("weights are damaged: their hash differs")
    try:
        return safetensors.numpy.load(body)
    except Exception as error:
        raise CodecError(f"not weights: {error}") from error


def unpack_weights(blob: bytes) -> tuple[WeightsHeader, dict[str, NDArray[Any]]]:
    """Return header and tensors, after checking the hash.

    Raises:
        CodecError: The blob is damaged.
    """
    header = read_header(blob)
    return header, unpack_body(header, blob[body_offset(blob) :])
