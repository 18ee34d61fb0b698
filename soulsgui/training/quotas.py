"""How much each member of a round samples, so that all end at about the same time. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

_NEWEST = 0.3
"""Weight of the newest measurement in a member's speed."""

_WORTH_IT = 0.8
"""Other than equal quotas are given only where the round becomes at least a fifth shorter by them: they cost
the even mixture of the data, and with it the reproducible curve of several equal clients."""

_LEAST_PART = 1 / 16
"""No member is given less than this part of an equal quota: how fast it is would not be known any more."""


@dataclass(frozen=True)
class Sharer:
    """Somebody who can take a part of some steps.

    Attributes:
        speed: Its steps per second, above 0.
        waiting: Steps it has to make before.
        unit: Steps it makes at once: its environments side by side.
    """

    speed: float
    waiting: int = 0
    unit: int = 1


def share_out(steps: int, sharers: Mapping[str, Sharer]) -> dict[str, int]:
    """Share steps out so that the last of all ends as early as possible; every step is given to somebody.

    With `w_i` waiting and speed `v_i`, member i gets `x_i = max(0, T v_i - w_i)`, where the common end `T` is
    such that the `x_i` add up to `steps` (water filling): who has too much waiting already gets nothing.
    The parts are rounded to whole units as far as the sum allows.

    Args:
        steps: How many, at least 0.
        sharers: At least one, by name.
    """
    end = _common_end(steps, sharers.values())
    parts = {name: max(0.0, end * one.speed - one.waiting) for name, one in sharers.items()}
    given = {name: int(part) // sharers[name].unit * sharers[name].unit for name, part in parts.items()}
    left = steps - sum(given.values())
    # Who is furthest below its part goes first; of equal ones the first by name: repeatable.
    waiting = [(given[name] - parts[name], name) for name in sharers]
    heapify(waiting)
    last: tuple[float, str] | None = None  # the first of those whose unit is too large: it takes what is left
    while left > 0 and waiting:
        place = heappop(waiting)
        name = place[1]
        unit = sharers[name].unit
        if unit > left:
            last = min(last or place, place)
            continue
        given[name] += unit
        left -= unit
        heappush(waiting, (given[name] - parts[name], name))
    if left > 0 and last is not None:
        given[last[1]] += left
    return given


def _common_end(steps: int, sharers: Iterable[Sharer]) -> float:
    """Return when all who get something end, in seconds."""
    waiting = speed = end = 0.0
    for one in sorted(sharers, key=lambda one: one.waiting / one.speed):
        if speed and one.waiting / one.speed >= end:
            break
        waiting, speed = waiting + one.waiting, speed + one.speed
        end = (steps + waiting) / speed
    return end


def equal_quotas(steps_per_env: int, num_envs: Mapping[str, int]) -> dict[str, int]:
    """Return the steps each member delivers when every environment makes as many.

    Args:
        steps_per_env: Steps of each environment.
        num_envs: Environments of each member.
    """
    return {client: steps_per_env * count for client, count in num_envs.items()}


def balanced_quotas(
    steps_per_env: int, num_envs: Mapping[str, int], speeds: Mapping[str, float]
) -> dict[str, int]:
    """Return the steps each member delivers so that all end at about the same time.

    The sum is that of equal quotas. Where little would be gained the quotas are equal.

    Args:
        steps_per_env: Steps of each environment, on average.
        num_envs: Environments of each member.
        speeds: Steps per second of each member, above 0.
    """
    equal = equal_quotas(steps_per_env, num_envs)
    if len(equal) < 2:
        return equal
    least = {
        client: max(int(quota * _LEAST_PART) // num_envs[client], 1) * num_envs[client]
        for client, quota in equal.items()
    }
    sharers = {client: Sharer(speeds[client], least[client], num_envs[client]) for client in equal}
    more = share_out(sum(equal.values()) - sum(least.values()), sharers)
    balanced = {client: least[client] + more[client] for client in equal}
    return balanced if _seconds(balanced, speeds) <= _WORTH_IT * _seconds(equal, speeds) else equal


def _seconds(quotas: Mapping[str, int], speeds: Mapping[str, float]) -> float:
    return max(quota / speeds[client] for client, quota in quotas.items())


class Speeds:
    """How fast each client is, measured by what it delivered in its rounds."""

    def __init__(self) -> None:
        self._per_env: dict[str, float] = {}

    def note(self, client: str, steps_per_s: float, num_envs: int) -> None:
        """Take note of a share that was delivered.

        Args:
            client: By whom.
            steps_per_s: Its steps by the seconds from the beginning of the round to the last of them.
            num_envs: Environments it steps side by side.
        """
        newest = steps_per_s / num_envs
        before = self._per_env.get(client, newest)
        self._per_env[client] = before + _NEWEST * (newest - before)

    def of(self, num_envs: Mapping[str, int]) -> dict[str, float]:
        """Return the steps per second of clients; those not measured yet count as typical ones.

        Args:
            num_envs: Environments of each.
        """
        known = sorted(self._per_env[client] for client in num_envs if client in self._per_env)
        typical = known[len(known) // 2] if known else 1.0
        found = {client: self._per_env.get(client, typical) * count for client, count in num_envs.items()}
        return {client: max(speed, math.ulp(1.0)) for client, speed in found.items()}

    def forget_all_but(self, clients: Iterable[str]) -> None:
        """Drop what is known of clients that are gone."""
        kept = set(clients)
        self._per_env = {client: speed for client, speed in self._per_env.items() if client in kept}
