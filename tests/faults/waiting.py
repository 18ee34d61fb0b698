"""Waiting for something that other threads or processes do, with a limit."""

import time
from collections.abc import Callable
from typing import TypeVar

LIMIT_S = 240.0
"""Longest wait for what is to happen, in every test: only a hang reaches it, however busy the machine is."""

T = TypeVar("T")


def until(look: Callable[[], T], what: str, limit_s: float = LIMIT_S, every_s: float = 0.005) -> T:
    """Look until something true is seen, and return it; AssertionError when it is not seen in time."""
    deadline = time.monotonic() + limit_s
    while not (seen := look()):
        assert time.monotonic() < deadline, f"waited {limit_s:g} s in vain: {what}"
        time.sleep(every_s)
    return seen
