"""Waiting for something that other threads or processes do, with a limit."""

import time
from collections.abc import Callable

LIMIT_S = 120.0
"""Longest wait for what is to happen, in every test: only a hang reaches it, however busy the machine is."""

_PAUSE_S = 0.005


def until(condition: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    """Return when the condition holds.

    Args:
        condition: Looked at every few milliseconds.
        what: What is waited for, in words.
        limit_s: Longest wait.

    Raises:
        AssertionError: It did not come to hold in time.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit_s:g} s in vain: {what}")
        time.sleep(_PAUSE_S)
