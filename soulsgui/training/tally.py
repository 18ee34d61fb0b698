"""What an asynchronous learner counts between two rows of its curves. Pure: time is passed in."""

from dataclasses import dataclass, field

from soulsgui.training.report import Waiting


@dataclass
class Tally:
    """Counts since the last row.

    Attributes:
        began: When it began, monotonic seconds.
        update: Updates of the agent at the last row.
        env_steps: Transitions taken in at the last row.
        lag: Sum over the transitions taken in since: updates between the weights they were made with and now.
        learner: The learner waiting for samples.
        ingest: The streams waiting for the learner.
    """

    began: float
    update: int
    env_steps: int
    lag: float = 0.0
    learner: Waiting = field(default_factory=Waiting)
    ingest: Waiting = field(default_factory=Waiting)
    _steps: int = 0

    def taken_in(self, steps: int, lag: float) -> None:
        """Count transitions.

        Args:
            steps: How many.
            lag: Sum of their lags, in updates.
        """
        self._steps += steps
        self.lag += lag

    @property
    def policy_lag(self) -> float | None:
        """Mean lag of the transitions taken in, in updates; None when there was none."""
        return self.lag / self._steps if self._steps else None

    def close(self, now: float, update: int, env_steps: int) -> dict[str, float]:
        """Return rates and waits since the last row, and begin anew.

        Args:
            now: Monotonic time, seconds.
            update: Updates of the agent now.
            env_steps: Transitions taken in up to now.

        Returns:
            `updates_per_s`, `env_steps_per_s`; `learner_wait_s`, `ingest_wait_s`: seconds since the last row.
        """
        seconds = max(now - self.began, 1e-6)
        values = {
            "updates_per_s": (update - self.update) / seconds,
            "env_steps_per_s": (env_steps - self.env_steps) / seconds,
            "learner_wait_s": self.learner.take(now),
            "ingest_wait_s": self.ingest.take(now),
        }
        self.began, self.update, self.env_steps = now, update, env_steps
        self._steps, self.lag = 0, 0.0
        return values
