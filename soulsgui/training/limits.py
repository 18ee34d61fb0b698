"""How learner and clients of an asynchronous algorithm are kept in step. Pure: time is passed in.

Three things hold them together. The replay ratio says how often a transition is drawn: above it the learner
waits for samples, below it the streams are not read. Credits say how many transitions may be on their way: no
more than the learner takes in before they would be too old. And weights are published as often as it takes.

Of `max_policy_lag` updates three quarters are for what is on its way, one for the age of the weights when
they are played with.
"""

from dataclasses import dataclass
from typing import Protocol

FIRST_STEPS = 1024
"""Most transitions on their way while it is not known how fast the learner is."""

AHEAD_S = 0.3
"""So many seconds of the learner's work may be on their way at most: the way there and back takes a part of
that, and more would only make the samples older."""


PUBLISH_S = 0.2
"""Weights are published at least so often, in seconds, however slow the learner is."""

PUBLISHED_BYTES_PER_S = 50e6
"""Weights beyond that would fill the connections of the clients, and the log of the server."""


class Delays(Protocol):
    """The settings of an asynchronous algorithm that say how old and how many samples may be."""

    @property
    def max_policy_lag(self) -> int:
        """Updates that the learner may be ahead of the weights that samples were made with."""

    @property
    def max_model_delay(self) -> int:
        """Publishes after which samples are too old."""

    @property
    def buffer_size(self) -> int:
        """Most transitions that are kept, or wait."""


class PacingSettings(Delays, Protocol):
    """The settings of an algorithm that keep its learner and the clients in step."""

    @property
    def batch_size(self) -> int:
        """Transitions drawn at once."""

    @property
    def gamma(self) -> float:
        """Discount factor."""

    @property
    def learning_starts(self) -> int:
        """Transitions to collect before the first update."""

    @property
    def replay_ratio(self) -> float:
        """Transitions drawn by transitions inserted."""

    @property
    def replay_ratio_tolerance(self) -> float:
        """How far the replay ratio may stray, as a part of it."""


@dataclass
class ReplayBand:
    """Keeps transitions drawn by transitions taken in near the replay ratio.

    `drawn` may stray from `ratio * inserted` by `slack` to either side; a bound that does not grow, so that
    the ratio is met the better the longer a run lasts (a rate limiter as in Reverb, arXiv 2102.04736).

    Attributes:
        ratio: Transitions drawn by transitions inserted.
        slack: Transitions drawn too many or too few.
        batch_size: Transitions drawn at once.
        drawn: Transitions drawn since learning began.
        inserted: Transitions taken in since learning began.
    """

    ratio: float
    slack: float
    batch_size: int
    drawn: int = 0
    inserted: int = 0

    @classmethod
    def of(cls, settings: PacingSettings, batch_size: int) -> "ReplayBand":
        """Return the band of these settings: as wide as its tolerance allows after `learning_starts` more.

        It is at least a batch wide to either side: otherwise both could wait for each other.
        """
        slack = settings.replay_ratio_tolerance * settings.replay_ratio * settings.learning_starts
        return cls(settings.replay_ratio, max(slack, batch_size), batch_size)

    @property
    def value(self) -> float:
        """The replay ratio so far; 0 before anything was inserted."""
        return self.drawn / self.inserted if self.inserted else 0.0

    @property
    def may_draw(self) -> bool:
        """Whether another batch may be drawn; otherwise the learner waits for samples."""
        return self.drawn + self.batch_size <= self.ratio * self.inserted + self.slack

    @property
    def owes(self) -> bool:
        """Whether another batch is needed to meet the ratio for what is there."""
        return self.drawn + self.batch_size <= self.ratio * self.inserted

    @property
    def waiting(self) -> float:
        """Transitions that were taken in and not drawn often enough yet; never below 0."""
        return max(self.inserted - self.drawn / self.ratio, 0.0)

    @property
    def room(self) -> float:
        """Transitions that may be taken in before the learner has to catch up; below 0 none may be."""
        return (self.drawn + self.slack) / self.ratio - self.inserted

    @property
    def may_insert(self) -> bool:
        """Whether samples may be taken in; otherwise they wait on their streams."""
        return self.room >= 0


