"""Several calls as one: a button acts on all chosen clients."""

from collections.abc import Sequence
from typing import Any

from soulsgui.gui.calls import Call
from soulsgui.wire.control import ApiError

_MARGIN_S = 60.0


class _Together(Call):
    """A call that waits for others."""

    def __init__(self, calls: Sequence[Call]) -> None:
        first = calls[0]
        # It waits longer than any of them, whose own silence it passes on.
        super().__init__(first.command, first.server, _MARGIN_S, first.parent())
        self._left = len(calls)
        self._wrong: ApiError | None = None
        for call in calls:
            call.done.connect(self._one_done)
            call.failed.connect(self._one_failed)
            call.silent.connect(self.silent)

    def _one_done(self, _: dict[str, Any]) -> None:
        self._left -= 1
        if self._left == 0 and self._wrong is not None:
            self.refuse(self._wrong)
        elif self._left == 0:
            self.answer({})

    def _one_failed(self, error: ApiError) -> None:
        self._wrong = self._wrong or error
        self._one_done({})


def together(calls: Sequence[Call]) -> Call:
    """Return a call that is done when all of these are, and failed when one of them is.

    Args:
        calls: At least one.
    """
    return calls[0] if len(calls) == 1 else _Together(calls)
