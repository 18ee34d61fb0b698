"""Values of YAML as plain data: what JSON knows, in a size that fits a setting."""

from typing import Any

MOST_PARTS = 10_000
"""Entries a value may have, those of its parts included."""

DEEPEST = 40
"""Levels a value may have."""


class NotPlainError(ValueError):
    """A value is not plain data; the message says why, as a reason for the user."""


def plain(value: Any) -> Any:
    """Return a YAML value without the round-trip wrappers.

    An alias may stand for a whole branch and be used again and again, so that a few lines make billions of
    entries, or for a branch that holds it: both end here.

    Raises:
        NotPlainError: It holds what JSON does not know, itself, or too much.
    """
    return _Copy().of(value, 0)


class _Copy:
    """Copies one value and counts what it has copied."""

    def __init__(self) -> None:
        self._parts = 0

    def of(self, value: Any, depth: int) -> Any:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise NotPlainError(f"holds more than {MOST_PARTS:,} entries.")
        if depth > DEEPEST:
            raise NotPlainError(f"holds itself, or is nested deeper than {DEEPEST} levels.")
        if isinstance(value, dict):
            return {str(key): self.of(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.of(inner, depth + 1) for inner in value]
        if isinstance(value, bool) or value is None:
            return value
        for kind in (int, float, str):
            if isinstance(value, kind):
                return kind(value)
        what = "binary data" if isinstance(value, bytes) else f"a value of the kind {type(value).__name__}"
        raise NotPlainError(f"holds {what}, not a number, a word, a list or a map: put it in quotes.")
