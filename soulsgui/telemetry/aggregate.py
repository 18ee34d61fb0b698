"""Moving mean, best model and goal of a run, computed from its episodes. Pure.

A new attempt carries the window of the curve it goes on with, so that the shown mean goes on too. What counts
(best model, goal) are only windows full of episodes of one attempt: never what a resume overwrote. Where
invited clients play among others, it takes several of them: no single one decides.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, median_low
from typing import Literal, NamedTuple

from soulsgui.wire.keys import is_own_name
from soulsgui.wire.messages.metrics import AttemptStart

Judge = Literal["training", "evaluation", "both"]
"""Whose mean return reaches the goal; `both`: training episodes claim it, greedy episodes confirm it."""

_WINDOWS_KEPT = 4  # attempts whose stragglers still get a window of their own


class Window:
    """The last returns and their mean.

    The sum is kept exactly (grow-expansion; Shewchuk 1997, "Adaptive Precision Floating-Point Arithmetic"),
    so that the mean depends on the returns within the window alone, never on what went through it before.
    """

    def __init__(self, size: int, carried: Iterable[float] = ()) -> None:
        self._size = size
        self._values: deque[float] = deque()
        self._models: deque[int] = deque(maxlen=size)  # of what came through `add`
        self._clients: deque[str] = deque(maxlen=size)
        self._partials: list[float] = []
        for value in carried:
            self._take(value)

    @property
    def mean(self) -> float | None:
        """Mean of what it holds, correctly rounded; None while it is empty."""
        return math.fsum(self._partials) / len(self._values) if self._values else None

    @property
    def full(self) -> bool:
        """Whether all it holds came through `add`, as many as it can hold."""
        return len(self._models) == self._size

    @property
    def model_id(self) -> int:
        """The model that played most of what came through `add`, the newest of several."""
        counts = Counter(self._models)
        return max(counts, key=lambda model_id: (counts[model_id], model_id))

    @property
    def has_strangers(self) -> bool:
        """Whether any of what came through `add` is of an invited client."""
        return not all(map(is_own_name, self._clients))

    @property
    def agreed(self) -> float | None:
        """Median of the means by client, the lower one of two, when full; None of one client alone."""
        returns: defaultdict[str, list[float]] = defaultdict(list)
        for client, value in zip(self._clients, self._values, strict=True):
            returns[client].append(value)
        return median_low(map(mean, returns.values())) if len(returns) > 1 else None

    def add(self, value: float, model_id: int, client: str) -> None:
        """Take in one return, and whose it is, and let go of the oldest one when there are too many."""
        self._take(value)
        self._models.append(model_id)
        self._clients.append(client)

    def _take(self, value: float) -> None:
        if len(self._values) == self._size:
            self._accumulate(-self._values.popleft())
        self._values.append(value)
        self._accumulate(value)

    def _accumulate(self, value: float) -> None:
        kept = 0
        partials = self._partials
        for partial in partials:
            if abs(value) < abs(partial):
                value, partial = partial, value
            high = value + partial
            low = partial - (high - value)
            if low:
                partials[kept] = low
                kept += 1
            value = high
        partials[kept:] = [value]


@dataclass(frozen=True)
class Best:
    """The best full window so far, or the best evaluation."""

    score: float
    model_id: int


class Aggregator:
    """What the episodes of a run amount to."""

    def __init__(
        self,
        window: int,
        goal: float | None,
        best: Best | None = None,
        judged_by: Judge = "training",
        players: Iterable[str] = (),
    ) -> None:
        self._players = set(players)  # everybody who has played in this run
        self.window = window
        self.goal = goal
        self.best = best
        self.judged_by: Judge = judged_by
        self.claim: float | None = None  # mean return of training that is to be confirmed
        self.refuted = -1  # newest model whose claim was refuted
        self.claims_in = 0  # episodes until a claim may be made again
        self.attempt = 0
        self.reached_with: float | None = None
        self._windows: dict[int, Window] = {0: Window(window)}

    @property
    def reached(self) -> bool:
        """Whether the goal was reached."""
        return self.reached_with is not None

    @property
    def shared(self) -> bool:
        """Whether an invited client has played in this run, and another one."""
        return len(self._players) > 1 and not all(map(is_own_name, self._players))

    @property
    def mean_return(self) -> float | None:
        """Mean of the last `window` episodes on the curve, fewer at its beginning; None before the first."""
        return self._windows[self.attempt].mean

    def begin_attempt(
        self, attempt: int, carried: Iterable[float], own: Iterable[tuple[float, int, str]] = ()
    ) -> None:
        """Go on with an attempt; its goal is open again."""
        self.attempt = attempt
        self.reached_with = self.claim = None
        self.refuted, self.claims_in = -1, 0
        window = self._windows[attempt] = Window(self.window, carried)
        for value, model_id, client in own:
            window.add(value, model_id, client)
        while len(self._windows) > _WINDOWS_KEPT:
            del self._windows[min(self._windows)]

    def add(self, attempt: int, total_return: float, model_id: int, client: str) -> float:
        """Take in one finished episode; return the mean return up to it."""
        self._note_player(client)
        window = self._windows.get(attempt)
        if window is None:
            window = self._windows[attempt] = Window(self.window)
        window.add(total_return, model_id, client)
        shown = window.mean
        assert shown is not None
        if attempt == self.attempt:
            self.claims_in = max(self.claims_in - 1, 0)
        mean = (window.agreed if self.shared and window.has_strangers else shown) if window.full else None
        if mean is not None:
            if self.best is None or mean > self.best.score:
                self.best = Best(mean, window.model_id)
            may_claim = self.claim is None and not self.claims_in and model_id > self.refuted
            if self.judged_by == "training":
                self.judge(attempt, mean)
            elif self.judged_by == "both" and may_claim and self._reaches(attempt, mean):
                self.claim = mean
        return shown

    def _note_player(self, client: str) -> None:
        """Take note of who plays: what an invited one was best at alone counts no more among others."""
        if client not in self._players and len(self._players) == 1 and not is_own_name(*self._players):
            self.best = None
        self._players.add(client)

    def judge(self, attempt: int, mean: float) -> None:
        """Compare a mean return with the goal; one of an earlier attempt can't reach it."""
        if self._reaches(attempt, mean):
            self.reached_with = mean

    def _reaches(self, attempt: int, mean: float) -> bool:
        reaches = self.goal is not None and mean >= self.goal
        return reaches and attempt == self.attempt and not self.reached

    def answer(self, mean: float | None = None, model_id: int = -1) -> None:
        """Take in the answer to the claim; a refuted one needs a whole new window and newer weights."""
        claim, self.claim = self.claim, None
        if mean is None or (self.goal is not None and mean >= self.goal):
            self.reached_with = claim
        else:
            self.refuted, self.claims_in = model_id, self.window


