"""Restart or give up: told from when a service failed. Pure: time and random numbers are passed in."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class RestartLimits:
    """How patient a runner is with a service that keeps failing.

    Attributes:
        first_delay_s: Pause before the first restart.
        longest_delay_s: No pause is longer.
        jitter: Part of the pause that chance adds or takes away.
        max_failures: So many failures within `window_s` and it is given up.
        window_s: See `max_failures`.
        healthy_s: Running so long without a failure, everything is forgiven.
        farewell_wait_s: A farewell travels through the server and the runner's memory of it: an end that may
            have been in order is not judged before.
    """

    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    jitter: float = 0.2
    max_failures: int = 5
    window_s: float = 300.0
    healthy_s: float = 60.0
    farewell_wait_s: float = 1.5


@dataclass(frozen=True)
class RestartHistory:
    """The failures of one service that still count.

    Attributes:
        failed_at: When it failed, monotonic seconds, oldest first.
        in_a_row: Failures since it was last healthy, also those older than the window.
    """

    failed_at: tuple[float, ...] = ()
    in_a_row: int = 0

    @property
    def failures(self) -> int:
        """Failures counted towards giving up."""
        return len(self.failed_at)

    def after_failure(self, now: float, limits: RestartLimits) -> "RestartHistory":
        """Return the history with one more failure, without those that are too old to count."""
        recent = tuple(moment for moment in self.failed_at if now - moment < limits.window_s)
        return RestartHistory((*recent, now), self.in_a_row + 1)

    def after_excused_failure(self) -> "RestartHistory":
        """Return the history with one more failure that only makes the pause longer."""
        return RestartHistory(self.failed_at, self.in_a_row + 1)

    def after_running(self, healthy_for_s: float, limits: RestartLimits) -> "RestartHistory":
        """Return the history of a service that has been healthy for so long: empty once that is enough."""
        if self.in_a_row and healthy_for_s >= limits.healthy_s:
            return RestartHistory()
        return self

    def given_up(self, limits: RestartLimits) -> bool:
        """Whether it failed too often to be tried again."""
        return self.failures >= limits.max_failures

    def delay_s(self, limits: RestartLimits, rng: random.Random) -> float:
        """Return the pause before the next try, seconds."""
        # The exponent is bounded: 2.0 ** 1024 overflows.
        doubled = limits.first_delay_s * 2.0 ** min(max(self.in_a_row - 1, 0), 30)
        jittered = min(doubled, limits.longest_delay_s) * rng.uniform(1 - limits.jitter, 1 + limits.jitter)
        return min(jittered, limits.longest_delay_s)
