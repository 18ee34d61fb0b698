"""Whether what invited clients tell of episodes is backed by the samples that came of them. Pure.

An episode is told before its last steps come, and not all steps come: some are dropped, lost, or made by a
person. So an episode waits for a time, and the newest of a client together are compared with the newest ones
of which the trainer has samples: there may be twice as many, and their means may differ by as much as the
samples are large.
"""

from collections import defaultdict
from collections.abc import Iterable, Set
from typing import NamedTuple

from soulsgui.telemetry.intake import Arrival, DropReason, Refusal
from soulsgui.wire.keys import EntryId, is_own_name
from soulsgui.wire.messages.node import Arrived, NodeState
from soulsgui.wire.messages.session import Episode

WAITS_S = 60.0
"""So long an episode waits for its steps, as far as the trainer takes samples meanwhile."""

_NEWEST = 100.0  # of so many episodes the means are compared, as the trainer tells them
_TIMES = 2.0
_ROUNDING = 1.001
_MOST_WAITING = 1024  # episodes of a client
_LONGEST_GAP_S = 2.0  # more time between two looks at the trainer is not counted
_TAKES = ("waiting", "collecting")  # phases of a trainer that would take what comes


class Account:
    """What a client has told that counted, and what came of it."""

    def __init__(self) -> None:
        self.arrived: Arrived | None = None
        self._told = 0
        self._newest = (0.0, 0.0, 0.0)  # episodes, steps, sum of returns

    def backs(self, episode: Episode) -> bool:
        """Whether an episode fits to what came, beside those that count; then it counts as well."""
        if self.arrived is None:
            return False
        (count, length, mean, size), (episodes, steps, returns) = self.arrived, self._newest
        episodes, steps, returns = episodes + 1, steps + episode.length, returns + episode.total_return
        # What was told before this account began is taken to be like what came.
        compared = max(episodes, min(count, _NEWEST)) * _ROUNDING
        if (
            self._told + 1 > _TIMES * count
            or steps - length * episodes > (_TIMES - 1) * length * compared
            or abs(returns - mean * episodes) > (_TIMES - 1) * size * compared
        ):
            return False
        self._told += 1
        kept = min(_NEWEST / episodes, 1.0)
        self._newest = episodes * kept, steps * kept, returns * kept
        return True


class _Waiting(NamedTuple):
    arrival: Arrival
    until_s: float


class Backing:
    """Lets episodes of invited clients wait for their steps; those of the server's own count at once."""

    def __init__(self) -> None:
        self._accounts: defaultdict[str, Account] = defaultdict(Account)
        self._waiting: dict[str, list[_Waiting]] = {}
        self._attempt = -1
        self._steps = 0
        self._heard_at: float | None = None
        self._clock_s = 0.0  # for which the trainer took samples

    @property
    def waiting(self) -> Set[str]:
        """Of whom an episode waits."""
        return self._waiting.keys()

    def hear(self, trainer: NodeState, now: float) -> None:
        """Take in what the trainer told newly; another attempt of it begins to count anew."""
        if trainer.attempt != self._attempt:
            self._attempt = trainer.attempt
            self._accounts.clear()
        for client, account in list(self._accounts.items()):
            now_arrived, before = trainer.arrived.get(client), account.arrived
            if now_arrived is None or (before is not None and now_arrived.episodes < before.episodes):
                del self._accounts[client]  # whoever comes under its name is another
        for client, arrived in trainer.arrived.items():
            self._accounts[client].arrived = arrived
        took = trainer.phase in _TAKES or trainer.env_steps != self._steps
        if self._heard_at is not None and took:
            self._clock_s += min(now - self._heard_at, _LONGEST_GAP_S)
        self._heard_at, self._steps = now, trainer.env_steps

    def start_over(self) -> None:
        """Forget what waits: it is read again."""
        self._waiting.clear()

    def has_settled(self, client: str, entry: EntryId) -> bool:
        """Whether nothing of a client waits up to an entry."""
        waiting = self._waiting.get(client)
        return not waiting or entry < waiting[0].arrival.id

    def sort_out(self, arrivals: Iterable[Arrival]) -> tuple[list[Arrival], list[Refusal]]:
        """Return which episodes count now, and which never will, of new ones and of those that wait."""
        counted, refused = list[Arrival](), list[Refusal]()
        for new in arrivals:
            if is_own_name(new.client):
                counted.append(new)
            else:
                self._waiting.setdefault(new.client, []).append(_Waiting(new, self._clock_s + WAITS_S))
        for client, waiting in list(self._waiting.items()):
            account, left = self._accounts[client], list[_Waiting]()
            for one in waiting:
                if account.backs(one.arrival.episode):
                    counted.append(one.arrival)
                else:
                    left.append(one)
            kept = [one for one in left[-_MOST_WAITING:] if one.until_s > self._clock_s]
            refused += [Refusal(client, DropReason.UNBACKED)] * (len(left) - len(kept))
            self._waiting[client] = kept
            if not kept:
                del self._waiting[client]
        return counted, refused
