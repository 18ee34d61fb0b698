"""Lists a page shows: asked for when they may have changed and somebody looks, one question at a time."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.throttle import Throttle
from soulsgui.wire.control import ApiError, ErrorCode

_INTERVAL_MS = 250


class Fetch(QObject):
    """Asks the server for one thing, again and again.

    While the widget is hidden nothing is asked; one question follows when it is seen again. Of a connection
    that is lost meanwhile the banner tells, so this does not.

    Signals:
        came: The answer is there; with the result.
        failed: It was refused, or no answer came; with the `ApiError`.

    Args:
        widget: The widget it is for; it owns this object.
        ask: Sends the question; None when it can't be asked now.
        interval_ms: Least time between two questions.
    """

    came = Signal(dict)
    failed = Signal(object)

    def __init__(
        self, widget: QWidget, ask: Callable[[], Call | None], interval_ms: int = _INTERVAL_MS
    ) -> None:
        super().__init__(widget)
        self._ask = ask
        self._call: Call | None = None
        self._again = False
        self._throttle = Throttle(widget, self._send, interval_ms)

    def request(self) -> None:
        """Ask soon."""
        self._throttle.request()

    def forget(self) -> None:
        """Take no interest any more in what was asked: the question is another one now."""
        if self._call is not None:
            self._call.disconnect(self)
            self._call = None
        self._again = False

    @property
    def waiting(self) -> bool:
        """Whether an answer is outstanding."""
        return self._call is not None

    def _send(self) -> None:
        if self._call is not None:
            self._again = True
            return
        self._call = self._ask()
        if self._call is not None:
            self._call.done.connect(self._done)
            self._call.failed.connect(self._failed)
            self._call.silent.connect(self._failed)

    def _done(self, result: dict[str, Any]) -> None:
        self._over()
        self.came.emit(result)

    def _failed(self, error: ApiError) -> None:
        lost = self._call is not None and self._call.over and error.code is ErrorCode.NO_ANSWER
        self._over()
        if not lost:
            self.failed.emit(error)

    def _over(self) -> None:
        again = self._again
        self.forget()
        if again:
            self.request()