class Pace:
    """How many transitions the learner takes in per second as long as it need not wait for them.

    What lies back counts half as much for every second of work since.
    """

    _HALF_LIFE_S = 1.0

    def __init__(self) -> None:
        self._steps = 0.0
        self._seconds = 0.0

    def note(self, steps: float, seconds: float) -> None:
        """Take note of work done.

        Args:
            steps: Transitions that the updates made room for: drawn by the replay ratio.
            seconds: Time it took, waiting left out.
        """
        fades = 0.5 ** (seconds / self._HALF_LIFE_S)
        self._steps = self._steps * fades + steps
        self._seconds = self._seconds * fades + seconds

    @property
    def steps_per_s(self) -> float | None:
        """Transitions per second; None before there was any work."""
        return self._steps / self._seconds if self._steps > 0 and self._seconds > 0 else None


def steps_ahead(delays: Delays, publish_s: float, steps_per_s: float | None, steps_per_update: float) -> int:
    """Return how many transitions all clients together may have on their way.

    As many as the learner takes in during three quarters of `max_policy_lag` updates, during `AHEAD_S`, and
    during half of `max_model_delay` publishes at most: the other half is for what nobody foresees.

    Args:
        delays: The settings.
        publish_s: Least time between two publishes.
        steps_per_s: Transitions the learner takes in per second, None while that is not known.
        steps_per_update: Transitions it takes in for each update.
    """
    most = min(int(0.75 * delays.max_policy_lag * steps_per_update), delays.buffer_size)
    if steps_per_s is None:
        return min(FIRST_STEPS, most)
    return min(int(steps_per_s * min(publish_s * delays.max_model_delay / 2, AHEAD_S)), most)


def beside_waiting(most: int, waiting: float) -> int:
    """Return how many transitions may be on their way beside those that wait to be learned from.

    When more than half of the most waits, none may be: many small chunks would cost more than a few large
    ones.

    Args:
        most: Transitions on their way and waiting, together.
        waiting: Transitions that wait.
    """
    return most - int(waiting) if int(waiting) <= most // 2 else 0


def quarter_lag_s(delays: Delays, steps_per_s: float | None, steps_per_update: float) -> float:
    """Return in how many seconds the learner makes a quarter of `max_policy_lag` updates.

    Args:
        delays: The settings.
        steps_per_s: Transitions the learner takes in per second; while that is not known, it takes no time.
        steps_per_update: Transitions it takes in for each update.
    """
    return 0.0 if steps_per_s is None else delays.max_policy_lag / 4 * steps_per_update / steps_per_s


def publish_interval(
    delays: Delays, least_s: float, outstanding: int, steps_per_s: float | None, steps_per_update: float
) -> float:
    """Return the time between two publishes, in seconds.

    The time of a quarter of `max_policy_lag` updates, so that weights are no older. It is longer where
    `least_s` is: weights of 5 MB take 0.1 s, which is 50 updates at 500 a second, however small the lag that
    is wanted. It is also longer after the learner has become slower, or clients have come, so that more is on
    its way than `steps_ahead` allows: all of that must arrive within half of `max_model_delay` publishes.

    Args:
        delays: The settings.
        least_s: Least time between two publishes.
        outstanding: Transitions that may be on their way.
        steps_per_s: Transitions the learner takes in per second, None while that is not known.
        steps_per_update: Transitions it takes in for each update.
    """
    if steps_per_s is None:
        return least_s
    young_s = min(quarter_lag_s(delays, steps_per_s, steps_per_update), PUBLISH_S)
    return max(least_s, young_s, outstanding / steps_per_s / (delays.max_model_delay / 2))


def entries_to_read(room: float, steps_per_entry: float, streams: int, most: int) -> int:
    """Return how many entries of each stream to read at once, at least 1.

    Args:
        room: Transitions that may be taken in now.
        steps_per_entry: Transitions in an entry, about.
        streams: Streams there are.
        most: Never more than this.
    """
    return max(1, min(most, int(room / max(steps_per_entry, 1.0) / max(streams, 1))))
