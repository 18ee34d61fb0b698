"""Attempts on the axes of a run: where each begins, and what it overwrites. Pure."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from soulsgui.wire.control import AttemptStart


class Limit(NamedTuple):
    """How far an attempt's rows are still part of the curve; infinite while no later attempt went back."""

    env_steps: float = math.inf
    episodes: float = math.inf
    updates: float = math.inf

    def overwrites_episode(self, env_steps: int, episode: int) -> bool:
        """Whether an episode at this place is overwritten: beyond the limit on either axis."""
        return env_steps > self.env_steps or episode > self.episodes


class Limits:
    """The limit of every attempt.

    Args:
        starts: The attempts known.
    """

    def __init__(self, starts: Iterable[AttemptStart]) -> None:
        self._starts = sorted(starts, key=lambda start: start.attempt)
        self._known: dict[int, Limit] = {}

    def of(self, attempt: int) -> Limit:
        """Return the limit of one attempt: the least that any later attempt began at."""
        limit = self._known.get(attempt)
        if limit is None:
            later = [start for start in self._starts if start.attempt > attempt]
            limit = self._known[attempt] = Limit(
                min((start.env_steps for start in later), default=math.inf),
                min((start.episodes for start in later), default=math.inf),
                min((start.update for start in later), default=math.inf),
            )
        return limit


class Place(NamedTuple):
    """A place on the curve."""

    env_steps: int = 0
    episodes: int = 0


class Curve:
    """Where each attempt stands.

    Args:
        starts: The attempts known.
        places: How far each attempt with episodes has come.
    """

    def __init__(self, starts: Iterable[AttemptStart], places: dict[int, Place]) -> None:
        self._starts = {start.attempt: start for start in starts}
        self._places = dict(places)

    @property
    def starts(self) -> list[AttemptStart]:
        """The attempts known, in order."""
        return [self._starts[attempt] for attempt in sorted(self._starts)]

    @property
    def attempt(self) -> int:
        """The newest attempt, 0 before the first."""
        return max([*self._starts, *self._places], default=0)

    @property
    def places(self) -> dict[int, Place]:
        """How far each attempt with episodes has come."""
        return dict(self._places)

    def begin(self, start: AttemptStart) -> bool:
        """Note where an attempt begins; return whether it was new."""
        if start.attempt in self._starts:
            return False
        self._starts[start.attempt] = start
        return True

    def place(self, attempt: int) -> Place:
        """Return where an attempt stands.

        One whose beginning nobody told goes on where the one before it stands.
        """
        place = self._places.get(attempt)
        if place is not None:
            return place
        start = self._starts.get(attempt)
        if start is not None:
            return Place(start.env_steps, start.episodes)
        earlier = [one for one in (*self._starts, *self._places) if one < attempt]
        return self.place(max(earlier)) if earlier else Place()

    def advance(self, attempt: int, length: int) -> Place:
        """Go on by one finished episode of `length` steps and return the place after it."""
        env_steps, episodes = self._places.get(attempt) or self.place(attempt)
        place = self._places[attempt] = Place(env_steps + length, episodes + 1)
        return place
