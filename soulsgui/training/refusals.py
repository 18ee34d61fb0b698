"""What was refused in an attempt, as it is told."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Refusals:
    """What was refused in this attempt.

    Attributes:
        total: Segments by reason.
        by_client: The same for each client that is listed.
        missing: Chunks missing by their numbers.
    """

    total: dict[str, int] = field(default_factory=dict)
    by_client: dict[str, dict[str, int]] = field(default_factory=dict)
    missing: int = 0
