"""How long a step takes, lately."""

import time
from types import TracebackType

_NEWEST_PART = 0.02


class Pace:
    """Measures the steps that are made within its blocks.

    Attributes:
        step_s: Recent mean time of one, seconds; 0 before the first.
    """

    def __init__(self) -> None:
        self.step_s = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        took_s = time.perf_counter() - self._began
        self.step_s += _NEWEST_PART * (took_s - self.step_s) if self.step_s else took_s
