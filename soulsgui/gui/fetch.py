"""A question to the server, asked again whenever its answer may be another one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal, SignalInstance

from soulsgui.gui.throttle import Throttle
from soulsgui.wire.control import ApiError, ErrorCode
from soulsgui.wire.messages.base import Message

if TYPE_CHECKING:
    from soulsgui.gui.feed import Call, MakeCall

_FETCH_MS = 250


class Fetch(QObject):
    """Asks the server for one thing, again and again.

    While its owner is a widget that nobody sees nothing is asked; one question follows when it is seen again.
    Of a connection that is lost meanwhile the banner tells, so this does not. With `late` an answer is of use
    also when it comes after it was called silent.

    Signals:
        came: The answer is there; with the result.
        failed: It was refused, or no answer came; with the `ApiError`.
    """

    came = Signal(object)
    failed = Signal(object)

    def __init__(
        self,
        owner: QObject,
        ask: "MakeCall",
        interval_ms: int = _FETCH_MS,
        came: Callable[[Any], object] | None = None,
        failed: Callable[[ApiError], None] | SignalInstance | None = None,
        late: bool = False,
    ) -> None:
        super().__init__(owner)
        self._ask = ask
        self._late = late
        if came is not None:
            self.came.connect(came)
        if failed is not None:
            self.failed.connect(failed)
        self._call: Call | None = None
        self._silent: list[Call] = []
        self._again = False
        self._throttle = Throttle(owner, self._send, interval_ms)

    def request(self) -> None:
        """Ask soon."""
        self._throttle.request()

    def forget(self) -> None:
        """Take no interest any more in what was asked: the question is another one now."""
        for call in (*self._silent, self._call):
            if call is not None:
                call.disconnect(self)
        self._call, self._silent, self._again = None, [], False

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
            self._call.silent.connect(self._got_no_answer)

    def _done(self, result: Message) -> None:
        self._end()
        self.came.emit(result)

    def _failed(self, error: ApiError) -> None:
        self._end()
        if error.code is not ErrorCode.NO_ANSWER:  # of a lost connection the banner tells
            self.failed.emit(error)

    def _got_no_answer(self, error: ApiError) -> None:
        call = self._call
        if call is not None and not call.over:
            self._end(silent=True)
            if self._late:
                self._silent.append(call)
            else:
                call.disconnect(self)
        self.failed.emit(error)

    def _end(self, silent: bool = False) -> None:
        """Wait no longer: there is an answer, be it to an earlier question, or none comes."""
        if not silent:
            for call in self._silent:
                call.disconnect(self)
            self._silent = []
        if self._call is not None and (silent or self._call.over):
            again, self._call, self._again = self._again, None, False
            if again:
                self.request()
