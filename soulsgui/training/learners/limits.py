"""How learner and clients of an asynchronous algorithm are kept in step. Pure: time is passed in.

Three things hold them together. The replay ratio says how often a transition is drawn: above it the learner
waits for samples, below it the streams are not read. Credits say how many transitions may be on their way: no
more than the learner takes in before they would be too old. And weights are published as often as it takes.

Of `max_policy_lag` updates three quarters are for what is on its way, one for the age of the weights.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from soulsgui.config.sections.algorithms import DQNSettings, SACSettings, VTraceSettings
from soulsgui.training.intake.sessions import Session
from soulsgui.training.status import Waiting
from soulsgui.wire.beats import LOST_S
from soulsgui.wire.messages.session import RoundShare

STEPS_PER_ENV = 16
"""Steps of each environment in a share of lockstep: a round trip costs more than a quick step."""

FIRST_STEPS = 1024  # most transitions on their way while it is not known how fast the learner is

AHEAD_S = 0.3
"""So many seconds of the learner's work may be on their way at most: the way there and back takes a part of
that, and more would only make the samples older."""


PUBLISH_S = 0.2  # weights are published at least so often, in seconds, however slow the learner is

PUBLISHED_BYTES_PER_S = 50e6
"""Weights beyond that would fill the connections of the clients, and the log of the server."""


PacingSettings = DQNSettings | SACSettings
"""The settings of an algorithm with a memory that keep its learner and the clients in step."""

Delays = PacingSettings | VTraceSettings
"""The settings of an asynchronous algorithm that say how old and how many samples may be."""


@dataclass
class ReplayBand:
    """Keeps transitions drawn by transitions taken in near the replay ratio.

    `drawn` may stray from `ratio * inserted` by `slack` to either side; a bound that does not grow, so that
    the ratio is met the better the longer a run lasts (a rate limiter as in Reverb, arXiv 2102.04736).
    """

    ratio: float
    slack: float
    batch_size: int
    drawn: int = 0
    inserted: int = 0

    @classmethod
    def of(cls, settings: PacingSettings, batch_size: int) -> "ReplayBand":
        """Return the band of these settings, a batch wide at least: else both could wait for each other."""
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
    """Transitions the learner takes in per second of work, which is while it need not wait for them."""

    _HALF_LIFE_S = 1.0  # of work: after it, what lies back counts half

    def __init__(self) -> None:
        self._steps = 0.0
        self._seconds = 0.0

    def note(self, steps: float, seconds: float) -> None:
        """Take note of work done."""
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
    """
    most = min(int(0.75 * delays.max_policy_lag * steps_per_update), delays.buffer_size)
    if steps_per_s is None:
        return min(FIRST_STEPS, most)
    return min(int(steps_per_s * min(publish_s * delays.max_model_delay / 2, AHEAD_S)), most)


def beside_waiting(most: int, waiting: float) -> int:
    """Return how many transitions may be on their way beside those that wait to be learned from."""
    # When more than half of the most waits, none: a few large chunks cost less than many small ones.
    return most - int(waiting) if int(waiting) <= most // 2 else 0


def quarter_lag_s(delays: Delays, steps_per_s: float | None, steps_per_update: float) -> float:
    """Return in how many seconds the learner makes a quarter of `max_policy_lag` updates."""
    return 0.0 if steps_per_s is None else delays.max_policy_lag / 4 * steps_per_update / steps_per_s


def publish_interval(
    delays: Delays, least_s: float, outstanding: int, steps_per_s: float | None, steps_per_update: float
) -> float:
    """Return the time between two publishes, in seconds.

    The time of a quarter of `max_policy_lag` updates, so that weights are no older. It is longer where
    `least_s` is: weights of 5 MB take 0.1 s, which is 50 updates at 500 a second, however small the lag that
    is wanted. It is also longer after the learner has become slower, or clients have come, so that more is on
    its way than `steps_ahead` allows: all of that must arrive within half of `max_model_delay` publishes.
    """
    if steps_per_s is None:
        return least_s
    young_s = min(quarter_lag_s(delays, steps_per_s, steps_per_update), PUBLISH_S)
    return max(least_s, young_s, outstanding / steps_per_s / (delays.max_model_delay / 2))


def entries_to_read(room: float, steps_per_entry: float, streams: int, most: int) -> int:
    """Return how many entries of each stream to read at once, at least 1."""
    return max(1, min(most, int(room / max(steps_per_entry, 1.0) / max(streams, 1))))


@dataclass
class IntervalStats:
    """What an asynchronous learner counts between two rows of its curves."""

    began: float
    update: int
    env_steps: int
    lag: float = 0.0  # summed over the transitions taken in since, in updates
    learner: Waiting = field(default_factory=Waiting)
    ingest: Waiting = field(default_factory=Waiting)
    _steps: int = 0

    def taken_in(self, steps: int, lag: float) -> None:
        """Count transitions."""
        self._steps += steps
        self.lag += lag

    @property
    def policy_lag(self) -> float | None:
        """Mean lag of the transitions taken in, in updates; None when there was none."""
        return self.lag / self._steps if self._steps else None

    def close(self, now: float, update: int, env_steps: int) -> dict[str, float]:
        """Return rates and waits (in seconds) since the last row, and begin anew."""
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


@dataclass
class Lockstep:
    """Learner and client in lockstep, so that a run can be repeated to the bit.

    One client plays a share of steps with the newest weights, then it waits. The learner takes exactly these
    in, makes every update that is due for them, and publishes again with the next share.
    """

    longest: int  # segment of the run: a share fits into one chunk, so that it is taken in at once
    client: str = ""
    left: int = 0  # transitions of the share that did not come yet
    silent_since: float | None = None

    @property
    def waits(self) -> bool:
        """Whether a share is still being played."""
        return self.left > 0

    def begin(self, sessions: Mapping[str, Session], model_id: int) -> bool:
        """Give the next share to the first client by name; return whether there is one."""
        if not sessions:
            return False
        self.client = min(sessions)
        session = sessions[self.client]
        self.left, self.silent_since = min(STEPS_PER_ENV, self.longest) * session.num_envs, None
        session.round = RoundShare(round_id=model_id, steps=self.left)
        return True

    def takes(self, client: str, steps: int) -> bool:
        """Whether transitions belong to the share; those for which it is said count as delivered."""
        if client != self.client or steps > self.left:
            return False
        self.left -= steps
        return True

    def lost(self, playing: Collection[str], now: float) -> bool:
        """Return whether the rest of the share is to be given up: its client is silent, others could play."""
        # Without others it is waited for: heard again, the curve is that of a run without the gap.
        if not self.waits or self.client in playing or not playing:
            self.silent_since = None
            return False
        if self.silent_since is None:
            self.silent_since = now
        return now >= self.silent_since + LOST_S

    def drop(self, client: str) -> None:
        """Take note that a client won't deliver the rest of its share."""
        if client == self.client:
            self.client, self.left = "", 0
