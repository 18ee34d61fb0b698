"""How the transitions that may be on their way are divided among clients. Pure: time is passed in.

Half of them evenly, half by what each client delivers. A thousand slow clients use up little of what they may
have, and would yet hold a fast one down if all had the same; and one that has just come gets enough to show
what it can do. Clients that could all deliver more end with equal parts, whatever they began with.
"""

from collections.abc import Mapping
from math import inf

_HALF_LIFE_S = 2.0


class Shares:
    """Measures what each client delivers, and divides by it.

    Args:
        half_life_s: What lies back so long counts half as much.
    """

    def __init__(self, half_life_s: float = _HALF_LIFE_S) -> None:
        self._half_life_s = half_life_s
        self._steps: dict[str, int] = {}
        self._pace: dict[str, float] = {}
        self._total = 0.0
        self._measured_at = -inf

    def measure(self, steps: Mapping[str, int], now: float) -> None:
        """Take note of what has come.

        Args:
            steps: Transitions received so far in its session, by client; who is left out is forgotten.
            now: Monotonic time, seconds.
        """
        seconds = now - self._measured_at
        if seconds <= 0:
            return
        news = 1.0 - 0.5 ** (seconds / self._half_life_s)
        paces = {}
        for client, count in steps.items():
            before = self._pace.get(client, 0.0)
            pace = max(count - self._steps.get(client, count), 0) / seconds
            paces[client] = before + news * (pace - before)
        self._steps, self._pace, self._measured_at = dict(steps), paces, now
        self._total = sum(paces.values())

    def part(self, client: str, sharers: int) -> float:
        """Return the part of one client, 0 to 1.

        Args:
            client: The client.
            sharers: How many share.
        """
        even = 1.0 / max(sharers, 1)
        delivers = self.delivered(client)
        return even if delivers is None else 0.5 * even + 0.5 * delivers

    def delivered(self, client: str) -> float | None:
        """Return which part of what comes is of this client, 0 to 1; None while nothing comes."""
        return self._pace.get(client, 0.0) / self._total if self._total > 0 else None
