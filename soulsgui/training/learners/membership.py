"""Who takes part in a round, how much each samples, and when it is complete. Pure: time is passed in.

A round collects a quota of steps from each of its members with one set of weights. What becomes of it when
a member is lost is a matter of policy (`ppo.lost_member`): the round closes with the rest, waits, lets the
others make the missing steps, or the run stops.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Literal

from soulsgui.training.intake.sessions import LEFT, OFF_THE_LIST

Policy = Literal["shrink", "wait", "redistribute", "stop"]

BY_A_PERSON: frozenset[str] = frozenset({LEFT, OFF_THE_LIST, "finishing", "stopping"})
"""Why a client is gone when somebody sent it away: nobody waits for it then."""

_SAY_WAITING_AFTER_S = 2.0
_NAMES_SHOWN = 3


@dataclass
class RoundMember:
    """One client's part of the present round."""

    quota: int
    unit: int = 1
    delivered: int = 0  # accepted or refused
    before: int = 0  # of these in an earlier session
    refused_chunks: int = 0  # whose steps nobody can count
    asked_again: int = 0  # steps beyond the quota, in place of those
    speed: float | None = None  # steps a second until it had delivered its quota

    @property
    def complete(self) -> bool:
        """Whether it has delivered its share."""
        return self.delivered >= self.quota

    @property
    def missing(self) -> int:
        """Steps it still has to deliver."""
        return max(self.quota - self.delivered, 0)

    @property
    def share(self) -> int:
        """Steps it has to make in its present session, with those that it has made in it."""
        return self.quota - self.before + self.asked_again


