"""Python's garbage is collected in the window's thread alone.

Python collects in whichever thread happens to allocate. A Qt object that dies in another thread than its own
leaves its timers behind, and the process ends with a segmentation fault when the next of them fires.

A generation is due when Python's own count for it has passed its threshold. One rule of Python's is not
followed, because nobody can ask how it stands: that the oldest generation waits until a quarter of its
objects is new. Here it is looked at as often as its count says, which is at most once in two minutes; what
there was when the window was first shown is left out of it.
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
        gc.unfreeze()
        gc.enable()

    def spare_the_present(self) -> None:
        """Look no more at what there is now: modules and classes stay until the end."""
        gc.freeze()

    def look(self) -> None:
        """Collect the oldest generation that is due."""
        due = [
            generation
            for generation, (count, threshold) in enumerate(
                zip(gc.get_count(), gc.get_threshold(), strict=True)
            )
            if count > threshold
        ]
        if due:
            gc.collect(due[-1])