def best_of(window: int, episodes: Iterable[tuple[int, float, int, str]]) -> Best | None:
    """Return the best full window of a whole history."""
    aggregator = Aggregator(window, None)
    for episode in episodes:
        aggregator.add(*episode)
    return aggregator.best


class Limit(NamedTuple):
    """How far an attempt's rows are still part of the curve; infinite while no later attempt went back."""

    env_steps: float = math.inf
    episodes: float = math.inf
    updates: float = math.inf

    def overwrites_episode(self, env_steps: int, episode: int) -> bool:
        """Whether an episode at this place is overwritten: beyond the limit on either axis."""
        return env_steps > self.env_steps or episode > self.episodes


class Limits:
    """The limit of every attempt."""

    def __init__(self, starts: Iterable[AttemptStart]) -> None:
        self._starts = list(starts)
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
    """Where each attempt stands."""

    def __init__(self, starts: Iterable[AttemptStart], places: dict[int, Place]) -> None:
        self._starts = {start.attempt: start for start in starts}
        self._places = dict(places)

    @property
    def attempt(self) -> int:
        """The newest attempt, 0 before the first."""
        return max([*self._starts, *self._places], default=0)

    def begin(self, start: AttemptStart) -> bool:
        """Note where an attempt begins; return whether it was new."""
        if start.attempt in self._starts:
            return False
        self._starts[start.attempt] = start
        return True

    def place(self, attempt: int) -> Place:
        """Return where an attempt stands; one whose beginning is unknown goes on behind the last one."""
        if attempt in self._places:
            return self._places[attempt]
        if attempt in self._starts:
            start = self._starts[attempt]
            return Place(start.env_steps, start.episodes)
        earlier = [one for one in (*self._starts, *self._places) if one < attempt]
        return self.place(max(earlier)) if earlier else Place()

    def advance(self, attempt: int, length: int) -> Place:
        """Go on by one finished episode of `length` steps and return the place after it."""
        env_steps, episodes = self.place(attempt)
        place = self._places[attempt] = Place(env_steps + length, episodes + 1)
        return place
