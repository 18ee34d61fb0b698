"""Python's garbage is collected in the window's thread alone.

Python collects in whichever thread happens to allocate. A Qt object that dies in another thread than its own
leaves its timers behind, and the process ends with a segmentation fault when the next of them fires.
"""

import gc
from types import TracebackType
from typing import Self

from PySide6.QtCore import QObject, QTimer

_LOOK_MS = 1000


class Collector(QObject):
    """While it is entered, garbage is collected by a timer of this thread, and by no other thread."""

    def __init__(self) -> None:
        super().__init__()
        self._timer = QTimer(self, interval=_LOOK_MS)
        self._timer.timeout.connect(self.look)

    def __enter__(self) -> Self:
        gc.disable()
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.stop()
        gc.enable()

    def look(self) -> None:
        """Collect the oldest generation that is due, by Python's own thresholds."""
        due = [
            generation
            for generation, (count, threshold) in enumerate(
                zip(gc.get_count(), gc.get_threshold(), strict=True)
            )
            if count > threshold
        ]
        if due:
            gc.collect(due[-1])
