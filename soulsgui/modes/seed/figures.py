"""What an inference server counts."""

import bisect
from dataclasses import dataclass, field

from soulsgui.wire.messages.heartbeat import ROUND_TRIP_BOUNDS_MS, ROWS_BOUNDS, InferenceFigures


@dataclass
class InferenceCount:
    """Counts what `heartbeat.InferenceFigures` tells; its fields are described there."""

    generation: int = 0
    clients: int = 0
    actions: int = 0
    repeated: int = 0
    expired: int = 0
    unreadable: int = 0
    begun_anew: int = 0
    swaps: int = 0
    rows: list[int] = field(default_factory=lambda: [0] * (len(ROWS_BOUNDS) + 1))
    round_trips: list[int] = field(default_factory=lambda: [0] * (len(ROUND_TRIP_BOUNDS_MS) + 1))

    def chose(self, actions: int) -> None:
        """Count a batch."""
        self.actions += actions
        self.rows[bisect.bisect_left(ROWS_BOUNDS, actions)] += 1

    def took(self, round_trip_ms: float) -> None:
        """Count how long a client waited for an answer."""
        self.round_trips[bisect.bisect_left(ROUND_TRIP_BOUNDS_MS, round_trip_ms)] += 1

    def told(self) -> InferenceFigures:
        """Return the figures as of now."""
        return InferenceFigures(**vars(self))
