"""The pace of games that do not wait: steps on a fixed clock, or with a pause between them."""

import time
from collections.abc import Callable

_TOLERANCE = 0.1


class StepClock:
    """Says when the next step may be made, and counts the steps that came late.

    Args:
        step_s: Time from the beginning of a step to that of the next one, seconds; 0 for no clock.
        delay_s: Least pause between the end of a step and the beginning of the next one, seconds.
        now: Monotonic clock, seconds.
        sleep: Waits for so many seconds; a wait that ends earlier, to stop, is no late step.

    Attributes:
        late_steps: Steps that began more than a tenth of a step after their time. The clock then begins anew
            with that step: what was missed is not made up for.
    """

    def __init__(
        self,
        step_s: float,
        delay_s: float = 0.0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.late_steps = 0
        self._step_s = step_s
        self._delay_s = delay_s
        self._now = now
        self._sleep = sleep
        self._due: float | None = None

    def begin(self) -> None:
        """The next step comes after a pause that nobody could help: it is on time whenever it comes."""
        self._due = None

    def wait(self) -> None:
        """Wait until the next step is to be made."""
        if self._delay_s:
            self._sleep(self._delay_s)
        if not self._step_s:
            return
        now = self._now()
        due = now if self._due is None else self._due
        if now < due:
            self._sleep(due - now)
        elif now > due + _TOLERANCE * self._step_s:
            self.late_steps += 1
            due = now
        self._due = due + self._step_s
