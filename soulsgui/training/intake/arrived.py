"""What came of each invited client's episodes, for telemetry to judge what is told of them by. Pure."""

from collections.abc import Iterable

from soulsgui.wire.keys import is_own_name
from soulsgui.wire.messages.node import Arrived

NEWEST_EPISODES = 100.0
"""Of so many of a client is told what they are like."""


class ArrivedEpisodes:
    """What the episodes of each invited client are like, by the samples that came of it."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float, float, float, float]] = {}

    def note(self, client: str, episodes: int, steps: float, total: float, size: float) -> None:
        """Take in how many episodes ended in so many steps, with the sums of their (absolute) rewards."""
        if client not in self._seen and is_own_name(client):
            return
        count, *before = self._seen.get(client, (0, 0.0, 0.0, 0.0, 0.0))
        newest = [old + new for old, new in zip(before, (episodes, steps, total, size), strict=True)]
        kept = min(NEWEST_EPISODES / newest[0], 1.0) if newest[0] else 1.0
        ended, length, returns, sizes = (one * kept for one in newest)
        self._seen[client] = count + episodes, ended, length, returns, sizes

    def forget(self, client: str) -> None:
        """Begin anew with whoever comes under a client's name."""
        self._seen.pop(client, None)

    def told(self, clients: Iterable[str]) -> dict[str, Arrived]:
        """Return what came of those clients of which an episode did."""
        found = {client: self._seen[client] for client in clients if client in self._seen}
        return {
            client: Arrived(count, *(float(f"{one / episodes:.6g}") for one in (steps, total, size)))
            for client, (count, episodes, steps, total, size) in found.items()
            if episodes
        }
