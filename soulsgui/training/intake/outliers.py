"""Whose numbers are of another size than those of the others. Pure.

Sizes are compared as powers of ten, by median and median absolute deviation: no single client moves them.
The server's own clients are the measure where they play, and else all clients, at least three. Who explores
more, or plays better, has other numbers, but not of another size: hence a distance of whole powers of ten,
and zeros say nothing.
"""

import math
from statistics import median

from soulsgui.wire.keys import is_own_name

_LEAST = 100.0  # numbers that a mean is taken over at least: a single large one is no outlier
_MOST = 1000.0  # so much of the past counts: an honest one pays for nothing later
_LEAST_CLIENTS = 3
_SPREADS = 3.0  # beyond so many deviations of a fleet that differs widely by itself
_DEVIATION = 1.4826  # of normal numbers in median absolute deviations


class Sizes:
    """The mean size of what each client has sent lately.

    Those of whom fewer than `measured_from` numbers came are no measure for others.
    """

    def __init__(self, measured_from: float = 0.0) -> None:
        self._measured_from = measured_from
        self._seen: dict[str, tuple[float, float]] = {}  # sum of the newest sizes, and how many they are
        self._own: set[str] = set()  # clients of the server
        self._released: set[str] = set()

    def note(self, client: str, total: float, count: float) -> None:
        """Take in how large so many numbers of a client are together, zeros left out."""
        if client not in self._seen and is_own_name(client):
            self._own.add(client)
        before, known = self._seen.get(client, (0.0, 0.0))
        total, count = before + total, known + count
        kept = min(_MOST / count, 1.0) if count else 1.0
        self._seen[client] = total * kept, count * kept

    def release(self, client: str) -> None:
        """Begin anew with a client, and never call it an outlier again: somebody has looked at it."""
        self.forget(client)
        self._released.add(client)

    def forget(self, client: str) -> None:
        """Begin anew with whoever comes under a client's name."""
        self._seen.pop(client, None)
        self._released.discard(client)

    def outliers(self, decades: float) -> dict[str, str]:
        """Say whose numbers are so many powers of ten larger than those of the others, in words."""
        sizes = self._sizes()
        measures = sizes
        if self._measured_from:
            measures = {
                client: _size(total, count)
                for client, (total, count) in self._seen.items()
                if count >= self._measured_from
            }
        measure = [measures[client] for client in self._own & measures.keys()]
        if not measure and len(measures) >= _LEAST_CLIENTS:
            measure = list(measures.values())
        if not measure:
            return {}
        middle = median(measure)
        spread = _DEVIATION * median(abs(size - middle) for size in measure)
        limit = middle + max(decades, _SPREADS * spread)
        return {
            client: f"{10 ** (size - middle):.2g} times as large as those of the others"
            for client, size in sizes.items()
            if size > limit and client not in self._own | self._released
        }

    def two_apart(self, decades: float) -> str:
        """Say of two who play alone whose numbers are that much larger; which are right is unknown."""
        if len(self._seen) != 2 or self._own:
            return ""
        sizes = self._sizes()
        small, large = sorted(sizes, key=lambda client: sizes[client])
        times = 10 ** (sizes[large] - sizes[small])
        return f"{large} are {times:.2g} times as large as those of {small}" if times > 10**decades else ""

    def _sizes(self) -> dict[str, float]:
        return {client: _size(total, max(count, _LEAST)) for client, (total, count) in self._seen.items()}


def _size(total: float, count: float) -> float:
    return math.log10(total / count) if total else 0.0
