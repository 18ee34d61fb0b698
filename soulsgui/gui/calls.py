"""A command on its way to the server and back, as the widgets see it."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from soulsgui.wire.control import ApiError, ErrorCode

PATIENCE_S = 10.0
SAVING_PATIENCE_S = 60.0


class Call(QObject):
    """One command until its answer, after which it is deleted: connect bound methods alone to its signals.

    Signals:
        progressed: The server tells how far it is, in words.
        done: It was carried out; with the result.
        failed: It was refused or went wrong; with an `ApiError`.
        silent: No answer came in time; one may still come.

    Args:
        command: Name of the command, such as `run.stop`.
        server: Name of the server on screen.
        patience_s: Seconds until it is called silent.
        parent: Who owns it.
    """

    progressed = Signal(str)
    done = Signal(dict)
    failed = Signal(object)
    silent = Signal(object)

    def __init__(
        self, command: str, server: str, patience_s: float = PATIENCE_S, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.command = command
        self.server = server
        self._timer = QTimer(self, singleShot=True, interval=round(patience_s * 1000))
        self._timer.timeout.connect(self._no_answer)
        self._timer.start()
        self._over = False

    @property
    def over(self) -> bool:
        """Whether the answer is there."""
        return self._over

    def progress(self, text: str) -> None:
        """Tell how far it is."""
        if not self._over:
            self.progressed.emit(text)

    def answer(self, result: dict[str, Any]) -> None:
        """It was carried out."""
        if not self._over:
            self._end()
            self.done.emit(result)

    def refuse(self, error: ApiError) -> None:
        """It was refused or went wrong."""
        if not self._over:
            self._end()
            self.failed.emit(error)

    def _end(self) -> None:
        self._over = True
        self._timer.stop()
        # Whoever waits for it is told before that.
        self.deleteLater()

    def _no_answer(self) -> None:
        self.silent.emit(
            ApiError(
                code=ErrorCode.NO_ANSWER,
                message=self.tr("No answer from {server}.").format(server=self.server),
                remedy=self.tr("It may be busy or out of reach. Try again, or look at its log."),
            )
        )


MakeCall = Callable[[], Call | None]
"""Sends a command; None when there is nothing to send any more."""
