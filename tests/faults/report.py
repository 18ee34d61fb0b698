"""What a test of a fault prints: what was injected, what was lost, how long recovery took."""

from dataclasses import dataclass, field


@dataclass
class Report:
    """Gathers the facts of one test; the fixture `report` prints them at its end."""

    lines: list[str] = field(default_factory=list)

    def injected(self, what: str) -> None:
        """Note what was done to the system."""
        self.lines.append(f"injected: {what}")

    def lost(self, count: int, what: str) -> None:
        """Note what was lost by it."""
        self.lines.append(f"lost: {count:,} {what}")

    def recovered(self, seconds: float) -> None:
        """Note how long it took until all was well again."""
        self.lines.append(f"recovered in {seconds:.2f} s")
