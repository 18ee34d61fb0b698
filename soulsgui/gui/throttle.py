"""At most so often, and never while nobody can see it."""

from collections.abc import Callable

from PySide6.QtCore import QElapsedTimer, QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget


class Throttle(QObject):
    """Calls a function soon after it was asked for, but not more often than an interval allows.

    While its owner is a widget that is hidden, or whose window is minimised, nothing is called; one call
    follows when it is seen again.
    """

    def __init__(self, owner: QObject, work: Callable[[], None], interval_ms: int) -> None:
        super().__init__(owner)
        self._owner = owner
        self._work = work
        self._interval_ms = interval_ms
        self.waiting = False
        self._since = QElapsedTimer()
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._run)
        owner.installEventFilter(self)

    def request(self) -> None:
        """Ask for a call."""
        self.waiting = True
        if self._seen() and not self._timer.isActive():
            passed = self._since.elapsed() if self._since.isValid() else self._interval_ms
            self._timer.start(max(0, self._interval_ms - passed))

    def _seen(self) -> bool:
        owner = self._owner
        return not isinstance(owner, QWidget) or (owner.isVisible() and not owner.window().isMinimized())

    def _run(self) -> None:
        if self.waiting and self._seen():
            self.waiting = False
            self._since.start()
            self._work()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Make up for what was asked while nobody looked."""
        if watched is self._owner and event.type() in (QEvent.Type.Show, QEvent.Type.Paint) and self.waiting:
            self.request()
        return False
