"""How the bytes of a chunk lie: its head and its records (`messages.chunk` says what follows them)."""

import hashlib
from functools import lru_cache

import numpy as np

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