@dataclass
class Round:
    """One round of collecting."""

    round_id: int
    timeout_s: float
    policy: Policy = "shrink"
    members: dict[str, RoundMember] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # who did not deliver, and why
    absent: dict[str, str] = field(default_factory=dict)  # who was lost and is waited for, and why
    stopped: str = ""
    elapsed_s: float = 0.0  # it stands still while the server is away
    waiting_s: float = 0.0  # of these, after some had delivered
    _deadline_s: float = 0.0

    @classmethod
    def begin(
        cls,
        round_id: int,
        steps_per_env: int,
        timeout_s: float,
        num_envs: Mapping[str, int],
        policy: Policy = "shrink",
        quotas: Mapping[str, int] | None = None,
    ) -> "Round":
        """Begin a round."""
        quotas = equal_quotas(steps_per_env, num_envs) if quotas is None else quotas
        members = {client: RoundMember(quotas[client], count) for client, count in num_envs.items()}
        return cls(round_id, timeout_s, policy, members, _deadline_s=timeout_s)

    def deliver(self, client: str, steps: int) -> None:
        """Count steps that arrived for this round, accepted or refused."""
        member = self.members.get(client)
        if member is not None:
            member.delivered += steps
            if member.complete:
                self.absent.pop(client, None)

    def lose(self, reasons: Mapping[str, str], speeds: Mapping[str, float] | None = None) -> list[str]:
        """Treat members that won't deliver the rest, by the policy; return those whose quota has grown."""
        lost = {client: self.members[client] for client in reasons if client in self.members}
        lost = {client: member for client, member in lost.items() if not member.complete}
        for client in list(lost):
            if self.policy == "wait" and reasons[client] not in BY_A_PERSON:
                self.absent[client] = reasons[client]
                del lost[client]
        for client in lost:
            del self.members[client]
            self.absent.pop(client, None)
            self.left_out[client] = reasons[client]
        if lost and self.policy == "stop":
            self.stopped = f"The round lost {named({client: reasons[client] for client in lost})}"
        if self.policy == "redistribute":
            return self._give_to_others(sum(member.missing for member in lost.values()), speeds or {})
        return []

    def _give_to_others(self, steps: int, speeds: Mapping[str, float]) -> list[str]:
        members = {
            client: QuotaMember(speeds[client], member.missing, member.unit)
            for client, member in self.members.items()
            if client in speeds
        }
        if not steps or not members:
            return []
        grown = {client: more for client, more in share_out(steps, members).items() if more}
        for client, more in grown.items():
            self.members[client].quota += more
        self._deadline_s = self.elapsed_s + self.timeout_s
        return sorted(grown)

    def ask_again(self, client: str) -> RoundMember | None:
        """Let a member make what is missing once more, as a chunk of it can't be used.

        How many steps that held is not known. What is asked for in its place may be too much: the round is
        complete without the rest. Returns the member, or None when the round does not wait for it.
        """
        member = self.members.get(client)
        if member is None or member.complete:
            return None
        member.refused_chunks += 1
        member.asked_again += member.missing
        return member

    def returned(self, client: str) -> None:
        """Take note that a member that was waited for is there again; it may be late all the same."""
        if self.elapsed_s < self._deadline_s:
            self.absent.pop(client, None)
        elif client in self.absent:
            self.absent[client] = self._too_late

    def begin_session(self, client: str, num_envs: int) -> RoundMember | None:
        """Let a member go on in a new session; return it, or None when the round does not wait for it."""
        member = self.members.get(client)
        if member is None or self.policy != "wait" or member.complete:
            return None
        member.before, member.asked_again, member.unit = member.delivered, 0, num_envs
        self.absent.pop(client, None)
        return member

    def pass_time(self, seconds: float) -> dict[str, str]:
        """Let collecting time pass; return the members that are late now, with the reason, for `lose`."""
        self.elapsed_s += seconds
        complete = [member for member in self.members.values() if member.complete]
        for member in complete:
            if member.speed is None and self.elapsed_s > 0:
                member.speed = member.delivered / self.elapsed_s
        if complete:
            self.waiting_s += seconds
        if self.elapsed_s < self._deadline_s:
            return {}
        late = [client for client, member in self.members.items() if not member.complete]
        return {client: self._too_late for client in late if client not in self.absent}

    @property
    def _too_late(self) -> str:
        return f"did not deliver within {self.timeout_s:g} s"

    @property
    def complete(self) -> bool:
        """Whether every member that is left has delivered."""
        return all(member.complete for member in self.members.values())

    @property
    def at_rest(self) -> bool:
        """Whether nobody makes anything for it: all have delivered but those who are waited for."""
        others = (member for client, member in self.members.items() if client not in self.absent)
        return bool(self.absent) and all(member.complete for member in others)

    @property
    def waits_for(self) -> str:
        """Who holds the round up, in words; empty while nobody does, or not for long yet."""
        if self.absent:
            return f"waiting for {named(self.absent)}"
        refused = {
            client: f"{member.refused_chunks} refused"
            for client, member in self.members.items()
            if member.refused_chunks and not member.complete
        }
        if refused:
            return f"asking again for chunks of {named(refused)}"
        late = [client for client, member in self.members.items() if not member.complete]
        if not late or self.waiting_s <= _SAY_WAITING_AFTER_S:
            return ""
        return f"waiting for {named(late)}"


def named(clients: Mapping[str, str] | Collection[str]) -> str:
    """Return clients in words, such as `b (paused), c and 2 more`."""
    reasons = clients if isinstance(clients, Mapping) else {}
    names = sorted(clients)
    words = [f"{name} ({reasons[name]})" if name in reasons else name for name in names[:_NAMES_SHOWN]]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(words)}{more}"


_NEWEST = 0.3  # weight of the newest measurement in a member's speed

_WORTH_IT = 0.8
"""Other than equal quotas are given only where the round becomes at least a fifth shorter by them: they cost
the even mixture of the data, and with it the reproducible curve of several equal clients."""

_LEAST_PART = 1 / 16
"""No member is given less than this part of an equal quota: how fast it is would not be known any more."""


@dataclass(frozen=True)
class QuotaMember:
    """Somebody who can take a part of some steps."""

    speed: float
    waiting: int = 0  # steps it has to make before
    unit: int = 1  # steps it makes at once


