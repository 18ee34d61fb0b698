"""Structure as msgpack, arrays as (dtype, shape, raw bytes). Nothing received is ever executed.

The format is little-endian; object arrays can't be written and are refused when read. Weights are a msgpack
header and safetensors behind it.
"""

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import IO, Any, get_origin

import msgpack
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

MAX_MESSAGE_BYTES = 64 * 2**20

_ARRAY = 1
_NAMES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
_DTYPES = {np.dtype(name).newbyteorder("<").str: np.dtype(name).newbyteorder("<") for name in _NAMES}
_MAX_DIMS = 8
_HEAD_BYTES = 256
# A list is allocated from the length it claims: nested claims of millions would cost minutes.
_MAX_ITEMS = 4096


class CodecError(ValueError):
    """Bytes that are not a message of this codec."""


@lru_cache(maxsize=256)  # of small arrays it is most of the work
def _array_head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], bytes]:
    sent = _DTYPES.get(dtype.newbyteorder("<").str)
    if sent is None:
        raise TypeError(f"arrays of {dtype} can't be sent")
    return sent, bytes(msgpack.packb((sent.str, shape)))


def _pack_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        dtype, head = _array_head(value.dtype, value.shape)
        return msgpack.ExtType(_ARRAY, head + value.astype(dtype, copy=False).tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} can't be sent")


def _unpack_ext(code: int, data: bytes) -> NDArray[Any]:
    if code != _ARRAY:
        raise CodecError(f"unknown extension {code}")
    head = msgpack.Unpacker(max_buffer_size=len(data) or 1, use_list=False)
    head.feed(data[:_HEAD_BYTES])
    dtype_name, shape = head.unpack()
    # Only names that were sent by `pack`: numpy reads many more as types, some of them with surprises.
    dtype = _DTYPES.get(dtype_name)
    if dtype is None:
        raise CodecError(f"arrays of {dtype_name} are not accepted")
    if len(shape) > _MAX_DIMS or any(not isinstance(size, int) or size < 0 for size in shape):
        raise CodecError("bad shape")
    offset = head.tell()
    count = math.prod(shape)
    if len(data) - offset != count * dtype.itemsize:
        raise CodecError("array length and shape differ")
    if dtype.kind == "b" and data[offset:].translate(None, b"\0\1"):
        raise CodecError("truth values other than 0 and 1")
    return np.frombuffer(data, dtype=dtype, count=count, offset=offset).reshape(shape)


def pack(message: Any) -> bytes:
    """Return a message of maps, lists, numbers, strings, bytes and arrays as bytes.

    Maps have words as keys; lists and maps have at most 4096 items (more numbers go into an array).

    Raises:
        TypeError: The message holds something else, an array of objects, or a number of more than 64 bits.
        ValueError: A text can't be written as UTF-8.
    """
    return bytes(msgpack.packb(message, default=_pack_array))


def unpack(data: bytes) -> Any:
    """Return the message in `data`, arrays as read-only views.

    Raises:
        CodecError: `data` is not one whole message.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise CodecError("message too large")
    try:
        return msgpack.unpackb(
            data,
            ext_hook=_unpack_ext,
            strict_map_key=True,
            use_list=True,
            max_array_len=_MAX_ITEMS,
            max_map_len=_MAX_ITEMS,
        )
    except CodecError:
        raise
    except Exception as error:
        raise CodecError(f"not a message: {type(error).__name__}") from error


_PIPE_LENGTH = struct.Struct("<I")


def send(stream: IO[bytes], message: Mapping[str, Any]) -> None:
    """Write a message into a pipe."""
    data = pack(message)
    stream.write(_PIPE_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> dict[str, Any] | None:
    """Wait for a message in a pipe and return it, None when the other side is gone.

    Raises:
        CodecError: What was written there is no message.
    """
    head = stream.read(_PIPE_LENGTH.size)
    if len(head) < _PIPE_LENGTH.size:
        return None
    (length,) = _PIPE_LENGTH.unpack(head)
    if length > MAX_MESSAGE_BYTES:
        raise CodecError("message too large")
    data = stream.read(length)
    message = unpack(data) if len(data) == length else None
    if message is not None and not isinstance(message, dict):
        raise CodecError("not a map")
    return message


def pack_sample(
    obs: Any,
    action: NDArray[Any] | int,
    reward: float,
    next_obs: Any,
    terminated: bool,
    truncated: bool,
    info: dict[str, Any],
    model_id: int,
    step_id: int,
) -> bytes:
    """Return one transition as bytes, for `Connector.push_sample`.

    Args:
        obs: Observation the action was taken in, as the environment shows it: an array `[*obs_shape]`, a
            number, or a tuple or dictionary (keys are words) of these.
        action, reward, next_obs, terminated, truncated: As Gymnasium has them.
        info: What the policy said, such as `log_prob`; where the environment tells which actions are valid,
            `action_mask` (at `obs`) and `next_action_mask` (at `next_obs`), `[A]` each; values or arrays.
        model_id: Id of the weights that chose the action.
        step_id: Number of the step within its episode, from 0.
    """
    return pack((obs, action, float(reward), next_obs, terminated, truncated, info, model_id, step_id))


def unpack_sample(data: bytes) -> tuple[Any, ...]:
    """Return the nine parts of `pack_sample`.

    Raises:
        CodecError: `data` was not made by `pack_sample`.
    """
    parts = unpack(data)
    if not isinstance(parts, list) or len(parts) != 9:
        raise CodecError("not a sample")
    return tuple(parts)


HEADER_BYTES = 4096  # the header fits into so many bytes at the beginning of the blob

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class WeightsHeader:
    """What is known of weights before they are read.

    Attributes:
        model_id: Their id; ids count publishes and never go back.
        update: Updates of the agent up to them.
        digest: First 8 bytes of the SHA-256 of the tensors, hexadecimal: their lineage.
        reference: First outputs of the network at the reference observation
            (`environments.spaces.reference_observation`); empty where nobody computed them.
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


_KINDS = {field.name: get_origin(field.type) or field.type for field in fields(WeightsHeader)}


def tensors_digest(blob: bytes) -> str:
    """Return the first 8 bytes of the hash of a safetensors blob, hexadecimal."""
    return hashlib.sha256(blob).digest()[:8].hex()


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
    """Return the header of packed weights, whole in `HEADER_BYTES`.

    Raises:
        CodecError: The header is damaged.
    """
    try:
        (length,) = _LENGTH.unpack_from(blob)
        told = unpack(blob[_LENGTH.size : _LENGTH.size + length])
        reference = told.pop("reference", [])
        header = WeightsHeader(**told, reference=tuple(reference))
    except (struct.error, TypeError, AttributeError) as error:
        raise CodecError("not weights") from error
    if not isinstance(reference, list) or not all(type(value) is float for value in reference):
        raise CodecError("not weights: the reference is no list of numbers")
    # Not `astuple`: it copies deeply, which takes longer than all the rest.
    if any(type(getattr(header, name)) is not kind for name, kind in _KINDS.items()):
        raise CodecError("not weights: a field of the header is of another kind")
    return header


def body_offset(blob: bytes) -> int:
    """Return where the tensors begin in packed weights whose header was read."""
    return _LENGTH.size + int(_LENGTH.unpack_from(blob)[0])


def unpack_body(header: WeightsHeader, body: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors (the blob from `body_offset` on).

    Raises:
        CodecError: The tensors have another hash than the header says.
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