def share_out(steps: int, members: Mapping[str, QuotaMember]) -> dict[str, int]:
    """Share steps out so that the last of all ends as early as possible; every step is given to somebody.

    With `w_i` waiting and speed `v_i`, member i gets `x_i = max(0, T v_i - w_i)`, where the common end `T` is
    such that the `x_i` add up to `steps` (water filling): who has too much waiting already gets nothing.
    The parts are rounded to whole units as far as the sum allows.
    """
    end = _common_end(steps, members.values())
    parts = {name: max(0.0, end * one.speed - one.waiting) for name, one in members.items()}
    given = {name: int(part) // members[name].unit * members[name].unit for name, part in parts.items()}
    left = steps - sum(given.values())
    # Who is furthest below its part goes first; of equal ones the first by name: repeatable.
    waiting = [(given[name] - parts[name], name) for name in members]
    heapify(waiting)
    last: tuple[float, str] | None = None  # the first of those whose unit is too large: it takes what is left
    while left > 0 and waiting:
        place = heappop(waiting)
        name = place[1]
        unit = members[name].unit
        if unit > left:
            last = min(last or place, place)
            continue
        given[name] += unit
        left -= unit
        heappush(waiting, (given[name] - parts[name], name))
    if left > 0 and last is not None:
        given[last[1]] += left
    return given


def _common_end(steps: int, members: Iterable[QuotaMember]) -> float:
    """Return when all who get something end, in seconds."""
    waiting = speed = end = 0.0
    for one in sorted(members, key=lambda one: one.waiting / one.speed):
        if speed and one.waiting / one.speed >= end:
            break
        waiting, speed = waiting + one.waiting, speed + one.speed
        end = (steps + waiting) / speed
    return end


def equal_quotas(steps_per_env: int, num_envs: Mapping[str, int]) -> dict[str, int]:
    """Return the steps each member delivers when every environment makes as many."""
    return {client: steps_per_env * count for client, count in num_envs.items()}


def balanced_quotas(
    steps_per_env: int, num_envs: Mapping[str, int], speeds: Mapping[str, float]
) -> dict[str, int]:
    """Return each member's steps so that all end together; equal ones where little time would be won."""
    equal = equal_quotas(steps_per_env, num_envs)
    if len(equal) < 2:
        return equal
    least = {
        client: max(int(quota * _LEAST_PART) // num_envs[client], 1) * num_envs[client]
        for client, quota in equal.items()
    }
    members = {client: QuotaMember(speeds[client], least[client], num_envs[client]) for client in equal}
    more = share_out(sum(equal.values()) - sum(least.values()), members)
    balanced = {client: least[client] + more[client] for client in equal}
    return balanced if _seconds(balanced, speeds) <= _WORTH_IT * _seconds(equal, speeds) else equal


def _seconds(quotas: Mapping[str, int], speeds: Mapping[str, float]) -> float:
    return max(quota / speeds[client] for client, quota in quotas.items())


class Speeds:
    """How fast each client is, measured by what it delivered in its rounds."""

    def __init__(self) -> None:
        self._per_env: dict[str, float] = {}

    def note(self, client: str, steps_per_s: float, num_envs: int) -> None:
        """Take note of a share that was delivered."""
        newest = steps_per_s / num_envs
        before = self._per_env.get(client, newest)
        self._per_env[client] = before + _NEWEST * (newest - before)

    def of(self, num_envs: Mapping[str, int]) -> dict[str, float]:
        """Return the steps per second of clients; those not measured yet count as typical ones."""
        known = sorted(self._per_env[client] for client in num_envs if client in self._per_env)
        typical = known[len(known) // 2] if known else 1.0
        found = {client: self._per_env.get(client, typical) * count for client, count in num_envs.items()}
        return {client: max(speed, math.ulp(1.0)) for client, speed in found.items()}

    def forget_all_but(self, clients: Iterable[str]) -> None:
        """Drop what is known of clients that are gone."""
        kept = set(clients)
        self._per_env = {client: speed for client, speed in self._per_env.items() if client in kept}
